package rootfs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

func TestMain(m *testing.M) {
	overlaytest.Main()
	rootfs.Place, rootfs.Driver = overlaytest.Dir, overlaytest.Driver()
	goleak.VerifyTestMain(m)
}
