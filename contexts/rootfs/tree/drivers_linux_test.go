package tree_test

import (
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
)

// TestOnOverlays leaves out the bounds of memory and of paths, which no driver changes.
func TestOnOverlays(t *testing.T) {
	overlaytest.Run(t, "^Test(Copy(Keeps|Reports|Dest|Into|Of|Leaves|Is|Xattrs|While|Brings).*|Draft.*|RemoveAll|RemoveAll(Stops|Under|Unlocks|While).*|Sweep|Walk|Walk(Stops|Skips).*)$")
}
