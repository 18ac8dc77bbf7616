package contexts

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestQuotaOfWhatIsClosed has a panel close its directories, which keeps a server out that is not root.
func TestQuotaOfWhatIsClosed(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]os.FileMode{"closed": 0, "listed": 0o400} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			w.fill("app", 60)
			w.repo("app")
			later := time.Duration(0)
			m := w.open(func(c *Config) {
				c.Quota = Quota{Bytes: 2 << 20, Entries: 1 << 20}
				c.Now = func() time.Time { return time.Now().Add(later) }
			})
			ensure(t, m, "ctx_a")
			a, err := m.Acquire(t.Context(), "ctx_a", Write)
			must(t, err)
			defer a.Release()
			must(t, os.Chmod(filepath.Dir(w.dir), 0o755))
			asUser(t, w.folder("ctx_a"))
			hidden := filepath.Join(w.folder("ctx_a"), "hidden")
			must(t, os.Mkdir(hidden, 0o700))
			must(t, a.Charge(1<<20, 1))
			must(t, os.WriteFile(filepath.Join(hidden, "big"), make([]byte, 1<<20), 0o600))
			must(t, os.Chmod(hidden, mode))
			defer func() { must(t, os.Chmod(hidden, 0o700)) }()
			later = time.Minute // it may be measured again
			wantCode(t, a.Charge(1<<20, 1), fserr.EDQUOT, "MiB")
		})
	}
}

// asUser makes the test's thread look at files as an ordinary user does, to whom dir is given.
func asUser(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	const nobody = 65534
	must(t, os.Chown(dir, nobody, nobody))
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, nobody, 0, 0) // it returns only the previous user
	t.Cleanup(func() {
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
		runtime.UnlockOSThread()
	})
}

func TestQuotaOfAContext(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 60)
	w.repo("app")
	m := w.open(func(c *Config) { c.Quota = Quota{Bytes: 1 << 20, Entries: 1000} })
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_b")
	a, err := m.Acquire(t.Context(), "ctx_a", Write)
	must(t, err)
	defer a.Release()
	wantCode(t, a.Charge(1<<20, 0), fserr.EDQUOT, "--context-max-bytes") // 60 files are there
	must(t, a.Charge(1<<18, 1))
	wantCode(t, a.Charge(0, 1000), fserr.EDQUOT, "files and directories")
	b, err := m.Acquire(t.Context(), "ctx_b", Write)
	must(t, err)
	defer b.Release()
	must(t, b.Charge(1<<18, 0)) // another context's account is its own
}

// TestQuotaCountsFilesWithoutName keeps files open that have no name. They take as much as others do.
func TestQuotaCountsFilesWithoutName(t *testing.T) {
	t.Parallel()
	const size = 600 << 10
	content := make([]byte, size)
	for name, make := range map[string]func(t *testing.T, root rootfs.Root){
		"an unlinked file": func(t *testing.T, root rootfs.Root) {
			f, err := root.OpenFile("/f", rootfs.O_CREAT|rootfs.O_RDWR, 0o644)
			must(t, err)
			t.Cleanup(func() { must(t, f.Close()) })
			must(t, root.Unlink("/f"))
			_, err = f.Write(content)
			must(t, err)
		},
		"one in a removed directory": func(t *testing.T, root rootfs.Root) {
			must(t, root.Mkdir("/d", 0o755))
			f, err := root.OpenFile("/d/f", rootfs.O_CREAT|rootfs.O_WRONLY, 0o644)
			must(t, err)
			t.Cleanup(func() { must(t, f.Close()) })
			_, err = f.Write(content)
			must(t, err)
			must(t, root.Unlink("/d/f"))
			must(t, root.Rmdir("/d"))
		},
		"an upload that has not ended": func(t *testing.T, root rootfs.Root) {
			f, err := root.CreateAtomic("/f", 0o644, false)
			must(t, err)
			t.Cleanup(func() { must(t, f.Close()) })
			_, err = f.Write(content)
			must(t, err)
		},
		"one that has a name, too": func(t *testing.T, root rootfs.Root) { // it counts once
			f, err := root.OpenFile("/f", rootfs.O_CREAT|rootfs.O_WRONLY, 0o644)
			must(t, err)
			t.Cleanup(func() { must(t, f.Close()) })
			_, err = f.Write(content)
			must(t, err)
		},
		"a file of a reserved name": func(t *testing.T, root rootfs.Root) { // as a program makes it
			dir, err := rootfs.Descriptor(root)
			must(t, err)
			defer dir.Close()
			must(t, os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/%sx", dir.Fd(), rootfs.ReservedPrefix), content, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
				later := time.Duration(0)
				must(t, m.Close())
				m = w.open(func(c *Config) {
					c.Quota = Quota{Bytes: 2 << 20}
					c.Now = func() time.Time { return time.Now().Add(later) }
				})
				a, err := m.Acquire(t.Context(), "ctx_a", Write)
				must(t, err)
				defer a.Release()
				must(t, a.Charge(1<<20, 1))
				make(t, a.Root)
				later = time.Hour // it is measured now
				use := a.Usage(t.Context())
				if use.Bytes < size || use.Bytes > 2*size {
					t.Errorf("the context takes %d bytes", use.Bytes)
				}
				later += time.Hour
				wantCode(t, a.Charge(2<<20-size, 1), fserr.EDQUOT, "MiB")
			})
		})
	}
}
