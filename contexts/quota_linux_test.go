package contexts

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
