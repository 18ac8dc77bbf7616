package server

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// sandboxed is a layout with the zones /workspace, which is seeded, and /cache.
func sandboxed() *ctxfsv1.ZoneLayout {
	return &ctxfsv1.ZoneLayout{Mode: ctxfsv1.ZoneMode_ZONE_MODE_SANDBOXED, Zones: []*ctxfsv1.ZoneSpec{
		{Path: "/workspace", From: []string{"repositories"}}, {Path: "/cache", NeverCommit: true},
	}}
}

func TestReviewOfAContextThatWasSeededIntoAZone(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		h.write("app/src/main.go", "one\ntwo\nthree\n")
		h.write("app/doc/text", "text\n")
		h.commit("app")
		h.serve()
		panel := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "worker", SeedFrom: []string{"app/src", "tools"}, Zones: sandboxed()})
		id := panel.GetContextId()
		folder := h.folder(id)
		wantTree(t, "seeded", treeOf(t, folder), map[string]string{"workspace/app/src/main.go": "one\ntwo\nthree\n", "workspace/tools/tools.txt": "tools"})
		if st, err := os.Stat(filepath.Join(folder, "cache")); err != nil || !st.IsDir() {
			t.Fatalf("the zone /cache: %v", err)
		}
		if none, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id}); len(none) > 0 {
			t.Errorf("a new context has the changes %v", none)
		}

		shell(t, folder, "echo four >> workspace/app/src/main.go; echo new > workspace/tools/new; echo download > cache/big")
		all, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
		if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, []string{"/workspace/app/src/main.go", "/workspace/tools/new"}) {
			t.Fatalf("the changes are %q", got)
		}
		if repo := all["/workspace/app/src/main.go"].GetRepository(); repo != "/workspace/app" {
			t.Errorf("the repository is %q", repo)
		}
		one, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id, Paths: []string{"/workspace/tools"}})
		if len(one) != 1 || one["/workspace/tools/new"] == nil {
			t.Errorf("below /workspace/tools are the changes %v", one)
		}
		stream, err := h.reviews().ListChanges(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id, Paths: []string{"/cache"}})
		if err == nil {
			_, err = stream.Recv()
		}
		wantError(t, err, codes.InvalidArgument, "EINVAL", "outside of the zone /workspace")

		_, err = h.contexts().DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: id})
		wantRefusal(t, err, codes.FailedPrecondition, "NOT_APPLIED")
		if !strings.Contains(err.Error(), "workspace/app/src/main.go") {
			t.Errorf("the refusal names no path of the context: %v", err)
		}

		for _, copied := range []func() error{
			func() error {
				_, err := h.contexts().Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"})
				return err
			},
			func() error {
				_, err := h.contexts().Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"})
				return err
			},
		} {
			if err := copied(); err != nil {
				t.Fatal(err)
			}
		}
		forked, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: "ctx_fork"})
		if !slices.Equal(slices.Sorted(maps.Keys(forked)), slices.Sorted(maps.Keys(all))) {
			t.Errorf("the fork has the changes %v", forked)
		}
		shell(t, folder, "echo later > workspace/tools/later")
		since, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id, Against: &ctxfsv1.Against{What: &ctxfsv1.Against_Snapshot{Snapshot: "s"}}})
		if len(since) != 1 || since["/workspace/tools/later"] == nil {
			t.Errorf("since the snapshot are the changes %v", since)
		}
		if _, err := h.contexts().Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: id, Name: "s", DiscardChanges: true}); err != nil {
			t.Fatal(err)
		}

		h.write("app/doc/text", "outside of the scope\n")
		h.write("app/src/main.go", "zero\none\ntwo\nthree\n")
		rebased, err := h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id})
		if err != nil {
			t.Fatal(err)
		}
		if files := rebased.GetFiles(); len(files) != 1 || files[0].GetPath() != "/workspace/app/src/main.go" {
			t.Errorf("the rebase changed %v", files)
		}
		_, summary := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
		before := treeOf(t, h.in(""))
		applied, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{
			ContextId: id, Approve: true, IfRevision: summary.GetRevision(), Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range applied.GetFiles() {
			if !strings.HasPrefix(f.GetPath(), "/workspace/") {
				t.Errorf("applied %s", f.GetPath())
			}
		}
		want := maps.Clone(before)
		want["app/src/main.go"], want["tools/new"] = "zero\none\ntwo\nthree\nfour\n", "new\n"
		wantTree(t, "applied", treeOf(t, h.in("")), want)
		journal, err := h.reviews().ListJournal(t.Context(), &ctxfsv1.ListJournalRequest{ContextId: id, Path: "/workspace/tools"})
		if err != nil || len(journal.GetEntries()) == 0 || !strings.HasPrefix(journal.GetEntries()[0].GetFiles()[0].GetPath(), "/workspace/") {
			t.Errorf("the journal has %v, %v", journal, err)
		}
		if _, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: applied.GetJournalId()}); err != nil {
			t.Fatal(err)
		}
		wantTree(t, "undone", treeOf(t, h.in("")), before)
	})
}

func TestZoneReplacedByALinkLeadsNowhere(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		h.serve()
		id := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "worker", Zones: sandboxed()}).GetContextId()
		shell(t, h.folder(id), "mv workspace away; ln -s "+h.in("")+" workspace")
		// A context that was open holds the zone's directory, which has not changed. One that is opened now has no such zone.
		stream, err := h.reviews().ListChanges(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
		for err == nil {
			var r *ctxfsv1.ListChangesResponse
			if r, err = stream.Recv(); r.GetChange() != nil {
				t.Errorf("the review has %v", r.GetChange())
			}
		}
		if !errors.Is(err, io.EOF) {
			wantError(t, err, codes.Internal, "EIO", "zones")
		}
	})
}

func TestOpenPanelOfAScope(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.template("panels/tpl", "deps: {/ws: {repo: app}}")
	h.serve()
	_, err := h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "a", SeedFrom: []string{"ap"}})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "the workspace has the repositories app, data, tools")
	_, err = h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "tpl", Template: "panels/tpl", SeedFrom: []string{"app"}})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "is made from a template")
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a", SeedFrom: []string{"app"}})
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a"})
	_, err = h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "a", SeedFrom: []string{"data"}})
	wantError(t, err, codes.AlreadyExists, "EEXIST", "made of app, not of data")
	plan, err := h.contexts().PlanSeed(t.Context(), &ctxfsv1.PlanSeedRequest{SeedFrom: []string{"app", "data"}})
	if err != nil || plan.GetFiles() != 2 || len(plan.GetRepositories()) != 2 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
}
