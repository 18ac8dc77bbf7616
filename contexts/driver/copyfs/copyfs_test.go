package copyfs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDriver(t *testing.T) {
	for _, c := range []struct {
		name    string
		workers int
	}{{"one worker", 1}, {"several workers", 4}} {
		t.Run(c.name, func(t *testing.T) {
			drivertest.Run(t, func(*testing.T) driver.Driver { return copyfs.New(copyfs.Options{Workers: c.workers}) })
		})
	}
}

func BenchmarkFirstAccess(b *testing.B) { drivertest.Bench(b, copyfs.New(copyfs.Options{})) }
