package review

import (
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/server"
)

func TestRequired(t *testing.T) {
	for name, c := range map[string]struct {
		list, diff, apply time.Duration
		want              int
	}{
		"met":        {9 * time.Millisecond, time.Second, 2 * time.Second, 0},
		"slow list":  {16 * time.Millisecond, time.Second, 2 * time.Second, 2},
		"slow diff":  {9 * time.Millisecond, 1100 * time.Millisecond, 2 * time.Second, 1},
		"slow apply": {9 * time.Millisecond, time.Second, 2100 * time.Millisecond, 1},
	} {
		took := map[string]time.Duration{listing: c.list, statWalk: 10 * time.Millisecond, diff: c.diff, gitDiff: time.Second, apply: c.apply, gitApply: time.Second}
		f := figures{changed: []row{
			{files: manyFiles, changed: few, driver: server.DriverCopy, took: took}, {files: manyFiles, changed: few, driver: server.DriverOverlay, took: took},
			{files: manyFiles, changed: manyChanged, driver: server.DriverCopy, took: took},
		}}
		if got := strings.Count(f.required().String(), "**no**"); got != c.want {
			t.Errorf("%s: %d are not met, want %d:\n%s", name, got, c.want, f.required())
		}
	}
}
