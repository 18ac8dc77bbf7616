package namespacestest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Mounting is for tests that mount outside of namespaces: as long as one of them runs, no test of any package makes a mount
// namespace, which would hold a copy of what was mounted, and keep the kernel from mounting it again.
func Mounting(t testing.TB) { lock(t, unix.LOCK_SH) }

// alone is for tests that make mount namespaces.
func alone(t testing.TB) { lock(t, unix.LOCK_EX) }

func lock(t testing.TB, how int) {
	t.Helper()
	if Inside() || os.Geteuid() != 0 {
		return
	}
	f, err := os.OpenFile(filepath.Join("/tmp", "ctxfs-test-mounts.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // which unlocks it
	err = unix.Flock(int(f.Fd()), how)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		t.Fatal(err)
	}
}
