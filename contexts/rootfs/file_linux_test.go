package rootfs

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestAtomicWritersAllSucceed has many replace one file: each write is made, none is undone.
func TestAtomicWritersAllSucceed(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 200 {
					if err := replacing("f", false)(w.Root); err != nil {
						w.Errorf("a commit among others: %v", err)
						return
					}
				}
			})
		}
		all.Wait()
		w.content("f", "whole")
	})
}

// named opens a root as on a file system without O_TMPFILE.
func named(dir string) (Root, error) {
	r, err := openLinux(dir, Options{}, openat2)
	if err != nil {
		return nil, err
	}
	r.noTmpfile = true
	return r, nil
}

// TestTemporaryNameIsPrivate looks at the names that atomic files have before Commit.
func TestTemporaryNameIsPrivate(t *testing.T) {
	t.Parallel()
	t.Run("osroot", func(t *testing.T) {
		newWorld(t, with("osroot")).private()
	})
	t.Run("without O_TMPFILE", func(t *testing.T) { newWorld(t, named).private() })
}

// TestWithoutTmpfile opens and writes where atomic files need names.
func TestWithoutTmpfile(t *testing.T) {
	t.Parallel()
	for _, b := range openBehaviours {
		t.Run(b.name, func(t *testing.T) { b.run(newWorld(t, named)) })
	}
}

// TestWritesDropSetuid has a root server write, in every way, to a file that a program made setuid. The kernel does that for writers
// without CAP_FSETID.
func TestWritesDropSetuid(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root keeps setuid when it writes")
	}
	onLinux(t, func(w *world) {
		for name, c := range map[string]struct {
			flags Flags
			write func(f File) error
		}{
			"Write":          {O_WRONLY, func(f File) error { _, err := f.Write([]byte("x")); return err }},
			"append":         {O_WRONLY | O_APPEND, func(f File) error { _, err := f.Write([]byte("x")); return err }},
			"WriteAt":        {O_RDWR, func(f File) error { _, err := f.WriteAt([]byte("x"), 3); return err }},
			"Writev":         {O_WRONLY, func(f File) error { _, err := Writev(f, [][]byte{[]byte("x"), []byte("y")}); return err }},
			"WritevAt":       {O_WRONLY, func(f File) error { _, err := WritevAt(f, [][]byte{[]byte("x"), []byte("y")}, 1); return err }},
			"Truncate":       {O_RDWR, func(f File) error { return f.Truncate(1) }},
			"O_TRUNC":        {O_WRONLY | O_TRUNC, func(File) error { return nil }},
			"nothing at all": {O_RDWR, nil},
		} {
			w.put("tool", "content")
			w.must(unix.Chmod(w.host("tool"), 0o6755))
			f, err := w.OpenFile("tool", c.flags, 0)
			w.must(err)
			want := uint32(0o755)
			if c.write != nil {
				w.must(c.write(f))
			} else {
				want = 0o6755
			}
			w.must(f.Close())
			if got := w.lstat("tool").Perm(); got != want {
				t.Errorf("%s leaves mode %o, want %o", name, got, want)
			}
		}
	})
}

// TestAtomicFileFailsAtOnceAtABadPlace fails when it is opened, not when it is committed.
func TestAtomicFileFailsAtOnceAtABadPlace(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		w.must(w.Mkdir("dir", 0o755))
		for path, want := range map[string]fserr.Code{
			"..": fserr.EACCES, "dir/../..": fserr.EACCES, "../": fserr.EACCES, "dir/..": fserr.EISDIR, ".": fserr.EISDIR, "/": fserr.EISDIR, "dir/.": fserr.EISDIR,
		} {
			f, err := w.CreateAtomic(path, 0o644, false)
			if fserr.CodeOf(err) != want {
				t.Errorf("%s: got %v, want %v", path, err, want)
			}
			if err == nil {
				w.must(f.Abort())
			}
		}
		if os.Geteuid() != 0 {
			return
		}
		w.put("mounted", "content")
		w.must(unix.Mount(w.outside+"/secret", w.host("mounted"), "", unix.MS_BIND, ""))
		defer func() { w.must(unix.Unmount(w.host("mounted"), unix.MNT_DETACH)) }()
		_, err := w.CreateAtomic("mounted", 0o644, false)
		w.code(err, fserr.EXDEV)
	})
}

// TestFullDiskWaitsForReplacedFiles has a writer find the disk full while a replaced file is being freed.
func TestFullDiskWaitsForReplacedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("openat2"))
	w.must(os.Mkdir(w.host("small"), 0o755))
	w.mountTmpfs("small")
	if _, err := os.Stat(w.host("small/x")); err != nil {
		t.Skip("needs the right to mount")
	}
	root, err := Open(w.host("small"), Options{})
	w.must(err)
	defer root.Close()
	w.must(os.WriteFile(w.host("small/replaced"), make([]byte, 48<<10), 0o644))
	linux := root.(*linuxRoot) //nolint:forcetypeassert // on Linux it is no other
	linux.freeing.RLock()
	written := make(chan error)
	go func() {
		f, err := root.CreateAtomic("new", 0o644, false)
		if err == nil {
			_, err = f.Write(make([]byte, 48<<10))
			err = errors.Join(err, f.Commit(false))
		}
		written <- err
	}()
	for linux.freeing.TryRLock() { // until the writer waits
		linux.freeing.RUnlock()
		runtime.Gosched()
	}
	w.must(os.Remove(w.host("small/replaced")))
	linux.freeing.RUnlock()
	w.must(<-written)
}
