package rootfs

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// onLinux runs a case against both Linux implementations.
func onLinux(t *testing.T, run func(w *world)) {
	t.Helper()
	for _, name := range implementations() {
		if name == "osroot" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			run(newWorld(t, with(name)))
		})
	}
}

// TestLinkMovedUntilItEscapes moves a harmless relative link to where it leads outside.
func TestLinkMovedUntilItEscapes(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		w.must(w.Symlink("../../outside/made", "d/sub/to"))
		_, err := w.OpenFile("d/sub/to", O_WRONLY|O_CREAT, 0o600)
		w.code(err, fserr.ENOENT) // within the tree, where there is no directory "outside"
		w.must(w.Rename("d/sub/to", "d/to"))
		for _, flags := range []Flags{O_WRONLY | O_CREAT, O_WRONLY | O_CREAT | O_TRUNC, O_RDONLY} {
			_, err = w.OpenFile("d/to", flags, 0o600)
			w.code(err, fserr.EACCES)
		}
		_, err = w.CreateAtomic("d/to", 0o600, false)
		w.code(err, fserr.EACCES)
	})
}

// TestLeaseEndsInBusy holds a write lease, so that opens by others wait or fail.
func TestLeaseEndsInBusy(t *testing.T) {
	t.Parallel()
	broken := make(chan os.Signal, 64)
	signal.Notify(broken, syscall.SIGIO)
	defer signal.Stop(broken)
	onLinux(t, func(w *world) {
		fd, err := unix.Open(w.host("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
		w.must(err)
		defer node.CloseFD(fd)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
		w.must(err)
		for _, flags := range []Flags{O_RDONLY, O_RDWR | O_CREAT} {
			_, err = w.OpenFile("f", flags, 0o644)
			w.code(err, fserr.EBUSY)
		}
		_, err = w.Stat("f") // takes no part in leases
		w.must(err)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		w.must(err)
		w.must(w.open("f", O_RDONLY, 0).Close())
	})
}

// TestMode000Repaired runs without privileges, in a child if need be.
func TestMode000Repaired(t *testing.T) {
	t.Parallel()
	const child = "ROOTFS_TEST_UNPRIVILEGED"
	if os.Geteuid() != 0 || os.Getenv(child) != "" {
		if namespacestest.Inside() && !namespacestest.Bound() {
			t.Skip("not tested here: a test with cgo keeps the capabilities that override modes")
		}
		onLinux(t, func(w *world) {
			w.must(os.Chmod(w.host("f"), 0))
			_, err := w.OpenFile("f", O_RDONLY, 0)
			w.code(err, fserr.EACCES)
			w.must(w.Utimes("f", 1, 2, true))
			w.must(w.Chmod("f", 0o6640))
			st, err := w.Stat("f")
			w.must(err)
			w.equal(st.Perm(), uint32(0o640))
			w.code(w.Chown("f", 0, -1, true), fserr.EPERM)
		})
		return
	}
	tmp, err := os.MkdirTemp("", "rootfs-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	binary := filepath.Join(tmp, "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err := errors.Join(err, os.WriteFile(binary, self, 0o755), os.Chmod(tmp, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run=^TestMode000Repaired$", "-test.v")
	cmd.Dir, cmd.Env = tmp, []string{child + "=1", "TMPDIR=" + tmp}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("without privileges: %v\n%s", err, out)
	}
}

// TestRace exchanges a directory and a link to the outside while every kind of call passes through the name.
func TestRace(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		w.must(os.Mkdir(w.host("x"), 0o755))
		w.put("x/secret", "inside")
		w.must(os.Symlink("../outside", w.host("y")))
		stop := make(chan struct{})
		var swapping, all sync.WaitGroup
		swapping.Go(func() { swap(stop, w.host("x"), w.host("y")) })
		for _, attack := range attacks {
			all.Go(func() {
				for range 1000 {
					attack(w)
				}
			})
		}
		all.Wait()
		close(stop)
		swapping.Wait()
		got, err := os.ReadFile(filepath.Join(w.outside, "secret"))
		w.must(err)
		w.equal(string(got), "secret")
	})
}

func swap(stop <-chan struct{}, a, b string) {
	for {
		select {
		case <-stop:
			return
		default:
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}
	}
}

// attacks are what must never reach outside/secret ("secret", mode 0600); their errors are of no interest.
var attacks = []func(w *world){
	func(w *world) {
		f, err := w.OpenFile("x/secret", O_RDONLY, 0)
		if err != nil {
			return
		}
		defer func() { _ = f.Close() }()
		buf := make([]byte, 16)
		if n, _ := f.ReadAt(buf, 0); string(buf[:n]) == "secret" {
			w.Error("read the outside")
		}
	},
	func(w *world) {
		if f, err := w.OpenFile("x/secret", O_WRONLY|O_CREAT, 0o644); err == nil {
			_, _ = f.Write([]byte("inside"))
			_ = f.Close()
		}
	},
	func(w *world) {
		if st, err := w.Stat("x/../x/secret"); err == nil && st.Perm() == 0o600 {
			w.Error("saw the outside's attributes")
		}
	},
	func(w *world) { _ = w.Chmod("x/secret", 0o644) },
	func(w *world) { _ = w.Mkdir("x/made", 0o755); _ = w.Rmdir("x/made") },
	func(w *world) { _ = w.Rename("f", "x/f"); _ = w.Rename("x/f", "f") },
	func(w *world) { _ = replacing("x/secret", false)(w.Root) },
}

// TestDescriptorOutlivesClose closes a root while it is used.
func TestDescriptorOutlivesClose(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		f := w.open("f", O_RDONLY, 0).(*linuxFile)
		w.must(f.fd.use(func(fd int) error {
			w.must(f.Close())
			_, err := node.StatFD(fd)
			return err
		}))
		_, err := f.Stat()
		w.code(err, fserr.EBADF)
		w.code(f.Close(), fserr.EBADF)
	})
}

// TestNameEndingInDeleted distinguishes a file's name from /proc's mark.
func TestNameEndingInDeleted(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		w.put("a (deleted)", "")
		got, err := w.Realpath("a (deleted)")
		w.must(err)
		w.equal(got, "/a (deleted)")
	})
}

// TestAtomicDirectorySwappedIn puts a directory where the file stood.
func TestAtomicDirectorySwappedIn(t *testing.T) {
	t.Parallel()
	onLinux(t, func(w *world) {
		a, err := w.CreateAtomic("f", 0o644, false)
		w.must(err)
		w.must(os.Remove(w.host("f")))
		w.must(os.Mkdir(w.host("f"), 0o755))
		w.code(a.Commit(false), fserr.EISDIR)
		w.equal(w.lstat("f").IsDir(), true)
		list, err := os.ReadDir(w.dir)
		w.must(err)
		for _, e := range list {
			w.equal(Reserved(e.Name()), false)
		}
	})
}

// TestMountsOfTheSameFileSystem mounts a directory and a file of outside within the tree: their device is the tree's own.
func TestMountsOfTheSameFileSystem(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, with(name))
			w.must(unix.Mount(w.outside, w.host("empty"), "", unix.MS_BIND, ""))
			defer func() { w.must(unix.Unmount(w.host("empty"), unix.MNT_DETACH)) }()
			w.must(unix.Mount(w.outside+"/secret", w.host("f"), "", unix.MS_BIND, ""))
			defer func() { w.must(unix.Unmount(w.host("f"), unix.MNT_DETACH)) }()
			for _, path := range []string{"empty/secret", "f", "rel"} {
				w.code(reading(path)(w.Root), fserr.EXDEV)
				w.code(w.Chmod(path, 0o777), fserr.EXDEV)
				w.code(w.Utimes(path, 1, 1, true), fserr.EXDEV)
			}
			w.code(w.Mkdir("empty/new", 0o755), fserr.EXDEV)
			w.code(w.Rename("d/g", "empty/g"), fserr.EXDEV)
			w.code(w.Unlink("empty/secret"), fserr.EXDEV)
			w.code(listing("empty")(w.Root), fserr.EXDEV)
			if _, err := w.RemoveAll(t.Context(), "empty"); err == nil {
				t.Error("a mount point was removed")
			}
		})
	}
}
