package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// gitOutput runs git in a repository of the workspace.
func (h *house) gitOutput(repo string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", args...)
	cmd.Dir = h.in(repo)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A commit holds what the context holds, whatever the driver: modes, links, deletions, and directories that became files.
func TestApplyCommitsWhatTheContextHolds(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		id := h.reviewed().GetContextId()
		context := filepath.Join(h.r.Info().ContextsDir, id)
		shell(t, filepath.Join(context, "app"), edits)
		want := treeOf(t, filepath.Join(context, "app"))
		all, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id})
		sel := &ctxfsv1.SelectedChanges{}
		for path := range all {
			sel.Changes = append(sel.Changes, &ctxfsv1.SelectedChange{Path: path})
		}
		req := &ctxfsv1.ApplyRequest{
			ContextId: id, Approve: true, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: sel}}, Target: ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT,
			Commit: &ctxfsv1.CommitOptions{Message: "agent", AuthorName: "Agent", AuthorEmail: "agent@example.com"},
		}
		done, err := h.reviews().Apply(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(done.GetCommits()) != 1 || done.GetCommits()[0].GetRepository() != "/app" || done.GetCommits()[0].GetCommitId() != h.gitOutput("app", "rev-parse", "HEAD") {
			t.Errorf("the commits are %v", done.GetCommits())
		}
		checkedOut := func(ref string) map[string]string {
			dir := filepath.Join(t.TempDir(), "out")
			h.gitOutput("app", "worktree", "add", "-q", "--detach", dir, ref)
			return without(treeOf(t, dir), ".git")
		}
		wantTree(t, "the commit", checkedOut("HEAD"), want)
		wantTree(t, "the working tree", treeOf(t, h.in("app")), want)
		if got := h.gitOutput("app", "status", "--porcelain"); got != "" {
			t.Errorf("the status is %q", got)
		}
		h.gitOutput("app", "fsck", "--strict")

		shell(t, filepath.Join(context, "app"), "echo branch > new/dir/n")
		head := h.gitOutput("app", "rev-parse", "HEAD")
		req.Selection = &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}
		req.Target, req.Commit.Branch = ctxfsv1.ApplyTarget_APPLY_TARGET_BRANCH, "agent/topic"
		if done, err = h.reviews().Apply(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if f := done.GetFiles(); len(f) != 1 || f[0].GetKind() != ctxfsv1.AppliedKind_APPLIED_KIND_WRITTEN {
			t.Errorf("the files are %v", f)
		}
		if h.gitOutput("app", "rev-parse", "HEAD", "agent/topic^") != head+"\n"+head || h.gitOutput("app", "show", "agent/topic:new/dir/n") != "branch" {
			t.Error("the branch is not one commit after HEAD")
		}
		wantTree(t, "the working tree after the branch", treeOf(t, h.in("app")), want)
		log, err := h.reviews().ListJournal(t.Context(), &ctxfsv1.ListJournalRequest{ContextId: id})
		if err != nil || len(log.GetEntries()) != 2 || log.GetEntries()[0].GetCommits()[0].GetRef() != "refs/heads/agent/topic" {
			t.Errorf("the journal is %v (%v)", log, err)
		}
	})
}

func without(tree map[string]string, path string) map[string]string {
	delete(tree, path)
	return tree
}

func TestRefusedCommitsTravel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	id := h.reviewed().GetContextId()
	context := filepath.Join(h.r.Info().ContextsDir, id)
	shell(t, context, "echo changed > loose; sed -i 's/line 3/panel/' app/src/main.go")
	apply := func(path string) (reason string, code codes.Code, files int) {
		t.Helper()
		_, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{
			ContextId: id, Approve: true, Target: ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT,
			Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{{Path: path}}}}},
			Commit:    &ctxfsv1.CommitOptions{Message: "agent", AuthorName: "Agent", AuthorEmail: "agent@example.com"},
		})
		return fserrpb.ReasonOf(err), status.Code(err), len(fserrpb.FilesOf(err).GetFiles())
	}
	want := func(what, path, reason string, files int) {
		t.Helper()
		if r, c, n := apply(path); r != reason || c != codes.FailedPrecondition || n != files {
			t.Errorf("%s: %s, %v with %d files; want %s with %d", what, r, c, n, reason, files)
		}
	}
	want("a file outside of repositories", "/loose", "NO_REPOSITORY", 1)
	lock := filepath.Join(h.in("app"), ".git", "index.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want("an index that is locked", "/app/src/main.go", "REPOSITORY_BUSY", 0)
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	// The index has another version of the line than the commit, and the working tree the commit's.
	shell(t, h.in("app"), "cp src/main.go keep; sed -i 's/line 3/staged/' src/main.go; git add src/main.go; mv keep src/main.go")
	want("a line that is staged", "/app/src/main.go", "DIRTY_COMMIT", 1)
	_, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{
		ContextId: id, Approve: true, Target: 99, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}, Commit: &ctxfsv1.CommitOptions{Message: "x"},
	})
	wantCode(t, "an unknown target", err, codes.InvalidArgument)
}

// Hooks are programs of the repository: a panel with the right to review cannot run them, and a host that acts for a panel cannot either.
func TestHooksAreForHosts(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	id := h.reviewed().GetContextId()
	h.edit(id)
	ran := h.in("ran")
	shell(t, h.in("app"), "printf '#!/bin/sh\ntouch "+ran+"\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
	commit := &ctxfsv1.CommitOptions{Message: "m", AuthorName: "A", AuthorEmail: "a@example.com", Hooks: ctxfsv1.CommitHooks_COMMIT_HOOKS_RUN}
	req := &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: selectAll, Target: ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT, Commit: commit}
	v := h.reviewer("panels/page")
	_, err := h.reviews().Apply(v.ctx, req)
	wantError(t, err, codes.PermissionDenied, "EACCES", "only a host may run the hooks")
	if _, err := os.Stat(ran); err == nil {
		t.Error("the hook ran for a panel")
	}
	done, err := h.reviews().Apply(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := done.GetCommits()[0].GetHooks(); len(got) != 1 || got[0] != "pre-commit" {
		t.Errorf("the hooks are %q", got)
	}
	_, err = h.reviews().Undo(v.ctx, &ctxfsv1.UndoRequest{JournalId: done.GetJournalId(), Commit: commit})
	wantError(t, err, codes.PermissionDenied, "EACCES", "only a host may run the hooks")
	undone, err := h.reviews().Undo(v.ctx, &ctxfsv1.UndoRequest{JournalId: done.GetJournalId(), Commit: &ctxfsv1.CommitOptions{AuthorName: "A", AuthorEmail: "a@example.com"}})
	if err != nil || len(undone.GetCommits()) != 1 || len(undone.GetCommits()[0].GetHooks()) != 0 {
		t.Errorf("the undo made %v (%v)", undone, err)
	}
}
