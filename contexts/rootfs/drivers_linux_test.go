package rootfs_test

import (
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
)

// TestOnOverlays leaves out what no driver changes: zones, the limits of paths, and how rootfs finds its way without calls of the kernel.
func TestOnOverlays(t *testing.T) {
	overlaytest.Run(t, "^Test(Suite|Umask|SwappedDirectory|Race|LinkMoved.*|LeaseEndsInBusy|Mode000Repaired|DescriptorOutlivesClose|NameEndingInDeleted|"+
		"Atomic.*|Lookups.*|StatAll.*|ListingReports.*|Temporary.*|WithoutTmpfile|WritesDropSetuid|CommitAndAbortAtOnce|Crash.*|Move(Takes|That).*|ImmutableFile|"+
		"ReservedNameBehindLink|Sub)$")
}
