package clocktest_test

import (
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/clocktest"
)

func TestStepped(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour} {
		then := clocktest.Stepped(now, by)
		if then.UnixNano()-now.UnixNano() != int64(by) || then.Sub(now) != 0 {
			t.Errorf("set by %v, the wall clock goes by %v and the other by %v", by, then.UnixNano()-now.UnixNano(), then.Sub(now))
		}
	}
}
