package server

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// moves are what the user does to the workspace while an agent makes the edits.
const moves = `
	sed -i 's/line 8/line eight/' src/main.go
	echo user > src/deep/user.go
	rm -r kept
	mv replaced/r replaced/moved
	chmod +x bin
	ln -sfn run late
	mkdir -p a/b; echo b > a/b/c`

func TestRebaseOnEveryDriver(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		panel := h.reviewed()
		id := panel.GetContextId()
		length := int64(100)
		app := filepath.Join(h.r.Info().ContextsDir, id, "app")
		shell(t, app, "sed -i 's/line 2/line two/' src/main.go; echo mine > mine; rm empty; rm -r old; echo r > replaced/r2")
		before := treeOf(t, app)
		shell(t, h.in("app"), moves)
		h.commit("app")
		fs := ctxfsv1.NewFsServiceClient(h.cc)
		own := with(t, "authorization", bearerOf(panel.GetToken()))
		open, err := fs.Open(own, &ctxfsv1.OpenRequest{Path: "/app/mine"})
		if err != nil {
			t.Fatal(err)
		}

		// A clone of the repository has what both did, merged by git.
		both := t.TempDir()
		shell(t, both, "cp -a "+h.in("app")+" app && cd app && rm -rf .git && sed -i 's/line 2/line two/' src/main.go && echo mine > mine && rm empty && rm -r old && echo r > replaced/r2")
		want := treeOf(t, filepath.Join(both, "app"))

		watch, err := h.reviews().WatchReview(t.Context(), &ctxfsv1.WatchReviewRequest{ContextId: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watch.Recv(); err != nil {
			t.Fatal(err)
		}
		done, err := h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id})
		if err != nil {
			t.Fatal(err)
		}
		wantTree(t, "rebased", treeOf(t, app), want)
		if e, err := watch.Recv(); err != nil || e.GetEvent() != ctxfsv1.ReviewEvent_REVIEW_EVENT_REBASED || e.GetJournalId() != done.GetJournalId() {
			t.Errorf("the watch has %v (%v)", e, err)
		}
		if read, err := fs.Read(own, &ctxfsv1.ReadRequest{Fd: open.GetFd(), Length: &length}); err != nil || string(read.GetData())+read.GetText() != "mine\n" {
			t.Errorf("the handle of another file reads %v (%v)", read, err)
		}
		all, summary := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
		if len(all) != 6 || summary.GetDrifted() != 0 {
			t.Errorf("after the rebase the changes are %v", all)
		}

		h.serve() // the base is on disk
		undone, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: done.GetJournalId()})
		if err != nil {
			t.Fatal(err)
		}
		wantTree(t, "undone", treeOf(t, app), before)
		if _, err := h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: undone.GetJournalId()}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{
			ContextId: id, Approve: true, RefuseMerge: true, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}},
		}); err != nil {
			t.Fatal(err)
		}
		wantTree(t, "applied", treeOf(t, h.in("app")), want)
		if left, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id}); len(left) != 0 {
			t.Errorf("after the apply there are the changes %v", left)
		}
	})
}

// What was applied to a branch stays in the context, its forks and its snapshots, until the workspace has something else.
func TestRebaseKeepsWhatOnlyABranchHasOnEveryDriver(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		id, ctxs := h.reviewed().GetContextId(), ctxfsv1.NewContextServiceClient(h.cc)
		in := func(id string) string { return filepath.Join(h.r.Info().ContextsDir, id, "app") }
		shell(t, in(id), "sed -i 's/line 2/line two/' src/main.go; echo mine > mine; rm -r old; ln -sfn run link; chmod +x src/deep/a.go")
		want := treeOf(t, in(id))
		if _, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{
			ContextId: id, Approve: true, Selection: h.everyChange(id), Target: ctxfsv1.ApplyTarget_APPLY_TARGET_BRANCH,
			Commit: &ctxfsv1.CommitOptions{Message: "agent", AuthorName: "Agent", AuthorEmail: "agent@example.com", Branch: "side"},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := ctxs.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"}); err != nil {
			t.Fatal(err)
		}
		if _, err := ctxs.Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"}); err != nil {
			t.Fatal(err)
		}
		rebased := func(what, id string, want map[string]string) {
			t.Helper()
			if _, err := h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id}); err != nil {
				t.Fatal(what, err)
			}
			h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id}) // it is mounted then
			wantTree(t, what, treeOf(t, in(id)), want)
		}
		rebased("rebased", id, want)
		rebased("the fork", "ctx_fork", want)
		h.serve()
		rebased("after a start", id, want)
		if _, err := ctxs.Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: id, Name: "s", DiscardChanges: true}); err != nil {
			t.Fatal(err)
		}
		rebased("restored", id, want)
		shell(t, in(id), "echo more >> kept/b.go; sed -i 's/line 9/line nine/' src/main.go")
		if all, summary := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id}); len(all) != 2 || summary.GetDrifted() != 0 {
			t.Errorf("the changes are %v, and %d are drifted", all, summary.GetDrifted())
		}
		h.gitOutput("app", "merge", "-q", "side")
		rebased("the branch is merged", "ctx_fork", treeOf(t, h.in("app")))
		h.gitOutput("app", "reset", "-q", "--hard", "HEAD^")
		rebased("the merge is taken back", "ctx_fork", treeOf(t, h.in("app")))
	})
}

// everyChange selects all changes of a context by name.
func (h *house) everyChange(id string) *ctxfsv1.Selection {
	h.t.Helper()
	all, _ := h.changes(h.t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
	sel := &ctxfsv1.SelectedChanges{}
	for p := range all {
		sel.Changes = append(sel.Changes, &ctxfsv1.SelectedChange{Path: p})
	}
	return &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: sel}}
}

// wantRefusal checks that an error is a review's refusal for a reason.
func wantRefusal(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	wantCode(t, reason, err, code)
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == reason {
			return
		}
	}
	t.Errorf("the reason of %v is not %s", err, reason)
}

func TestConflictsOfARebaseTravel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	id := panel.GetContextId()
	app := filepath.Join(h.r.Info().ContextsDir, id, "app")
	shell(t, app, "sed -i 's/line 3/panel/' src/main.go")
	shell(t, h.in("app"), "sed -i 's/line 3/user/' src/main.go")
	rebase := func(how ctxfsv1.OnConflict) (*ctxfsv1.RebaseResponse, error) {
		return h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id, OnConflict: how})
	}
	_, err := rebase(ctxfsv1.OnConflict_ON_CONFLICT_UNSPECIFIED)
	wantRefusal(t, err, codes.Aborted, "CONFLICT")
	_, err = rebase(99)
	wantError(t, err, codes.InvalidArgument, "EINVAL", "")
	done, err := rebase(ctxfsv1.OnConflict_ON_CONFLICT_RECORD)
	if err != nil || len(done.GetConflicts()) != 1 || done.GetConflicts()[0].GetKind() != ctxfsv1.ConflictKind_CONFLICT_KIND_CONTENT || done.GetConflicts()[0].GetWorkspace().GetSha256() == "" {
		t.Fatalf("the conflicts are %v (%v)", done, err)
	}
	_, err = h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}})
	wantRefusal(t, err, codes.FailedPrecondition, "UNRESOLVED")

	read := func(ctx context.Context) (string, error) {
		stream, err := h.reviews().ReadVersion(ctx, &ctxfsv1.ReadVersionRequest{ContextId: id, Path: "/app/src/main.go", Version: ctxfsv1.Version_VERSION_MERGED})
		if err != nil {
			return "", err
		}
		if _, err := stream.Recv(); err != nil {
			return "", err
		}
		m, err := stream.Recv()
		return string(m.GetData()), err
	}
	if text, err := read(t.Context()); err != nil || !strings.Contains(text, "<<<<<<< context\npanel\n||||||| base\nline 3\n=======\nuser\n>>>>>>> workspace\n") {
		t.Errorf("merged it is %q (%v)", text, err)
	}
	_, err = read(with(t, "authorization", bearerOf(panel.GetToken())))
	wantCode(t, "the panel reads the workspace's side", err, codes.PermissionDenied)

	resolve := &ctxfsv1.ResolveConflictRequest{ContextId: id, Path: "/app/src/main.go"}
	_, err = h.reviews().ResolveConflict(t.Context(), resolve)
	wantError(t, err, codes.InvalidArgument, "EINVAL", "")
	resolve.Resolution = ctxfsv1.Resolution_RESOLUTION_WORKSPACE
	if _, err := h.reviews().ResolveConflict(t.Context(), resolve); err != nil {
		t.Fatal(err)
	}
	_, err = h.reviews().ResolveConflict(t.Context(), resolve)
	wantError(t, err, codes.NotFound, "ENOENT", "")
	list, err := h.reviews().ListConflicts(t.Context(), &ctxfsv1.ListConflictsRequest{ContextId: id})
	if err != nil || len(list.GetConflicts()) != 0 {
		t.Errorf("the conflicts are %v (%v)", list, err)
	}
	wantTree(t, "resolved", treeOf(t, app), treeOf(t, h.in("app")))
	_, err = h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: "ctx_unknown"})
	wantError(t, err, codes.NotFound, "ESTALE", "")
}

func TestRebaseKeepsToTheQuotaOfTheContext(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		h.cfg.ContextMaxBytes = 1 << 20
		id := h.reviewed().GetContextId()
		app := filepath.Join(h.r.Info().ContextsDir, id, "app")
		before := treeOf(t, app)
		shell(t, h.in("app"), "head -c 2000000 /dev/zero > large; echo user > user")
		_, err := h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id})
		wantError(t, err, codes.ResourceExhausted, "EDQUOT", "")
		wantTree(t, "the context", treeOf(t, app), before)
		if _, err := h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id, Paths: []string{"/app/user"}}); err != nil {
			t.Fatal(err)
		}
		before["user"] = "user\n"
		wantTree(t, "rebased without it", treeOf(t, app), before)
	})
}

func TestDiscardKeepsToTheQuotaOfTheContext(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		h.cfg.ContextMaxBytes = 1 << 20
		shell(t, h.in("app"), "head -c 700000 /dev/zero > large")
		id := h.reviewed().GetContextId()
		app := filepath.Join(h.r.Info().ContextsDir, id, "app")
		shell(t, app, "ln large kept; echo more >> large")
		before := treeOf(t, app)
		discard := func(paths ...string) error {
			sel := new(ctxfsv1.SelectedChanges)
			for _, p := range paths {
				sel.Changes = append(sel.Changes, &ctxfsv1.SelectedChange{Path: p})
			}
			_, err := h.reviews().Discard(t.Context(), &ctxfsv1.DiscardRequest{
				ContextId: id, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: sel}},
			})
			return err
		}
		wantError(t, discard("/app/large"), codes.ResourceExhausted, "EDQUOT", "") // it would be a second file
		wantTree(t, "the context", treeOf(t, app), before)
		if err := discard("/app/large", "/app/kept"); err != nil {
			t.Errorf("what frees space is refused: %v", err)
		}
	})
}
