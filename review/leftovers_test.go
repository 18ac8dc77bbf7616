package review

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestStartRemovesWhatAKilledServerLeftInItsState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	write(t, w.in(id), files{"a": "panel\n"})
	_, err := w.reviews.Submit(t.Context(), id, "title", "", "panel")
	must(t, err)
	e := w.apply(ApplyRequest{Selection: &Selection{All: true}, Approve: true})
	must(t, w.reviews.Close())
	left := []string{
		"scratch/merge-1/base", "scratch/git-2/objects/x", "contexts/new-3", "journal/new-4", "known/new-5", "blobs/new-6", "revisions/" + id + "/new-7",
	}
	for _, name := range left {
		write(t, w.in("state"), files{name: "half"})
	}
	w.open()
	for _, name := range left {
		if _, err := os.Lstat(filepath.Join(w.in("state"), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(w.in("state/scratch")); err != nil || len(entries) > 0 {
		t.Errorf("scratch has %v (%v)", entries, err)
	}
	_, err = w.undo(e.ID)
	must(t, err)
	same(t, "undone", read(t, w.in("workspace")), files{"a": "base\n"})
}

// A Discard that was killed had removed a file, and had made the directory of the same name.
func TestInterruptedDiscardRemovesTheDirectoryThatItMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"dir/sub/x": "x\n"})
	remove(t, w.in(id), "dir/sub/x")
	write(t, w.in(id), files{"dir": "a file\n"})
	killed := errors.New("killed")
	w.at(phaseBegun, func() { panic(killed) })
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, killed) {
				t.Errorf("the discard ended with %v", err)
			}
		}()
		_, _ = w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "panel")
	}()
	must(t, os.Remove(filepath.Join(w.in(id), "dir")))
	must(t, os.MkdirAll(filepath.Join(w.in(id), "dir/sub"), 0o755))
	must(t, w.reviews.Close())
	w.open()
	same(t, "after the start", read(t, w.in(id)), files{"dir": "a file\n"})
}
