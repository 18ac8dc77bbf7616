package clocktest_test

import (
	"runtime"
	"testing"

	"github.com/ctxfs/ctxfs/internal/clocktest"
)

func TestProcessorTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, n := clocktest.ProcessorTime(), 0
	for clocktest.ProcessorTime() == before {
		n++
	}
	if before <= 0 || n > 1e6 {
		t.Errorf("%v is what the thread took before %d loops", before, n)
	}
}
