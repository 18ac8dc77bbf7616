package review

import (
	"strings"
	"testing"
)

// TestMergesDoNotHoldUpOtherContexts counts the merges of git's during each call that merges. Calls of other contexts wait while a call has the
// workspace's lock, so that it must have merged before.
func TestMergesDoNotHoldUpOtherContexts(t *testing.T) {
	t.Parallel()
	base := files{"a": numbered(9), "clean": numbered(9)}
	ours := files{"a": strings.Replace(base["a"], "line 5", "panel 5", 1), "clean": strings.Replace(base["clean"], "line 1", "panel 1", 1)}
	theirs := files{"a": strings.Replace(base["a"], "line 5", "user 5", 1), "clean": strings.Replace(base["clean"], "line 9", "user 9", 1)}
	pull := func(how OnPullConflict) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			req := pulling(theirs)
			req.OnConflict, req.Tracked = how, map[Path]bool{"a": true, "clean": true}
			_, err := w.reviews.Pull(t.Context(), req)
			must(t, err)
		}
	}
	rebase := func(how OnConflict) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			write(t, w.in("workspace"), theirs)
			w.rebase(RebaseRequest{OnConflict: how})
		}
	}
	apply := func(t *testing.T, w *world) *Entry {
		write(t, w.in("workspace"), files{"clean": theirs["clean"]})
		return w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}})
	}
	undo := func(t *testing.T, w *world) {
		applied := apply(t, w)
		write(t, w.in("workspace"), files{"clean": strings.Replace(read(t, w.in("workspace"))["clean"], "line 5", "user 5", 1)})
		_, err := w.undo(applied.ID)
		must(t, err)
	}
	for name, test := range map[string]struct {
		call   func(t *testing.T, w *world)
		merges int
	}{
		"pull with markers":       {pull(PullMarks), 3},
		"pull that keeps ours":    {pull(PullKeepsOurs), 3},
		"pull that takes theirs":  {pull(PullTakesTheirs), 3},
		"rebase with markers":     {rebase(WriteMarkers), 3},
		"rebase for the context":  {rebase(KeepContext), 3},
		"rebase for the user":     {rebase(TakeWorkspace), 3},
		"apply":                   {func(t *testing.T, w *world) { apply(t, w) }, 1},
		"undo of what was merged": {undo, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, base)
			write(t, w.in(id), ours)
			w.wantMerges(test.merges, func() { test.call(t, w) })
		})
	}
	t.Run("commit", func(t *testing.T) {
		w := newRepos(t, base)
		write(t, w.in(id), files{"clean": ours["clean"]})
		write(t, w.in("workspace"), files{"clean": theirs["clean"]})
		w.gitIn("workspace", "commit", "-qam", "second")
		w.wantMerges(1, func() { w.mustCommit("") })
	})
	t.Run("undo of a discard", func(t *testing.T) {
		w := newWorld(t, base)
		write(t, w.in(id), files{"clean": ours["clean"]})
		e, err := w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "host")
		must(t, err)
		write(t, w.in(id), files{"clean": theirs["clean"]})
		w.wantMerges(1, func() { _, err := w.undo(e.ID); must(t, err) })
	})
}

// wantMerges checks how often git merges in a call, and that it never does so with the workspace's lock.
func (w *world) wantMerges(want int, call func()) {
	w.t.Helper()
	merges, locked := 0, 0
	w.at("git merges", func() {
		merges++
		w.reviews.mu.Lock()
		defer w.reviews.mu.Unlock()
		locked += len(w.reviews.locks[""])
	})
	call()
	if merges != want || locked != 0 {
		w.t.Errorf("git merged %d times, %d of them with the lock, want %d and none", merges, locked, want)
	}
}

// TestMergeUnderLockSeesWhatChanged changes a file between the two plans of a pull. The pull merges what the file has by then.
func TestMergeUnderLockSeesWhatChanged(t *testing.T) {
	t.Parallel()
	base := files{"a": numbered(9)}
	w := newWorld(t, base)
	write(t, w.in(id), files{"a": strings.Replace(base["a"], "line 5", "panel 5", 1)})
	merges := 0
	w.at("git merges", func() {
		if merges++; merges == 2 { // both merges of the first plan
			write(t, w.in(id), files{"a": strings.Replace(base["a"], "line 5", "later 5", 1)})
		}
	})
	req := pulling(files{"a": strings.Replace(base["a"], "line 5", "user 5", 1)})
	req.OnConflict, req.Tracked = PullMarks, map[Path]bool{"a": true}
	_, err := w.reviews.Pull(t.Context(), req)
	must(t, err)
	if got := read(t, w.in(id))["a"]; !strings.Contains(got, "later 5") || strings.Contains(got, "panel 5") || !strings.Contains(got, "user 5") || merges != 4 {
		t.Errorf("after %d merges the file is %q", merges, got)
	}
}
