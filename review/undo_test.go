package review

import (
	"os"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// undoCommit undoes an entry with its commits.
func (w repos) undoCommit(entry int64, opts CommitOptions) (*Entry, error) {
	w.t.Helper()
	return w.reviews.Undo(w.t.Context(), UndoRequest{ID: entry, Actor: "host", Commit: &opts, May: func(*Entry) error { return nil }})
}

func TestUndoCommitsOnTopOfWhatFollowed(t *testing.T) {
	t.Parallel()
	base := files{"a": numbered(20), "gone": "gone\n", "dir/x": "x\n", "dirty": numbered(20), "kept": "kept\n"}
	w := newRepos(t, base)
	write(t, w.in("workspace"), files{"dirty": strings.Replace(numbered(20), "line 20\n", "not committed\n", 1)})
	dirty := read(t, w.in("workspace"))["dirty"]
	remove(t, w.in(id), "gone", "dir/x")
	write(t, w.in(id), files{"a": byAgent(numbered(20)), "new/file": "new\n", "dir": "a file\n", "dirty": byAgent(numbered(20))})
	e := w.mustCommit("")
	write(t, w.in("workspace"), files{"a": strings.Replace(byAgent(numbered(20)), "line 19\n", "user\n", 1), "other": "other\n"})
	w.gitIn("workspace", "add", "a", "other")
	w.gitIn("workspace", "commit", "-qm", "the user's", "--", "a", "other")

	undo, err := w.undoCommit(e.ID, CommitOptions{})
	must(t, err)
	user := strings.Replace(numbered(20), "line 19\n", "user\n", 1)
	w.wantHead("undone", map[string]string{"a": user, "gone": "gone\n", "dir/x": "x\n", "dirty": numbered(20), "kept": "kept\n", "other": "other\n"})
	got := read(t, w.in("workspace"))
	if got["a"] != user || got["dirty"] != dirty || got["gone"] != "gone\n" || got["dir/x"] != "x\n" || got["new/file"] != "" {
		t.Errorf("the working tree is %q", got)
	}
	w.wantGit(" M dirty", "status", "--porcelain")
	w.wantGit("4", "rev-list", "--count", "HEAD")
	message := w.gitIn("workspace", "log", "-1", "--format=%B")
	for _, want := range []string{"Undo entry 1 of the review of " + id, "This reverts commit " + e.Commits[0].ID + ".", "Ctxfs-Review: 2"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message lacks %q: %s", want, message)
		}
	}
	if l := w.changes(Query{}); len(l.Changes) != 6 {
		t.Errorf("after the undo the changes are %v", l.Changes)
	}

	again, err := w.undoCommit(undo.ID, CommitOptions{Message: "Do it again"})
	must(t, err)
	w.wantHead("done again", map[string]string{
		"a": byAgent(user), "dir": "a file\n", "dirty": byAgent(numbered(20)), "kept": "kept\n", "new/file": "new\n", "other": "other\n",
	})
	w.wantGit(" M dirty", "status", "--porcelain")
	w.wantGit("Do it again", "log", "-1", "--format=%s")
	if len(again.Commits) != 1 || again.Undoes != undo.ID {
		t.Errorf("the last entry is %+v", again)
	}
	w.sound("workspace")
}

// wantHead checks what HEAD holds.
func (w repos) wantHead(what string, want files) {
	w.t.Helper()
	got := files{}
	for _, name := range strings.Fields(w.gitIn("workspace", "ls-tree", "-r", "--name-only", "HEAD")) {
		got[name] = w.gitIn("workspace", "show", "HEAD:"+name) + "\n"
	}
	same(w.t, what, got, want)
}

func TestUndoCommitsToTheBranchOfTheEntry(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": "a\n"})
	write(t, w.in(id), files{"a": "agent\n"})
	e := w.mustCommit("side")
	_, err := w.undoCommit(e.ID, CommitOptions{})
	must(t, err)
	w.wantGit("a", "show", "side:a")
	w.wantGit("3", "rev-list", "--count", "side")
	w.wantGit("1", "rev-list", "--count", "main")
	w.wantGit("", "status", "--porcelain")
	if l := w.changes(Query{}); len(l.Changes) != 1 {
		t.Errorf("after the undo the changes are %v", l.Changes)
	}
	w.sound("workspace")
}

func TestUndoOfCommitsIsRefused(t *testing.T) {
	t.Parallel()
	w := newRepos(t, files{"a": numbered(20), "b": "b\n"})
	write(t, w.in(id), files{"a": byAgent(numbered(20))})
	e := w.mustCommit("", "a")
	write(t, w.in(id), files{"b": "agent\n"})
	plain := w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "b"}}}, Approve: true})
	write(t, w.in("workspace"), files{"b": "b\n"})
	wantCode := func(what string, err error, code fserr.Code) {
		t.Helper()
		if fserr.CodeOf(err) != code {
			t.Errorf("%s: %v, want %v", what, err, code)
		}
	}
	_, err := w.undoCommit(plain.ID, CommitOptions{})
	wantCode("an entry without a commit", err, fserr.EINVAL)
	_, err = w.undoCommit(e.ID, CommitOptions{Branch: "side"})
	wantCode("a named branch", err, fserr.EINVAL)
	w.gitIn("workspace", "checkout", "-q", "-b", "elsewhere")
	_, err = w.undoCommit(e.ID, CommitOptions{})
	wantCode("another branch", err, fserr.EINVAL)
	w.gitIn("workspace", "checkout", "-q", "main")

	// The user has changed the same line in a commit, and has it back in the working tree.
	write(t, w.in("workspace"), files{"a": strings.Replace(byAgent(numbered(20)), "the agent's\n", "the user's\n", 1)})
	w.gitIn("workspace", "commit", "-qam", "the user's")
	write(t, w.in("workspace"), files{"a": byAgent(numbered(20))})
	_, err = w.undoCommit(e.ID, CommitOptions{})
	if refused := wantReason(t, err, DirtyCommit); !strings.Contains(refused.Hint, "undo without --commit") {
		t.Errorf("the hint is %q", refused.Hint)
	}
	w.wantGit("3", "rev-list", "--count", "HEAD")
	if got := read(t, w.in("workspace"))["a"]; got != byAgent(numbered(20)) {
		t.Errorf("the refused undo wrote %q", got)
	}
	w.sound("workspace")
}

// TestPutBackOfAFileThatBecameADirectory has a program save another file while an entry makes a directory of a file: the file comes back.
func TestPutBackOfAFileThatBecameADirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "a\n", "d": "a file\n"})
	remove(t, w.in(id), "d")
	write(t, w.in(id), files{"a": "agent\n", "d/x/y": "agent\n"})
	open, err := os.OpenFile(w.in("workspace/a"), os.O_WRONLY, 0)
	must(t, err)
	defer func() { must(t, open.Close()) }()
	w.at("all taken", func() {
		_, err := open.WriteString("user\n")
		must(t, err)
	})
	_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: w.allPaths(), Approve: true, Actor: "host"})
	wantReason(t, err, Conflicting)
	same(t, "put back", read(t, w.in("workspace")), files{"a": "user\n", "d": "a file\n"})
}
