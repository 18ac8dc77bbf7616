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
	for name, opts := range map[string]copyfs.Options{
		"one worker": {Workers: 1}, "several workers": {Workers: 4}, "by name": {ByName: true},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(*testing.T) driver.Driver { return copyfs.New(opts) })
		})
	}
}

func BenchmarkFirstAccess(b *testing.B) {
	for name, opts := range map[string]copyfs.Options{"by descriptor": {}, "by name": {ByName: true}} {
		b.Run(name, func(b *testing.B) { drivertest.Bench(b, copyfs.New(opts)) })
	}
}
