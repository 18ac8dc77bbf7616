package rootfs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

func TestMain(m *testing.M) {
	powercut.Main()
	overlaytest.Main()
	rootfs.Place, rootfs.Driver = overlaytest.Dir, overlaytest.Driver()
	goleak.VerifyTestMain(m)
}
