package services

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestProgressIsThrottled reports 1,000 files in a second: each phase's first and
// last arrive, and about ten between.
func TestProgressIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []contexts.Progress
		th := &throttle{send: func(p contexts.Progress) error {
			got = append(got, p)
			return nil
		}}
		for _, phase := range []contexts.Phase{contexts.PhaseScanning, contexts.PhaseCopying} {
			for i := range int64(500) {
				th.progress(contexts.Progress{Phase: phase, FilesDone: i + 1})
				time.Sleep(time.Millisecond)
			}
		}
		if err := th.last(); err != nil {
			t.Fatal(err)
		}
		th.progress(contexts.Progress{FilesDone: 501})
		var scanning, copying []int64
		for _, p := range got {
			if p.Phase == contexts.PhaseScanning {
				scanning = append(scanning, p.FilesDone)
			} else {
				copying = append(copying, p.FilesDone)
			}
		}
		want := []int64{1, 101, 201, 301, 401, 500}
		if d := cmp.Diff([][]int64{want, want}, [][]int64{scanning, copying}); d != "" {
			t.Error(d)
		}
	})
}
