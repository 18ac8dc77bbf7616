package overlay

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// usable skips, and says why, where the driver cannot work: its tests need root.
func usable(t testing.TB, d *Driver) *Driver {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctxfs")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(dir) }()
	if err := d.Check(t.Context(), dir); err != nil {
		t.Skipf("not tested here: %v", err)
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
