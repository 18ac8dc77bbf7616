package watch_test

import (
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
)

func TestOnOverlays(t *testing.T) { overlaytest.Run(t, "^TestWatch") }
