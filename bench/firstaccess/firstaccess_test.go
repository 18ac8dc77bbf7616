package firstaccess

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunMeasuresEveryDriver(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	if err := Run(t.Context(), Options{Dir: t.TempDir(), Out: dir, Sizes: []int{20, 60}, Rounds: 1, ScopeFiles: 10, ScopeAll: 200}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{plainCopy, goCopy, server.DriverCopy + cold, server.DriverCopy + layered, server.DriverCopy + pooled} {
		if strings.Contains(out.String(), name+" | -") || !strings.Contains(out.String(), name) {
			t.Errorf("%s was not measured:\n%s", name, &out)
		}
	}
	if !strings.Contains(out.String(), "| 10 files alone | as a scope of 200 |") {
		t.Errorf("the scope was not measured:\n%s", &out)
	}
	for _, file := range []string{"first-access.md", "first-access.svg"} {
		if st, err := os.Stat(filepath.Join(dir, file)); err != nil || st.Size() < 500 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestRequiredOfAScope(t *testing.T) {
	s := Scope{Files: 500, All: 100_000, Alone: map[string]time.Duration{plainCopy: time.Second}, Within: map[string]time.Duration{plainCopy: 1250 * time.Millisecond}}
	if text := s.Text(); !strings.Contains(text, "1.25x | at most 1.25x | yes") {
		t.Errorf("the bound is not met:\n%s", text)
	}
	s.Within[plainCopy] += time.Millisecond * 10
	if text := s.Text(); !strings.Contains(text, "1.26x | at most 1.25x | no") {
		t.Errorf("more than the bound is met:\n%s", text)
	}
}

func TestRequired(t *testing.T) {
	for name, c := range map[string]struct {
		cold, pool time.Duration
		want       int
	}{
		"met":       {1250 * time.Millisecond, 99 * time.Millisecond, 0},
		"slow":      {1300 * time.Millisecond, 99 * time.Millisecond, 1},
		"slow pool": {1250 * time.Millisecond, 100 * time.Millisecond, 1},
	} {
		f := Figures{Rows: []Row{{Files: 10_000, Took: map[string]time.Duration{
			plainCopy: time.Second, server.DriverCopy + cold: c.cold, server.DriverCopy + pooled: c.pool,
		}}}}
		if got := strings.Count(f.required().String(), " no "); got != c.want {
			t.Errorf("%s: %d are not met, want %d:\n%s", name, got, c.want, f.required())
		}
	}
}
