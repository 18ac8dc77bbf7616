package review

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
	if err := Run(t.Context(), Options{Dir: t.TempDir(), Out: dir, Sizes: []int{20, 60}, Files: 100, Most: 100, Rounds: 1}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(out.String(), "| copy "); rows != 4 || strings.Contains(out.String(), " 0.00 us |") {
		t.Errorf("%d rows of copy, want 4:\n%s", rows, &out)
	}
	for _, file := range []string{"review.md", "review.svg"} {
		if st, err := os.Stat(filepath.Join(dir, file)); err != nil || st.Size() < 500 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

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
		took := map[string]time.Duration{
			listing: c.list, statWalk: 10 * time.Millisecond, diff: c.diff, gitDiff: time.Second, apply: c.apply, gitApply: time.Second,
		}
		f := Figures{Changed: []Row{
			{Files: manyFiles, Changed: few, Driver: server.DriverCopy, Took: took}, {Files: manyFiles, Changed: few, Driver: server.DriverOverlay, Took: took},
			{Files: manyFiles, Changed: manyChanged, Driver: server.DriverCopy, Took: took},
		}}
		if got := strings.Count(f.required().String(), " no "); got != c.want {
			t.Errorf("%s: %d are not met, want %d:\n%s", name, got, c.want, f.required())
		}
	}
}

func TestRunCommitsMeasuresEveryDriver(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	if err := RunCommits(t.Context(), Options{Dir: t.TempDir(), Out: dir, Files: 100, Most: 100, Rounds: 1}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(out.String(), "| copy "); rows != 2 || strings.Contains(out.String(), " 0.00 us |") {
		t.Errorf("%d rows of copy, want 2:\n%s", rows, &out)
	}
	written, err := os.ReadFile(filepath.Join(dir, "git.md"))
	if err != nil || !strings.HasSuffix(string(written), out.String()) {
		t.Errorf("git.md: %v\n%s", err, written)
	}
}
