package overlay

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/drivertest"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

func TestMain(m *testing.M) {
	namespacestest.Main()
	if dir := os.Getenv(killedEnv); dir != "" {
		os.Exit(checkUntilKilled(dir))
	}
	goleak.VerifyTestMain(m)
}

// usable skips, and says why, where the driver cannot work for want of rights or of a file system: its
// tests need root. What else Check finds is a failure.
func usable(t testing.TB, d *Driver) *Driver {
	t.Helper()
	namespacestest.Mounting(t)
	if why := d.mode.refusal(readFacts()); why != "" {
		t.Skipf("not tested here: %s", why)
	}
	dir, err := os.MkdirTemp("", "ctxfs")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(dir) }()
	err = d.Check(t.Context(), dir)
	if err != nil && fileSystem(dir) == unix.OVERLAYFS_SUPER_MAGIC {
		t.Skipf("not tested here: %v; set TMPDIR to a directory on a disk", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDriver(t *testing.T) {
	for _, c := range []struct {
		name string
		opts Options
	}{{"by descriptor", Options{}}, {"by name, as before Linux 6.13", Options{byName: true}}} {
		t.Run(c.name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) driver.Driver { return usable(t, New(c.opts)) })
		})
	}
}

func BenchmarkFirstAccess(b *testing.B) { drivertest.Bench(b, usable(b, New(Options{}))) }

func BenchmarkFirstAccessAgainstCopy(b *testing.B) {
	drivertest.Compare(b, usable(b, New(Options{})), copyfs.New(copyfs.Options{}))
}
