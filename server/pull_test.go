package server

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (h *house) repositories() ctxfsv1.GitServiceClient { return ctxfsv1.NewGitServiceClient(h.cc) }

// pull returns what Pull did to each path.
func (h *house) pull(ctx context.Context, req *ctxfsv1.PullRequest) (map[string]string, *ctxfsv1.PullSummary, error) {
	h.t.Helper()
	stream, err := h.repositories().Pull(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	did := map[string]string{}
	var summary *ctxfsv1.PullSummary
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return did, summary, nil
		case err != nil:
			return nil, nil, err
		case m.GetSummary() != nil:
			summary = m.GetSummary()
		default:
			path := m.GetFile().GetPath() + string(m.GetFile().GetRawPath())
			did[path] = m.GetFile().GetOutcome().String()[len("PULL_OUTCOME_"):]
		}
	}
}

// mustPull is pull of a request that succeeds, without the paths that were left as they are.
func (h *house) mustPull(req *ctxfsv1.PullRequest) (map[string]string, *ctxfsv1.PullSummary) {
	h.t.Helper()
	did, summary, err := h.pull(h.t.Context(), req)
	if err != nil {
		h.t.Fatal(err)
	}
	for p, outcome := range did {
		if outcome == "UNCHANGED" {
			delete(did, p)
		}
	}
	return did, summary
}

// onNext commits what a script does to the repository app on the branch next, and checks main out again.
func (h *house) onNext(script string) {
	h.t.Helper()
	h.git("app", "checkout", "-q", "-B", "next")
	shell(h.t, h.in("app"), script)
	h.commit("app")
	h.git("app", "checkout", "-q", "main")
}

func TestPullOnEveryDriver(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		panel := h.reviewed()
		id := panel.GetContextId()
		app := filepath.Join(h.folder(id), "app")
		h.onNext(moves)
		shell(t, app, "sed -i 's/line 2$/line two/' src/main.go; echo mine > mine; rm empty")
		before := treeOf(t, app)
		fs := ctxfsv1.NewFsServiceClient(h.cc)
		own := with(t, "authorization", bearerOf(panel.GetToken()))
		open, err := fs.Open(own, &ctxfsv1.OpenRequest{Path: "/app/mine"})
		if err != nil {
			t.Fatal(err)
		}

		// git merges the same: what next has, and what the context changed.
		both := t.TempDir()
		h.git("app", "worktree", "add", "-q", both+"/app", "next")
		shell(t, both+"/app", "sed -i 's/line 2$/line two/' src/main.go; echo mine > mine; rm empty")
		want := treeOf(t, both+"/app")
		delete(want, ".git")

		done, summary, err := h.pull(own, &ctxfsv1.PullRequest{Repo: "/app", Ref: "next"})
		if err != nil {
			t.Fatal(err)
		}
		wantTree(t, "pulled", treeOf(t, app), want)
		if done["/app/src/main.go"] != "MERGED" || summary.GetCommit() != h.git("app", "rev-parse", "next") || int(summary.GetOutcomes()[int32(ctxfsv1.PullOutcome_PULL_OUTCOME_MERGED)]) != 1 {
			t.Errorf("the pull did %v: %v", done, summary)
		}
		length := int64(100)
		if read, err := fs.Read(own, &ctxfsv1.ReadRequest{Fd: open.GetFd(), Length: &length}); err != nil || string(read.GetData())+read.GetText() != "mine\n" {
			t.Errorf("the handle of another file reads %v (%v)", read, err)
		}
		h.wantChanged(id, "/app/empty", "/app/mine", "/app/src/main.go")
		h.serve() // the base is on disk
		h.wantChanged(id, "/app/empty", "/app/mine", "/app/src/main.go")
		journal, err := h.reviews().ListJournal(t.Context(), &ctxfsv1.ListJournalRequest{ContextId: id})
		if err != nil || journal.GetEntries()[0].GetKind() != ctxfsv1.JournalKind_JOURNAL_KIND_PULL || journal.GetEntries()[0].GetActor() != "panels/editor" {
			t.Errorf("the journal has %v (%v)", journal, err)
		}
		undone, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: summary.GetEntry()})
		if err != nil {
			t.Fatal(err)
		}
		wantTree(t, "undone", treeOf(t, app), before)
		h.wantChanged(id, "/app/empty", "/app/mine", "/app/src/main.go")
		if _, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: undone.GetJournalId()}); err != nil {
			t.Fatal(err)
		}
		wantTree(t, "redone", treeOf(t, app), want)
	})
}

// wantChanged checks which paths a context changed.
func (h *house) wantChanged(id string, paths ...string) {
	h.t.Helper()
	all, _ := h.changes(h.t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, paths) {
		h.t.Errorf("%s changed %v, want %v", id, got, paths)
	}
}

// Stage on top of what was pulled has the panel's own lines alone.
func TestStageAfterPull(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	id := h.reviewed().GetContextId()
	h.onNext("sed -i 's/line 9$/theirs/' src/main.go; echo theirs > theirs")
	shell(t, filepath.Join(h.folder(id), "app"), "sed -i 's/line 2$/mine/' src/main.go")
	h.mustPull(&ctxfsv1.PullRequest{ContextId: id, Repo: "/app", Ref: "next"})
	staged, err := h.repositories().Stage(t.Context(), &ctxfsv1.StageRequest{ContextId: id, Repo: "/app", Message: "Mine", Author: "A <a@example.com>", Branch: "next"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := staged.GetStaged().GetFiles()[0].GetDiff(); len(staged.GetStaged().GetFiles()) != 1 || !strings.Contains(diff, "-line 2\n+mine\n") || strings.Contains(diff, "+theirs") {
		t.Errorf("staged is %v", staged.GetStaged().GetFiles())
	}
}

// The base goes with copies, and comes back with a snapshot.
func TestPulledBaseFollowsCopies(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		id := h.reviewed().GetContextId()
		h.onNext("echo theirs > theirs; sed -i 's/line 9$/theirs/' src/main.go")
		shell(t, filepath.Join(h.folder(id), "app"), "echo mine > mine")
		before := treeOf(t, h.folder(id))
		if _, err := h.contexts().Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "before"}); err != nil {
			t.Fatal(err)
		}
		h.mustPull(&ctxfsv1.PullRequest{ContextId: id, Repo: "/app", Ref: "next"})
		if _, err := h.contexts().Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"}); err != nil {
			t.Fatal(err)
		}
		h.wantChanged("ctx_fork", "/app/mine")
		if did, _ := h.mustPull(&ctxfsv1.PullRequest{ContextId: "ctx_fork", Repo: "/app"}); len(did) != 2 || did["/app/theirs"] != "DELETED" {
			t.Errorf("going back in the fork did %v", did)
		}
		h.wantChanged("ctx_fork", "/app/mine")
		h.wantChanged(id, "/app/mine")
		if _, err := h.contexts().Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: id, Name: "before", DiscardChanges: true}); err != nil {
			t.Fatal(err)
		}
		wantTree(t, "restored", treeOf(t, h.folder(id)), before)
		h.wantChanged(id, "/app/mine")
	})
}

// TestPullOfManyFiles pulls 1,000 files, or CTXFS_PULL_FILES: 'make review-scale' pulls 10,000.
func TestPullOfManyFiles(t *testing.T) {
	t.Parallel()
	files := 1000
	if n, err := strconv.Atoi(os.Getenv("CTXFS_PULL_FILES")); err == nil {
		files = n
	}
	onEachDriver(t, func(t *testing.T, h *house) {
		id := h.reviewed().GetContextId()
		h.onNext("for d in $(seq 1 10); do mkdir -p many/$d; for f in $(seq 1 " + strconv.Itoa(files/10) + "); do echo $d $f > many/$d/$f; done; done")
		did, summary := h.mustPull(&ctxfsv1.PullRequest{ContextId: id, Repo: "/app", Ref: "next"})
		if len(did) != files || did["/app/many/7/42"] != "CREATED" {
			t.Errorf("the pull did %d paths", len(did))
		}
		h.git("app", "checkout", "-q", "next")
		wantTree(t, "pulled", treeOf(t, filepath.Join(h.folder(id), "app")), treeOf(t, h.in("app")))
		h.wantChanged(id)
		if _, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: summary.GetEntry()}); err != nil {
			t.Fatal(err)
		}
		if left := treeOf(t, filepath.Join(h.folder(id), "app")); len(left) > 20 {
			t.Errorf("after the undo there are %d files", len(left))
		}
	})
}

// A panel appends to a file while a host pulls again and again. No line is lost, and no pull is half done.
func TestPullBesideAPanelThatWrites(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		panel := h.reviewed()
		id := panel.GetContextId()
		h.onNext("for f in 1 2 3 4 5 6 7 8; do echo theirs > pulled$f; done; sed -i 's/line 1$/theirs/' src/main.go")
		own := with(t, "authorization", bearerOf(panel.GetToken()))
		fs := ctxfsv1.NewFsServiceClient(h.cc)
		const writes = 50
		ended := make(chan error, 1)
		go func() {
			for i := range writes {
				name := "/app/own" + strconv.Itoa(i)
				if _, err := fs.WriteFile(own, &ctxfsv1.WriteFileRequest{Path: name, Content: &ctxfsv1.WriteFileRequest_Text{Text: name}}); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
		for _, ref := range []string{"next", "main", "next", "main", "next"} {
			did, _ := h.mustPull(&ctxfsv1.PullRequest{ContextId: id, Repo: "/app", Ref: ref})
			if len(did) != 9 {
				t.Errorf("the pull of %s did %v", ref, did)
			}
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		got := treeOf(t, filepath.Join(h.folder(id), "app"))
		for i := range writes {
			if name := "own" + strconv.Itoa(i); got[name] != "/app/"+name {
				t.Errorf("%s is %q", name, got[name])
			}
		}
		if got["pulled8"] != "theirs\n" || !strings.HasPrefix(got["src/main.go"], "theirs\n") {
			t.Error("the last pull is not complete")
		}
	})
}

func TestPullRefusalsTravel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	id := panel.GetContextId()
	h.onNext("sed -i 's/line 3$/theirs/' src/main.go")
	h.git("app", "remote", "add", "origin", "https://user:secret@127.0.0.1:1/app.git")
	app := filepath.Join(h.folder(id), "app")
	shell(t, app, "sed -i 's/line 3$/mine/' src/main.go")
	before := treeOf(t, app)
	own := with(t, "authorization", bearerOf(panel.GetToken()))
	readOnly := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/reader", ContextId: id, ReadOnly: true})
	for _, c := range []struct {
		name   string
		ctx    context.Context
		req    *ctxfsv1.PullRequest
		code   codes.Code
		reason string
	}{
		{"conflict", own, &ctxfsv1.PullRequest{Repo: "/app", Ref: "next"}, codes.Aborted, "GIT_CONFLICT"},
		{"unknown ref", own, &ctxfsv1.PullRequest{Repo: "/app", Ref: "nothing"}, codes.NotFound, "GIT_NO_REF"},
		{"unknown repository", own, &ctxfsv1.PullRequest{Repo: "/nothing"}, codes.NotFound, "GIT_NO_REPOSITORY"},
		{"unreachable", t.Context(), &ctxfsv1.PullRequest{ContextId: id, Repo: "/app", Remote: "origin"}, codes.Unavailable, "GIT_UNREACHABLE"},
		{"remote of a panel", own, &ctxfsv1.PullRequest{Repo: "/app", Remote: "origin"}, codes.PermissionDenied, "EACCES"},
		{"no repository", own, &ctxfsv1.PullRequest{}, codes.InvalidArgument, "EINVAL"},
		{"unknown policy", own, &ctxfsv1.PullRequest{Repo: "/app", OnConflict: 99}, codes.InvalidArgument, "EINVAL"},
		{"unknown path", own, &ctxfsv1.PullRequest{Repo: "/app", Paths: []string{"nothing"}}, codes.NotFound, "ENOENT"},
		{"another context", own, &ctxfsv1.PullRequest{ContextId: "ctx_other", Repo: "/app"}, codes.PermissionDenied, "EACCES"},
		{"unknown context", t.Context(), &ctxfsv1.PullRequest{ContextId: "ctx_other", Repo: "/app"}, codes.NotFound, "ESTALE"},
		{"read-only panel", with(t, "authorization", bearerOf(readOnly.GetToken())), &ctxfsv1.PullRequest{Repo: "/app"}, codes.FailedPrecondition, "EROFS"},
	} {
		_, _, err := h.pull(c.ctx, c.req)
		wantRefusal(t, err, c.code, c.reason)
		if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, h.cfg.Workspace) {
			t.Errorf("%s: the error is %s", c.name, text)
		}
	}
	wantTree(t, "the context", treeOf(t, app), before)
}
