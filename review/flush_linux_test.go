package review

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

// TestManyFilesAreFlushedAlone applies 100 changes with commits in two repositories, discards others, and cuts the power after each. All of it is there,
// and no call has flushed a whole file system, which waits for other programs. It takes some seconds: git works on a disk in another process.
func TestManyFilesAreFlushedAlone(t *testing.T) {
	disk := powercut.New(t, 3)
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
	if n := durable.Wide() - wide; n != 0 {
		t.Errorf("%d calls flushed the whole file system", n)
	}
}
