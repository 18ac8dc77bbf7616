package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// onEachDriver runs a test with a server of each driver that works here.
func onEachDriver(t *testing.T, f func(t *testing.T, h *house)) {
	t.Helper()
	for _, driver := range []string{DriverCopy, DriverOverlay} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			if why := OverlayRefusal(t.Context(), t.TempDir()); driver == DriverOverlay && why != "" {
				t.Skip("overlay does not work here: " + why)
			}
			if driver == DriverOverlay {
				namespacestest.Mounting(t)
			}
			cfg := testConfig(t)
			cfg.Driver = driver
			f(t, newHouse(t, cfg))
		})
	}
}

func (h *house) reviews() ctxfsv1.ReviewServiceClient { return ctxfsv1.NewReviewServiceClient(h.cc) }

// changes lists what a context changed.
func (h *house) changes(ctx context.Context, req *ctxfsv1.ListChangesRequest) (map[string]*ctxfsv1.Change, *ctxfsv1.ChangesSummary) {
	h.t.Helper()
	stream, err := h.reviews().ListChanges(ctx, req)
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]*ctxfsv1.Change{}
	for {
		m, err := stream.Recv()
		if err != nil {
			h.t.Fatal(err)
		}
		if m.GetSummary() != nil {
			return out, m.GetSummary()
		}
		out[m.GetChange().GetPath()] = m.GetChange()
	}
}

// patch returns what a context changed, for git apply.
func (h *house) patch(id string) string {
	h.t.Helper()
	stream, err := h.reviews().GetDiff(h.t.Context(), &ctxfsv1.GetDiffRequest{ContextId: id, Form: ctxfsv1.DiffForm_DIFF_FORM_UNIFIED})
	if err != nil {
		h.t.Fatal(err)
	}
	var out strings.Builder
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			h.t.Fatal(err)
		}
		out.Write(m.GetText())
	}
}

// treeOf reads the files and links below a directory, with whether they are executable; .git and .contexts are left out.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".contexts"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			out[rel], err = os.Readlink(name)
			out[rel] = "-> " + out[rel]
			return err
		}
		data, err := os.ReadFile(name)
		if info, e := d.Info(); e == nil && info.Mode()&0o111 != 0 {
			out[rel] = "+x "
		}
		out[rel] += string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantTree(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for p, text := range want {
		if g, ok := got[p]; !ok || g != text {
			t.Errorf("%s: %s is %q, want %q", what, p, g, text)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s is there, and should not be", what, p)
		}
	}
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// reviewed prepares a workspace with files of all kinds, and a panel's context of it.
func (h *house) reviewed() *ctxfsv1.OpenPanelResponse {
	h.t.Helper()
	shell(h.t, h.in("app"), `
		mkdir -p src/deep kept old replaced type
		for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done > src/main.go
		cp src/main.go src/deep/a.go; cp src/main.go kept/b.go; cp src/main.go old/c.go; echo x > old/d.go; echo r > replaced/r; echo s > replaced/s
		echo t > type/file; ln -s src link; echo '#!/bin/sh' > run; touch empty; printf 'a\0b' > bin`)
	h.commit("app")
	h.serve()
	return h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"})
}

// edits are what an agent does to a context, with what overlayfs has a form of its own for.
const edits = `
	sed -i 's/line 3/line three/' src/main.go
	echo more >> src/deep/a.go
	touch kept/b.go; cat kept/b.go > /tmp/same.$$; cat /tmp/same.$$ > kept/b.go; rm /tmp/same.$$
	mv old renamed
	rm -r replaced; mkdir replaced; echo new > replaced/r
	rm type/file; rmdir type; echo 'a file' > type
	rm link; ln -s run link
	chmod +x run
	mkdir -p new/dir; echo n > new/dir/n; touch new/empty
	printf 'a\0c' > bin
	rm empty; mkdir empty; echo e > empty/e
	rm app.txt
	mkdir -p renamed/again; mv renamed/d.go renamed/again/d.go`

func TestReviewOnEveryDriver(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		panel := h.reviewed()
		id := panel.GetContextId()
		before := treeOf(t, h.in("app"))
		copied := t.TempDir()
		shell(t, copied, "cp -a "+h.in("app")+" app && rm -rf app/.git")
		context := filepath.Join(h.r.Info().ContextsDir, id)
		shell(t, filepath.Join(context, "app"), edits)
		want := treeOf(t, filepath.Join(context, "app"))

		all, summary := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
		if all["/app/kept/b.go"] != nil || all["/app/src/main.go"].GetHunks() != 1 || summary.GetRevision() == "" {
			t.Errorf("the changes are %v", all)
		}
		patch := h.patch(id)
		write(t, filepath.Join(copied, "patch"), patch)
		shell(t, copied, "GIT_CEILING_DIRECTORIES=/ git apply --whitespace=nowarn patch")
		wantTree(t, "git apply", treeOf(t, filepath.Join(copied, "app")), want)

		fork, err := ctxfsv1.NewContextServiceClient(h.cc).Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"})
		if err != nil {
			t.Fatal(err)
		}
		sel := &ctxfsv1.SelectedChanges{}
		for path := range all {
			sel.Changes = append(sel.Changes, &ctxfsv1.SelectedChange{Path: path, ChangeId: all[path].GetChangeId()})
		}
		applied, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{
			ContextId: id, Approve: true, IfRevision: summary.GetRevision(), Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: sel}},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantTree(t, "applied", treeOf(t, h.in("app")), want)
		if left, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id}); len(left) != 0 {
			t.Errorf("after the apply there are the changes %v", left)
		}
		forked, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: fork.GetContext().GetContextId()})
		if len(forked) != len(all) {
			t.Errorf("the fork of before has %d changes, want %d", len(forked), len(all))
		}
		h.serve() // the state is on disk
		if left, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id}); len(left) != 0 {
			t.Errorf("after another start there are the changes %v", left)
		}
		if _, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: applied.GetJournalId()}); err != nil {
			t.Fatal(err)
		}
		wantTree(t, "undone", treeOf(t, h.in("app")), before)
		if again, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id}); len(again) != len(all) {
			t.Errorf("after the undo there are %d changes, want %d", len(again), len(all))
		}
	})
}

// A base that an apply has moved is kept by forks, snapshots and restores.
func TestBaseFollowsCopies(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		id := h.reviewed().GetContextId()
		context := filepath.Join(h.r.Info().ContextsDir, id)
		ctxs := ctxfsv1.NewContextServiceClient(h.cc)
		count := func(id string) int {
			t.Helper()
			all, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
			return len(all)
		}
		apply := func() {
			t.Helper()
			_, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		shell(t, filepath.Join(context, "app"), "echo one > one")
		apply()
		if _, err := ctxs.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"}); err != nil {
			t.Fatal(err)
		}
		if _, err := ctxs.Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"}); err != nil {
			t.Fatal(err)
		}
		if n := count("ctx_fork"); n != 0 {
			t.Errorf("the fork has %d changes: its base is the layer", n)
		}
		shell(t, filepath.Join(context, "app"), "echo two > two")
		apply()
		if _, err := ctxs.Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: id, Name: "s", DiscardChanges: true}); err != nil {
			t.Fatal(err)
		}
		if n := count(id); n != 0 {
			t.Errorf("the restored context has %d changes: its base is not the snapshot's", n)
		}
		if _, err := ctxs.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: id, DiscardChanges: true}); err != nil {
			t.Fatal(err)
		}
		h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"})
		if n := count(id); n != 0 {
			t.Errorf("a new context of the ID has %d changes: it has the base of the one before", n)
		}
	})
}

// A panel lists, reads and discards its own changes, and never decides.
func TestReviewRoles(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	other := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/other"})
	shell(t, filepath.Join(h.r.Info().ContextsDir, panel.GetContextId(), "app"), "echo changed > run; rm bin")
	all := &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}
	as := func(token string) context.Context { return with(t, "authorization", bearerOf(token)) }
	own := as(panel.GetToken())

	shell(t, h.cfg.Workspace, "echo secret > outside.env")
	shell(t, h.in("app"), "echo drift > run")
	for _, path := range []string{"/outside.env", "/app/run"} {
		read, err := h.reviews().ReadVersion(own, &ctxfsv1.ReadVersionRequest{Path: path, Version: ctxfsv1.Version_VERSION_WORKSPACE})
		if err == nil {
			_, err = read.Recv()
		}
		wantCode(t, "the panel reads "+path+" of the workspace", err, codes.PermissionDenied)
	}
	if changes, _ := h.changes(own, &ctxfsv1.ListChangesRequest{}); changes["/app/run"].GetDrifted() {
		t.Error("the panel learns that the workspace's file is another one")
	}
	if changes, _ := h.changes(own, &ctxfsv1.ListChangesRequest{}); len(changes) != 2 {
		t.Errorf("the panel sees %v", changes)
	}
	for name, ctx := range map[string]context.Context{"panel": own, "host for the panel": with(t, "ctxfs-panel", "panels/editor")} {
		_, err := h.reviews().Decide(ctx, &ctxfsv1.DecideRequest{ContextId: panel.GetContextId(), Selection: all, Decision: ctxfsv1.Decision_DECISION_APPROVED})
		wantCode(t, name+" decides", err, codes.PermissionDenied)
		_, err = h.reviews().Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: panel.GetContextId(), Approve: true, Selection: all})
		wantCode(t, name+" applies", err, codes.PermissionDenied)
	}
	foreign, err := h.reviews().ListChanges(as(other.GetToken()), &ctxfsv1.ListChangesRequest{ContextId: panel.GetContextId()})
	if err == nil {
		_, err = foreign.Recv()
	}
	wantCode(t, "another panel lists", err, codes.PermissionDenied)
	_, err = h.reviews().Discard(as(other.GetToken()), &ctxfsv1.DiscardRequest{ContextId: panel.GetContextId(), Selection: all})
	wantCode(t, "another panel discards", err, codes.PermissionDenied)

	if _, err := h.reviews().Decide(t.Context(), &ctxfsv1.DecideRequest{
		ContextId: panel.GetContextId(), Selection: all, Decision: ctxfsv1.Decision_DECISION_REJECTED, Comment: "keep bin",
	}); err != nil {
		t.Fatal(err)
	}
	if changes, _ := h.changes(own, &ctxfsv1.ListChangesRequest{}); changes["/app/bin"].GetComment() != "keep bin" {
		t.Errorf("the panel reads the decisions %v", changes)
	}
	if _, err := h.reviews().Discard(own, &ctxfsv1.DiscardRequest{Selection: all}); err != nil {
		t.Fatal(err)
	}
	if changes, _ := h.changes(own, &ctxfsv1.ListChangesRequest{}); len(changes) != 0 {
		t.Errorf("after the discard the changes are %v", changes)
	}
}

func wantCode(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func TestConflictsTravel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	id := h.reviewed().GetContextId()
	shell(t, filepath.Join(h.r.Info().ContextsDir, id, "app"), "sed -i 's/line 3/panel/' src/main.go")
	shell(t, h.in("app"), "sed -i 's/line 3/user/' src/main.go")
	_, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}})
	wantCode(t, "apply", err, codes.Aborted)
	files := fserrpb.FilesOf(err).GetFiles()
	if reason := fserrpb.ReasonOf(err); reason != "CONFLICT" || len(files) != 1 || files[0].GetPath() != "/app/src/main.go" || files[0].GetKind() != ctxfsv1.ConflictKind_CONFLICT_KIND_CONTENT {
		t.Errorf("the error is %v with %s and %v", err, reason, files)
	}
}

// TestOtherNamesKeepTheirContentOnEveryDriver has files with several names: seed1 and seed2 of the workspace, and those that an agent links. Discard,
// its undo, Rebase, Apply and Restore change the names that they are about.
func TestOtherNamesKeepTheirContentOnEveryDriver(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		shell(t, h.in("app"), `echo seed > seed1; ln seed1 seed2; echo pair > pair1; ln pair1 pair2; echo one > one; echo two > two`)
		h.commit("app")
		h.serve()
		id := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"}).GetContextId()
		context := filepath.Join(h.r.Info().ContextsDir, id, "app")
		undo := func(entry int64) {
			t.Helper()
			_, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: entry})
			must(t, err)
		}
		selected := func(names ...string) *ctxfsv1.Selection {
			sel := &ctxfsv1.SelectedChanges{}
			for _, name := range names {
				sel.Changes = append(sel.Changes, &ctxfsv1.SelectedChange{Path: "/app/" + name})
			}
			return &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: sel}}
		}
		discard := func(names ...string) int64 {
			t.Helper()
			done, err := h.reviews().Discard(t.Context(), &ctxfsv1.DiscardRequest{ContextId: id, Selection: selected(names...)})
			must(t, err)
			return done.GetJournalId()
		}
		areLinked := func(what, a, b string) {
			t.Helper()
			one, err := os.Stat(filepath.Join(context, a))
			must(t, err)
			other, err := os.Stat(filepath.Join(context, b))
			must(t, err)
			if !os.SameFile(one, other) {
				t.Errorf("%s: %s and %s are two files", what, a, b)
			}
		}
		want := treeOf(t, context)
		has := func(what string, texts ...string) {
			t.Helper()
			for i := 0; i < len(texts); i += 2 {
				want[texts[i]] = texts[i+1] + "\n"
			}
			wantTree(t, what, treeOf(t, context), want)
		}
		areLinked("seeded", "seed1", "seed2")
		shell(t, context, `echo agent > seed1; echo agent > pair1; ln one three; echo agent > one`)
		has("edited", "seed1", "agent", "seed2", "agent", "pair1", "agent", "pair2", "agent", "one", "agent", "three", "agent")
		for _, p := range []string{"/app", "/app/pair2"} { // written through the other name
			all, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id, Paths: []string{p}})
			for _, name := range []string{"/app/seed1", "/app/seed2", "/app/pair1", "/app/pair2", "/app/one", "/app/three"} {
				if listed := all[name] != nil; listed != (p == "/app" || p == name) {
					t.Errorf("of %s: %s is listed: %t", p, name, listed)
				}
			}
		}
		_, err := h.contexts().Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"})
		must(t, err)

		first := discard("seed1", "one")
		has("discarded", "seed1", "seed", "one", "one")
		undo(first)
		has("undone", "seed1", "agent", "one", "agent")
		second := discard("pair1", "pair2")
		has("both discarded", "pair1", "pair", "pair2", "pair")
		areLinked("both discarded", "pair1", "pair2")
		undo(second)
		has("both undone", "pair1", "agent", "pair2", "agent")
		areLinked("both undone", "pair1", "pair2")

		shell(t, context, `ln two four`)
		shell(t, h.in("app"), `echo user > two`)
		_, err = h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id})
		must(t, err)
		has("rebased", "two", "user", "four", "two")

		_, err = h.contexts().Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: id, Name: "s", DiscardChanges: true})
		must(t, err)
		delete(want, "four")
		has("restored", "two", "two")
		for _, pair := range [][2]string{{"seed1", "seed2"}, {"pair1", "pair2"}, {"one", "three"}} {
			areLinked("restored", pair[0], pair[1])
		}

		_, err = h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: selected("seed1")})
		must(t, err)
		in := treeOf(t, h.in("app"))
		if in["seed1"] != "agent\n" || in["seed2"] != "seed\n" {
			t.Errorf("applied to the workspace: seed1 is %q, seed2 is %q", in["seed1"], in["seed2"])
		}
	})
}
