package overlay

import (
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/drivertest"
)

func TestDriverOnFileSystems(t *testing.T) {
	drivertest.On(t, []string{"ext4", "xfs", "btrfs"}, func(t *testing.T) {
		drivertest.Run(t, func(t *testing.T) driver.Driver { return usable(t, New(Options{})) })
	})
}
