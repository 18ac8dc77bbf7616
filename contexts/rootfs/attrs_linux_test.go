package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestImmutableFile may not be written, whoever asks.
func TestImmutableFile(t *testing.T) {
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

// TestWithoutProc changes what stands there on a thread that has no /proc.
func TestWithoutProc(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(filepath.Join(dir, "link"), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(fd)
	jailed, changed := make(chan error, 1), make(chan error, 1)
	go func() {
		// The thread is not unlocked: it ends with the goroutine, and its root with it.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chroot(dir)
		}
		jailed <- err
		changed <- chmodFD(fd, 0o600)
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
