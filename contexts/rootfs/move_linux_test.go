package rootfs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/long"
)

// moving starts the emulated rename of a directory "tree", with a file "tree/f" and "tree/sub/g", to "new". What
// overlayfs makes it for is in contexts/driver/overlay; its steps are the same anywhere.
func moving(w *world, test func(m *mover, st Stat)) {
	w.Helper()
	w.must(w.Mkdir("tree", 0o750))
	w.must(w.Mkdir("tree/sub", 0o755))
	for _, name := range []string{"tree/f", "tree/sub/g"} {
		w.put(name, name)
	}
	r, ok := w.Root.(*linuxRoot)
	if !ok {
		w.Fatal("it is no Linux root")
	}
	w.must(r.two("tree", "new", func(from, to place) error {
		st, err := node.StatAt(from.dir, from.base)
		w.must(err)
		test(&mover{root: r, from: from, to: to, tmp: tmpName()}, st)
		return nil
	}))
}

func (m *mover) appear() error { return unix.Renameat(m.to.dir, m.tmp, m.to.dir, m.to.base) }

// TestCrashBeforeAMoveAppears leaves the old directory whole.
func TestCrashBeforeAMoveAppears(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		moving(w, func(m *mover, st Stat) {
			w.must(m.build(st))
			swept, err := tree.Sweep(context.Background(), w.Root)
			w.must(err)
			w.equal(swept, 4)
		})
		w.content("tree/f", "tree/f")
		w.content("tree/sub/g", "tree/sub/g")
		w.equal(w.lstat("tree/f").Nlink, uint64(1))
		_, err := w.Lstat("new")
		w.code(err, fserr.ENOENT)
	})
}

// TestCrashAfterAMoveAppeared leaves the new directory whole.
func TestCrashAfterAMoveAppeared(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		moving(w, func(m *mover, st Stat) {
			w.must(m.build(st))
			w.must(m.appear())
		})
		w.content("new/f", "tree/f")
		w.content("new/sub/g", "tree/sub/g")
		w.equal(w.lstat("new").Perm(), uint32(0o750))
	})
}

// TestMoveTakesNewNamesAlong puts things into the old directory after its files were linked.
func TestMoveTakesNewNamesAlong(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		moving(w, func(m *mover, st Stat) {
			w.must(m.build(st))
			w.put("tree/later", "later")
			w.must(w.Mkdir("tree/sub/dir", 0o755))
			w.put("tree/sub/dir/x", "x")
			w.must(w.Unlink("tree/f"))
			w.put("tree/f", "replaced")
			w.must(m.appear())
			w.put("new/sub/g", "through the new name")
			w.must(m.clear())
		})
		for name, want := range map[string]string{"later": "later", "sub/dir/x": "x", "f": "replaced", "sub/g": "through the new name"} {
			w.content("new/"+name, want)
		}
		_, err := w.Lstat("tree")
		w.code(err, fserr.ENOENT)
	})
}

// TestMoveThatFailsLeavesNothing cannot put the new directory in its place.
func TestMoveThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		moving(w, func(m *mover, st Stat) {
			w.must(m.build(st))
			w.must(m.abandon())
		})
		swept, err := tree.Sweep(context.Background(), w.Root)
		w.must(err)
		w.equal(swept, 0)
		w.content("tree/sub/g", "tree/sub/g")
	})
}

// TestWritersDoNotMakeAMoveFail has clients create names without a pause in the directory that is moved.
func TestWritersDoNotMakeAMoveFail(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		created := make([]int, 8)
		var writers, begun sync.WaitGroup
		begun.Add(len(created))
		var stop atomic.Bool
		var err error
		moving(w, func(m *mover, st Stat) {
			w.must(m.build(st))
			for n := range created {
				writers.Go(func() { created[n] = mkdirWhilePossible(w.Root, fmt.Sprintf("tree/sub/%d", n), begun.Done, &stop) })
			}
			begun.Wait()
			w.must(m.appear())
			err = m.clear()
			stop.Store(true)
			writers.Wait()
		})
		w.must(err)
		for n, count := range created {
			for i := range count {
				w.lstat(fmt.Sprintf("new/sub/%d-%d", n, i))
			}
		}
		_, err = w.Lstat("tree")
		w.code(err, fserr.ENOENT)
	})
}

// mkdirWhilePossible makes directories, a thousand or many of them, until stop or until one cannot be made. It returns how many it made.
func mkdirWhilePossible(r Root, prefix string, begun func(), stop *atomic.Bool) (made int) {
	begin, most := sync.OnceFunc(begun), long.Of(1_000, 20_000)
	defer begin()
	for made < most && !stop.Load() && r.Mkdir(fmt.Sprintf("%s-%d", prefix, made), 0o755) == nil {
		made++
		begin()
	}
	return made
}
