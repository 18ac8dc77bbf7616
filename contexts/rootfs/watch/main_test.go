package watch_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
)

func TestMain(m *testing.M) {
	overlaytest.Main()
	goleak.VerifyTestMain(m)
}
