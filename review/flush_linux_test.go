package review

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

// TestManyFilesAreFlushed applies 100 changes with commits in two repositories, discards others, and cuts the power after
// each. All of it is there. No call has flushed a whole file system, which waits for other programs, unless these have little
// to write. It takes some seconds: git works on disks in other processes.
func TestManyFilesAreFlushed(t *testing.T) {
	t.Run("FUSE", func(t *testing.T) { manyFilesAreFlushed(t, powercut.New(t, 3), 0, false) })
	t.Run("ext4, and others write much", func(t *testing.T) {
		manyFilesAreFlushed(t, powercut.NewBlocks(t, 3, 64<<20), math.MaxInt64, false)
	})
	t.Run("ext4", func(t *testing.T) { manyFilesAreFlushed(t, powercut.NewBlocks(t, 3, 64<<20), 0, true) })
}

func manyFilesAreFlushed(t *testing.T, disk *powercut.Disk, unwritten int64, whole bool) {
	t.Helper()
	t.Cleanup(durable.Pretend(unwritten))
	base, changed := files{}, files{}
	for i := range 40 {
		for _, repo := range []string{"", "sub/"} {
			name := fmt.Sprintf("%sdir%d/file%d", repo, i%5, i)
			base[name], changed[name] = "old\n", fmt.Sprintf("new %s\n", name)
			if i%8 == 0 { // a directory goes, another one comes
				delete(changed, name)
				base[fmt.Sprintf("%sgone%d/deep/file", repo, i)] = "gone\n"
				changed[fmt.Sprintf("%snew%d/deep/file%d", repo, i, i)] = fmt.Sprintf("made %s\n", name)
			}
		}
	}
	w := repos{newWorldAt(t, disk.At, base)}
	for _, repo := range []string{"workspace/sub", "workspace"} {
		w.init(repo)
		w.gitIn(repo, "add", ".", ":!sub")
		w.gitIn(repo, "commit", "-qm", "first")
	}
	change := func(now, next files) {
		for p := range now {
			if _, stays := next[p]; !stays {
				remove(t, w.in(id), p)
			}
		}
		write(t, w.in(id), next)
	}
	cut := func(want files) {
		t.Helper()
		must(t, w.reviews.Close())
		disk.Cut()
		disk.Resume()
		w.open()
		got := read(t, w.in("workspace"))
		maps.DeleteFunc(got, func(p, _ string) bool { return isWithin(Path(p), ".git") || isWithin(Path(p), "sub/.git") })
		same(t, "the workspace", got, want)
	}
	change(base, changed)
	disk.Settle()
	// git takes objects that are there for its own, although they are not flushed.
	for name := range changed {
		w.gitIn("workspace", "hash-object", "-w", filepath.Join("..", id, name))
	}
	wide := durable.Wide()
	w.mustCommit("")
	cut(changed)
	for _, repo := range []string{"workspace", "workspace/sub"} {
		w.sound(repo)
		if out := w.gitIn(repo, "status", "--porcelain", ".", ":!sub"); out != "" {
			t.Errorf("git status in %s prints\n%s", repo, out)
		}
		if out := w.gitIn(repo, "log", "--format=%s"); out != "Subject\nfirst" {
			t.Errorf("git log in %s prints\n%s", repo, out)
		}
	}
	change(changed, base)
	disk.Settle()
	_, err := w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "panel")
	must(t, err)
	cut(changed)
	same(t, "the context", read(t, w.in(id)), changed)
	if n := durable.Wide() - wide; n != 0 != whole {
		t.Errorf("%d calls flushed the whole file system", n)
	}
}
