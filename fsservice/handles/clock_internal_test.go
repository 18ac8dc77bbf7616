package handles

import (
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

type noFile struct{ rootfs.File }

func (noFile) Close() error { return nil }

// TestSettingTheClockMakesNoHandleIdle sets the wall clock by a day, as after a boot without one that runs.
func TestSettingTheClockMakesNoHandleIdle(t *testing.T) {
	table := New(Config{})
	defer func() { _ = table.Close() }()
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		if _, err := table.Open("p", func() (Spec, error) { return Spec{File: noFile{}}, nil }); err != nil {
			t.Fatal(err)
		}
		now := clocktest.Stepped(time.Now(), by)
		if table.closeIdle(now); table.Count() != 1 {
			t.Errorf("set by %v, a handle that was just opened is closed", by)
		}
		if table.closeIdle(now.Add(time.Hour)); table.Count() != 0 {
			t.Errorf("set by %v, a handle is not closed after an hour", by)
		}
	}
}
