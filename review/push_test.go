package review

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// plumb runs git in the repository of the workspace with an index of its own, and returns what it prints.
func (w repos) plumb(stdin string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = w.in("workspace"), strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+w.in("plumb.index"), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.com",
		"GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.com")
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

// pushing makes a commit of what the context changed, on top of main, and returns the request that pushes it.
func (w repos) pushing(target Target, branch string) PushRequest {
	w.t.Helper()
	old := w.gitIn("workspace", "rev-parse", "main")
	req := PushRequest{
		Context: id, Actor: "host", RequestID: "push/1", Target: target, Branch: branch, Old: old, Note: "push", Committer: git.Identity{Name: "n", Email: "e@example.com"},
		Blob: func(id string) (io.Reader, error) {
			return bytes.NewReader([]byte(w.plumb("", "cat-file", "blob", id))), nil
		},
	}
	w.plumb("", "read-tree", old)
	all := Selection{}
	for _, c := range w.changes(Query{}).Changes {
		all.Changes = append(all.Changes, Selected{Path: c.Path})
	}
	l, chosen, _, err := w.reviews.choose(w.t.Context(), id, all, "")
	must(w.t, err)
	must(w.t, l.Close())
	for _, c := range chosen {
		req.Base = append(req.Base, PickedChange{Path: c.Path, Before: c.Before, After: c.After})
		f := git.File{ID: strings.Repeat("0", 40)}
		if c.After.Exists() {
			f = fileOf(string(c.Path), c.After, nil)
			f.ID = w.plumbed(w.content(c.After), "hash-object", "-w", "--stdin")
		}
		w.plumb(fmt.Sprintf("%o %s\t%s\n", f.Mode, f.ID, c.Path), "update-index", "--index-info")
	}
	req.New = w.plumbed("staged", "commit-tree", "-p", old, w.plumbed("", "write-tree"))
	req.Deltas = w.deltas(old, req.New)
	return req
}

// plumbed is plumb for what prints one line.
func (w repos) plumbed(stdin string, args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(w.plumb(stdin, args...))
}

func (w repos) content(v Version) string {
	w.t.Helper()
	f, err := w.reviews.store.Open(v.Hash)
	must(w.t, err)
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	must(w.t, err)
	return string(data)
}

func (w repos) deltas(from, to string) (deltas []git.Delta) {
	w.t.Helper()
	for line := range strings.Lines(w.plumb("", "diff-tree", "-r", "--no-renames", from, to)) {
		what, p, _ := strings.Cut(strings.TrimSpace(line), "\t")
		d := git.Delta{Path: p}
		if _, err := fmt.Sscanf(what, ":%o %o %s %s", &d.OldMode, &d.NewMode, &d.OldID, &d.NewID); err != nil {
			w.t.Fatal(err)
		}
		if d.OldMode == 0 {
			d.OldID = ""
		}
		if d.NewMode == 0 {
			d.NewID = ""
		}
		deltas = append(deltas, d)
	}
	return deltas
}

func (w repos) push(req PushRequest) (*Entry, error) {
	w.t.Helper()
	return w.reviews.Push(w.t.Context(), req)
}

// changed returns the paths of the context's changes.
func (w repos) changed() string {
	w.t.Helper()
	var paths []string
	for _, c := range w.changes(Query{}).Changes {
		paths = append(paths, string(c.Path))
	}
	return strings.Join(paths, " ")
}

// newPushed makes a repository and a context that changed files of every kind.
func newPushed(t *testing.T) repos {
	t.Helper()
	w := newRepos(t, files{"a": numbered(9), "gone/deep/x": "x\n", "run": "echo\n", "link": "-> a", "mine": "mine\n", "staged": "staged\n"})
	remove(t, w.in(id), "gone/deep/x")
	write(t, w.in(id), files{"a": byAgent(numbered(9)), "new/deep/file": "new\n", "run": "+x echo\n", "link": "-> run"})
	return w
}

func TestPushToTheWorkingTree(t *testing.T) {
	t.Parallel()
	w := newPushed(t)
	write(t, w.in("workspace"), files{"staged": "by the user\n", "untracked": "u\n"})
	w.gitIn("workspace", "add", "staged")
	write(t, w.in("workspace"), files{"mine": "dirty\n", "staged": "and more\n"})
	req := w.pushing(ToCommit, "main")
	dry := req
	dry.DryRun = true
	before := read(t, w.in("workspace"))
	_, err := w.push(dry)
	must(t, err)
	same(t, "after a dry run", read(t, w.in("workspace")), before)
	e, err := w.push(req)
	must(t, err)
	w.wantGit(req.New, "rev-parse", "main")
	w.wantGit(" M mine\nMM staged\n?? untracked", "status", "--porcelain")
	got := read(t, filepath.Join(w.in("workspace")))
	maps.DeleteFunc(got, func(p, _ string) bool { return strings.HasPrefix(p, ".git/") })
	same(t, "the working tree", got, files{
		"a": byAgent(numbered(9)), "run": "+x echo\n", "link": "-> run", "new/deep/file": "new\n", "mine": "dirty\n", "staged": "and more\n", "untracked": "u\n",
	})
	if left := w.changed(); left != "" {
		t.Errorf("after the push these changes are left: %s", left)
	}
	if again, err := w.push(req); err != nil || again.ID != e.ID {
		t.Errorf("pushing again made entry %v (%v)", again, err)
	}
	w.sound("workspace")
}

func TestPushToABranch(t *testing.T) {
	t.Parallel()
	w := newPushed(t)
	w.gitIn("workspace", "branch", "side")
	before := read(t, w.in("workspace"))
	req := w.pushing(ToBranch, "side")
	_, err := w.push(req)
	must(t, err)
	w.wantGit(req.New, "rev-parse", "side")
	w.wantGit("", "status", "--porcelain")
	got := read(t, w.in("workspace"))
	same(t, "the file", files{"a": got["a"]}, files{"a": before["a"]})
	if left := w.changed(); left != "" {
		t.Errorf("after the push these changes are left: %s", left)
	}
	w.sound("workspace")
}

// Undo takes back the files and the base. The commit stays.
func TestUndoOfPush(t *testing.T) {
	t.Parallel()
	for _, target := range []Target{ToCommit, ToBranch} {
		t.Run(string(target), func(t *testing.T) {
			t.Parallel()
			w := newPushed(t)
			branch := "main"
			if target == ToBranch {
				branch = "side"
				w.gitIn("workspace", "branch", branch)
			}
			req, before, changes := w.pushing(target, branch), read(t, w.in("workspace")), w.changed()
			e, err := w.push(req)
			must(t, err)
			_, err = w.reviews.Undo(t.Context(), UndoRequest{ID: e.ID, May: func(*Entry) error { return nil }})
			must(t, err)
			w.wantGit(req.New, "rev-parse", branch)
			after := read(t, w.in("workspace"))
			for _, tree := range []files{before, after} {
				maps.DeleteFunc(tree, func(p, _ string) bool { return strings.HasPrefix(p, ".git/") })
			}
			same(t, "after the undo", after, before)
			if got := w.changed(); got != changes {
				t.Errorf("after the undo the changes are %q, were %q", got, changes)
			}
		})
	}
}

// The base moves by what was staged, so that what the context did since stays a change.
func TestPushLeavesLaterChanges(t *testing.T) {
	t.Parallel()
	w := newPushed(t)
	req := w.pushing(ToBranch, "side")
	req.Old = ""
	write(t, w.in(id), files{"a": byAgent(numbered(9)) + "later\n", "other": "o\n"})
	_, err := w.push(req)
	must(t, err)
	l := w.changes(Query{})
	if got := w.changed(); got != "a other" {
		t.Fatalf("the changes are %q", got)
	}
	added, removed := l.Changes[0].Text.Lines()
	if added != 1 || removed != 0 {
		t.Errorf("of a, %d lines are added and %d removed", added, removed)
	}
}

func TestPushMovesTheBaseAlone(t *testing.T) {
	t.Parallel()
	w := newPushed(t)
	req := w.pushing(ToBranch, "")
	req.Deltas = nil
	e, err := w.push(req)
	must(t, err)
	if left := w.changed(); left != "" {
		t.Errorf("after the push these changes are left: %s", left)
	}
	_, err = w.reviews.Undo(t.Context(), UndoRequest{ID: e.ID, May: func(*Entry) error { return nil }})
	must(t, err)
	if got := w.changed(); got != "a gone/deep/x link new/deep/file run" {
		t.Errorf("after the undo the changes are %q", got)
	}
}

// A refused push leaves refs, index, files and base as they are.
func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		target  Target
		branch  string
		prepare func(w repos, req *PushRequest)
		check   func(err error) bool
	}{
		{"dirty file", ToCommit, "main", func(w repos, _ *PushRequest) { write(w.t, w.in("workspace"), files{"a": "dirty\n"}) }, isDirty("a")},
		{"dirty in other lines", ToCommit, "main", func(w repos, _ *PushRequest) {
			write(w.t, w.in("workspace"), files{"a": numbered(9) + "by the user\n"})
		}, isDirty("a")},
		{"staged file", ToCommit, "main", func(w repos, _ *PushRequest) {
			write(w.t, w.in("workspace"), files{"a": "dirty\n"})
			w.gitIn("workspace", "add", "a")
			write(w.t, w.in("workspace"), files{"a": numbered(9)})
		}, isDirty("a")},
		{"untracked file in the way", ToCommit, "main", func(w repos, _ *PushRequest) { write(w.t, w.in("workspace"), files{"new": "u\n"}) }, isDirty("new/deep/file")},
		{"staged file in the way", ToCommit, "main", func(w repos, _ *PushRequest) {
			write(w.t, w.in("workspace"), files{"new": "u\n"})
			w.gitIn("workspace", "add", "new")
			remove(w.t, w.in("workspace"), "new")
		}, isDirty("new/deep/file")},
		{"removed by the user", ToCommit, "main", func(w repos, _ *PushRequest) { remove(w.t, w.in("workspace"), "run") }, isDirty("run")},
		{"detached", ToCommit, "main", func(w repos, _ *PushRequest) { w.gitIn("workspace", "checkout", "-q", "--detach") }, isInvalid},
		{"another branch is checked out", ToCommit, "main", func(w repos, _ *PushRequest) { w.gitIn("workspace", "checkout", "-q", "-b", "other") }, isInvalid},
		{"checked out", ToBranch, "main", func(repos, *PushRequest) {}, isInvalid},
		{"checked out in another working tree", ToBranch, "side", func(w repos, req *PushRequest) {
			w.gitIn("workspace", "worktree", "add", "-q", w.in("linked"), "-b", "side")
		}, isInvalid},
		{"moved", ToCommit, "main", func(w repos, _ *PushRequest) { w.gitIn("workspace", "commit", "-q", "--allow-empty", "-m", "other") }, IsMoved},
		{"branch moved", ToBranch, "side", func(w repos, _ *PushRequest) {
			w.gitIn("workspace", "branch", "side", w.gitIn("workspace", "commit-tree", "-m", "x", "HEAD^{tree}"))
		}, IsMoved},
		{"no such branch", ToBranch, "side", func(repos, *PushRequest) {}, IsMoved},
		{"index locked", ToCommit, "main", func(w repos, _ *PushRequest) { write(w.t, w.in("workspace"), files{".git/index.lock": ""}) }, isBusy},
		{"branch locked", ToBranch, "side", func(w repos, _ *PushRequest) {
			w.gitIn("workspace", "branch", "side")
			write(w.t, w.in("workspace"), files{".git/refs/heads/side.lock": ""})
		}, isBusy},
		{"merge in progress", ToCommit, "main", func(w repos, req *PushRequest) {
			write(w.t, w.in("workspace"), files{".git/MERGE_HEAD": req.Old + "\n"})
		}, isBusy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newPushed(t)
			req := w.pushing(c.target, c.branch)
			c.prepare(w, &req)
			before, changes := read(t, w.in("workspace")), w.changed()
			if _, err := w.push(req); err == nil || !c.check(err) {
				t.Errorf("the push ended with %v", err)
			}
			same(t, "the workspace", read(t, w.in("workspace")), before)
			if got := w.changed(); got != changes {
				t.Errorf("the changes are %s, were %s", got, changes)
			}
		})
	}
}

func isDirty(path Path) func(error) bool {
	return func(err error) bool {
		var e *Error
		return errors.As(err, &e) && e.Reason == DirtyCommit && slices.Equal(e.Paths, []Path{path})
	}
}

func isInvalid(err error) bool { return fserr.CodeOf(err) == fserr.EINVAL }

func isBusy(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == RepositoryBusy
}
