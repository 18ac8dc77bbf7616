package fairness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain is also the greedy panel's process.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "peer" {
		if err := Serve(context.Background(), os.Args[3], os.Args[4], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEveryLoadIsMeasured(t *testing.T) {
	if _, err := exec.LookPath("chrt"); err != nil {
		t.Skip("the greedy client's priority is set by chrt (util-linux), which is not here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := os.MkdirTemp("", "ft") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(scratch) })
	var text bytes.Buffer
	out := t.TempDir()
	o := Options{Self: self, Source: "..", Dir: scratch, Out: out, Rounds: 1, Time: 50 * time.Millisecond}
	if err := Run(t.Context(), o, &text, io.Discard); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(out, "fairness.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loads {
		if !strings.Contains(text.String(), l.name) || !bytes.Contains(written, []byte(l.name)) {
			t.Errorf("%s is not reported", l.name)
		}
	}
}

func TestVerdict(t *testing.T) {
	panel, other := loads[1], load{other: true, jobs: loads[1].jobs}
	for name, c := range map[string]struct {
		load        load
		tail, share float64
		want        string
	}{
		"met":             {panel, 5, 0.34, "ok"},
		"slow":            {panel, 5.1, 0.9, "**short**"},
		"few":             {panel, 1, 0.33, "**short**"},
		"nothing":         {loads[0], 1, 1, ""},
		"another program": {other, 20, 0.1, ""},
	} {
		if got := verdict(c.load, c.tail, c.share); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
