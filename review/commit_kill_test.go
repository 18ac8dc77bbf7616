package review

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// killed runs an Apply that ends in a phase, as if the server had been killed there: what it holds on disk stays as it was.
func (w repos) killed(req ApplyRequest, phase string) {
	w.t.Helper()
	end := errors.New("killed")
	locks := files{}
	w.at(phase, func() {
		must(w.t, filepath.WalkDir(w.in("workspace"), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "index.lock" {
				return err
			}
			data, err := os.ReadFile(name)
			locks[name] = string(data)
			return err
		}))
		panic(end)
	})
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, end) {
				w.t.Errorf("the apply ended with %v", err)
			}
		}()
		_, _ = w.reviews.Apply(w.t.Context(), req)
	}()
	if len(locks) == 0 && req.Target == ToCommit {
		w.t.Error("the apply did not lock the index")
	}
	for name, data := range locks { // deferred calls have removed them; a killed process would not
		must(w.t, os.WriteFile(name, []byte(data), 0o600))
	}
	must(w.t, w.reviews.Close())
}

func newTwoRepos(t *testing.T) repos {
	t.Helper()
	w := repos{newWorld(t, files{"app/a": "a\n", "lib/b": "a\n"})}
	for _, dir := range []string{"workspace/app", "workspace/lib"} {
		w.init(dir)
		w.gitIn(dir, "add", "-A")
		w.gitIn(dir, "commit", "-qm", "first")
	}
	write(t, w.in(id), files{"app/a": "agent\n", "lib/b": "agent\n"})
	return w
}

// wantState checks the files, the status and the number of commits of both repositories.
func (w repos) wantState(what, content, status string, commits ...string) {
	w.t.Helper()
	got := read(w.t, w.in("workspace"))
	same(w.t, what, files{"app/a": got["app/a"], "lib/b": got["lib/b"]}, files{"app/a": content, "lib/b": content})
	for i, dir := range []string{"workspace/app", "workspace/lib"} {
		if n := w.gitIn(dir, "rev-list", "--count", "HEAD"); n != commits[i] {
			w.t.Errorf("%s: %s has %s commits, want %s", what, dir, n, commits[i])
		}
		if got := w.gitIn(dir, "status", "--porcelain"); got != status {
			w.t.Errorf("%s: the status of %s is %q, want %q", what, dir, got, status)
		}
		w.sound(dir)
	}
	if left, err := w.reviews.journal.ids(intentSuffix); err != nil || len(left) > 0 {
		w.t.Errorf("%s: the journal has the intents %v (%v)", what, left, err)
	}
}

func TestKilledBeforeTheCommitIsPutBack(t *testing.T) {
	t.Parallel()
	w := newTwoRepos(t)
	w.killed(w.committing(""), phaseTaken)
	w.open()
	w.wantState("after the start", "a\n", "", "1", "1")
}

func TestKilledAfterTheCommitIsCompleted(t *testing.T) {
	t.Parallel()
	w := newTwoRepos(t)
	w.killed(w.committing(""), "moved")
	w.open()
	w.wantState("after the start", "agent\n", "", "2", "2")
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Errorf("after the start these changes are left: %v", l.Changes)
	}
	if e, err := w.reviews.journal.read(1, doneSuffix); err != nil || len(e.Commits) != 2 {
		t.Errorf("the journal has %v (%v)", e, err)
	}
}

// Killed when one of two branches has moved.
func TestKilledBetweenCommitsIsCompleted(t *testing.T) {
	t.Parallel()
	w := newTwoRepos(t)
	w.killed(w.committing(""), "moved")
	// The user has gone on in app; lib is as before the move.
	w.gitIn("workspace/lib", "update-ref", "refs/heads/main", "refs/heads/main^")
	must(t, os.Remove(w.in("workspace/app/.git/index.lock")))
	w.gitIn("workspace/app", "reset", "-q")
	w.gitIn("workspace/app", "commit", "-q", "--allow-empty", "-m", "since")
	w.open()
	w.wantState("after the start", "agent\n", "", "3", "2")
}

// Killed when one of two branches has moved, and the other gets another commit before the start.
func TestKilledBetweenCommitsBesideAnotherCommit(t *testing.T) {
	t.Parallel()
	w := newTwoRepos(t)
	w.killed(w.committing(""), "moved")
	w.gitIn("workspace/lib", "update-ref", "refs/heads/main", "refs/heads/main^")
	must(t, os.Remove(w.in("workspace/lib/.git/index.lock")))
	w.gitIn("workspace/lib", "commit", "-q", "--allow-empty", "-m", "other")
	w.open()
	if got := w.gitIn("workspace/lib", "log", "-1", "--format=%s"); got != "other" {
		t.Errorf("the other's commit became %q", got)
	}
	e, err := w.reviews.journal.read(1, doneSuffix)
	if err != nil || len(e.Commits) != 1 || e.Commits[0].Repository != "app" {
		t.Errorf("the journal has %v (%v)", e, err)
	}
	if got := w.gitIn("workspace/lib", "status", "--porcelain"); got != " M b" {
		t.Errorf("the status of lib is %q", got)
	}
	w.sound("workspace/lib")
}

// A branch's commit needs no files: it was made, or it was not. A rebase that follows leaves the context as it is.
func TestKilledCommitToBranch(t *testing.T) {
	t.Parallel()
	for phase, moved := range map[string]bool{
		phaseBegun: false, phaseIntended: false, phaseTaken: false, "settled": false, "moved": true, phaseFinished: true, "done": true, "base moved": true,
	} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			w := newTwoRepos(t)
			changes, behind := "app/a lib/b", ""
			if moved {
				changes, behind = behind, changes
			}
			context := read(t, w.in(id))
			w.killed(w.committing("side"), phase)
			w.open()
			w.wantState("after the start", "a\n", "", "1", "1")
			if w.changed() != changes || w.behind() != behind {
				t.Errorf("after the start the changes are %q, and the workspace is behind at %q", w.changed(), w.behind())
			}
			if _, err := w.tryGit("workspace/app", "rev-parse", "-q", "--verify", "side"); (err == nil) != moved {
				t.Errorf("the branch: %v", err)
			}
			if done := w.rebase(RebaseRequest{}); len(done.Steps) > 0 {
				t.Errorf("the rebase did %v", done.Files())
			}
			same(t, "rebased", read(t, w.in(id)), context)
		})
	}
}

// Killed when the entry is recorded, and the index does not follow yet.
func TestKilledBeforeTheIndexFollowsIsCompleted(t *testing.T) {
	t.Parallel()
	w := newTwoRepos(t)
	index := func(dir string) string { return filepath.Join(w.in("workspace"), dir, ".git/index") }
	before := map[string][]byte{}
	for _, dir := range []string{"app", "lib"} {
		data, err := os.ReadFile(index(dir))
		must(t, err)
		before[dir] = data
	}
	w.mustCommit("")
	for dir, data := range before {
		must(t, os.Rename(index(dir), index(dir)+".lock"))
		must(t, os.WriteFile(index(dir), data, 0o600))
	}
	must(t, w.reviews.Close())
	w.open()
	w.wantState("after the start", "agent\n", "", "2", "2")
}

// The lock of the user's own git command stays.
func TestStartKeepsTheLockOfAnother(t *testing.T) {
	t.Parallel()
	w := newTwoRepos(t)
	w.killed(w.committing(""), "moved")
	lock := w.in("workspace/lib/.git/index.lock")
	must(t, os.WriteFile(lock, []byte("another's"), 0o600))
	w.open()
	if data, err := os.ReadFile(lock); err != nil || string(data) != "another's" {
		t.Errorf("the lock is %q (%v)", data, err)
	}
}
