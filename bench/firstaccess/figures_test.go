package firstaccess

import (
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/server"
)

func TestRequired(t *testing.T) {
	for name, c := range map[string]struct {
		cold, pool, overlay time.Duration
		want                int
	}{
		"met":          {1250 * time.Millisecond, 99 * time.Millisecond, 35 * time.Millisecond, 0},
		"slow":         {1300 * time.Millisecond, 99 * time.Millisecond, 35 * time.Millisecond, 1},
		"slow pool":    {1250 * time.Millisecond, 100 * time.Millisecond, 35 * time.Millisecond, 1},
		"slow overlay": {1250 * time.Millisecond, 99 * time.Millisecond, 36 * time.Millisecond, 1},
	} {
		f := figures{rows: []row{{files: 10_000, took: map[string]time.Duration{
			plainCopy: time.Second, statWalk: 10 * time.Millisecond, server.DriverCopy + cold: c.cold, server.DriverCopy + pooled: c.pool, server.DriverOverlay + layered: c.overlay,
		}}}}
		if got := strings.Count(f.required().String(), "**no**"); got != c.want {
			t.Errorf("%s: %d are not met, want %d:\n%s", name, got, c.want, f.required())
		}
	}
}

func TestRequiredOfAScope(t *testing.T) {
	for within, want := range map[time.Duration]string{1250 * time.Millisecond: "1.25x | at most 1.25x | yes", 1260 * time.Millisecond: "1.26x | at most 1.25x | **no**"} {
		text := scopeText(500, 100_000, 1, map[string]time.Duration{plainCopy: time.Second}, map[string]time.Duration{plainCopy: within})
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}
