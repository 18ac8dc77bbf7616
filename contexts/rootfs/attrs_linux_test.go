package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestImmutableFile may not be written, whoever asks.
func TestImmutableFile(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		w.immutable("f")
		w.code(accessing("f", 2)(w.Root), fserr.EPERM)
		w.code(accessing("rel", 6)(w.Root), fserr.EPERM)
		w.code(accessing("f", 4)(w.Root), done)
		w.code(accessing("d/g", 6)(w.Root), done)
	})
}

// immutableFlag is FS_IMMUTABLE_FL of linux/fs.h.
const immutableFlag = 0x10

// immutable sets the flag until the test ends.
func (w *world) immutable(path string) {
	w.Helper()
	f, err := os.Open(w.host(path))
	w.must(err)
	fd := int(f.Fd())
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|immutableFlag)
	}
	if err != nil {
		_ = f.Close()
		w.Skipf("this file system or user cannot make a file immutable: %v", err)
	}
	w.Cleanup(func() {
		w.must(unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags))
		w.must(f.Close())
	})
}

// TestWithoutProc changes a link on a thread that has no /proc.
func TestWithoutProc(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(filepath.Join(dir, "link"), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer node.CloseFD(fd)
	jailed, changed := make(chan error, 1), make(chan error, 1)
	go func() {
		// The thread is not unlocked: it ends with the goroutine, and its root with it.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chroot(dir)
		}
		jailed <- err
		changed <- node.ChmodFD(fd, 0o600)
	}()
	err = <-jailed
	got := <-changed
	if err != nil {
		t.Skipf("this user may not change a thread's root: %v", err)
	}
	if !errors.Is(got, unix.EOPNOTSUPP) {
		t.Errorf("chmod of a link without /proc: %v, want EOPNOTSUPP", got)
	}
}

// lookupPaths are of all kinds; each is asked several times in a row, since only then a directory is held.
var lookupPaths = []string{
	"f", "/f", "//f", "d/g", "/d/g", "d//g", "d/./g", "d/../f", "d/up", "rel", "abs", "dirlink/g", "absdir/g", "absdir/sub", "d/sub",
	"/", "", ".", "..", "d/", "d/.", "d/..", "d/../..", "d/../../outside", "../outside/secret", "out", "outdir/secret", "outdir", "backin", "hop", "host",
	"loop", "loop/x", "dangling", "dangling/x", "nothing", "nothing/x", "f/x", "f/", "empty/x", "mounted", "mounted/x",
	ReservedPrefix + "x", "d/" + ReservedPrefix + "x", "toreserved", "d\x00/g", "d/g\x00",
}

// TestLookups compares each answer with that of a single question.
func TestLookups(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		w.put(ReservedPrefix+"x", "hidden")
		w.must(os.Mkdir(w.host("mounted"), 0o755))
		w.mountTmpfs("mounted")
		l := w.Lookups()
		defer l.Close()
		for _, path := range lookupPaths {
			wantStat, wantErr := w.Stat(path)
			wantLstat, wantLerr := w.Lstat(path)
			for range 3 {
				st, err := l.Stat(path)
				w.same(path, st, err, wantStat, wantErr)
				st, err = l.Lstat(path)
				w.same(path, st, err, wantLstat, wantLerr)
			}
		}
	})
}

func (w *world) same(path string, got Stat, gotErr error, want Stat, wantErr error) {
	w.Helper()
	got.AtimeNs, want.AtimeNs = 0, 0 // to follow a link is to read it
	if fserr.CodeOf(gotErr) != fserr.CodeOf(wantErr) || (gotErr == nil && got != want) {
		w.Errorf("%q: got %+v, %v; want %+v, %v", path, got, gotErr, want, wantErr)
	}
}

// mountTmpfs mounts a file system there, if this user may; else there is none.
func (w *world) mountTmpfs(path string) {
	w.Helper()
	if err := unix.Mount("none", w.host(path), "tmpfs", 0, "size=64k"); err != nil {
		w.Logf("nothing is mounted: %v", err)
		return
	}
	w.Cleanup(func() { w.must(unix.Unmount(w.host(path), unix.MNT_DETACH)) })
	w.must(os.WriteFile(w.host(path)+"/x", []byte("x"), 0o644))
}

// TestLookupsHold shows that a directory is kept open, and closed.
func TestLookupsHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("openat2"))
	l := w.Lookups()
	defer l.Close()
	ask := func(path string, want ...fserr.Code) {
		w.Helper()
		_, err := l.Stat(path)
		w.code(err, want...)
	}
	ask("d/g", done)
	ask("d/g", done)
	w.must(w.Rename("d", "moved"))
	if Driver == "overlay-userns" { // there a rename moves the content of a directory of the layer to a new one
		ask("d/g", fserr.ENOENT)
	} else {
		ask("d/g", done)
	}
	ask("f", done)
	ask("d/g", fserr.ENOENT)
	ask("moved/g", done)
	l.Close()
	ask("moved/g", done)
}

// BenchmarkLookups asks for the attributes of a name in a directory, one by one and in a run.
func BenchmarkLookups(b *testing.B) {
	r, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := r.MkdirAll("a/b/c", 0o755); err != nil {
		b.Fatal(err)
	}
	l := r.Lookups()
	defer l.Close()
	b.Run("single", func(b *testing.B) { lookUp(b, r.Stat) })
	b.Run("run", func(b *testing.B) { lookUp(b, l.Stat) })
}

func lookUp(b *testing.B, stat func(string) (Stat, error)) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stat("/a/b/c"); err != nil {
			b.Fatal(err)
		}
	}
}
