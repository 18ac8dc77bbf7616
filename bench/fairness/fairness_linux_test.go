package fairness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/stand"
	"github.com/ctxfs/ctxfs/client"
)

// TestMain is also the hostile command.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "hostile" {
		fmt.Fprintln(os.Stderr, Hostile(os.Args[2]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// TestPanelIsServedBesideAttacks builds ctxfs, and starts it for each of three attacks, and once to be killed.
func TestPanelIsServedBesideAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("run without -short: it takes most of a minute")
	}
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	group, err := makeGroup()
	if err != nil {
		t.Skip("no control group with a limit of memory can be made: ", err)
	}
	if err := os.Remove(group); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	attacks = append(attacks, attack{"the end of the server", func(_ context.Context, f *field, _ *client.Panel) error {
		return syscall.Kill(f.PID(), syscall.SIGKILL)
	}})
	page, err := Run(t.Context(), &stand.Options{
		Dir: os.TempDir(), Source: source, Self: self, Time: time.Second, Quick: true, Log: os.Stderr,
		Only: regexp.MustCompile("^nothing$|as JSON|handles|terminals|end of the server"),
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(page.Text) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| attack") {
			continue
		}
		rows++
		if strings.HasPrefix(line, "| the end of the server") {
			if !strings.Contains(line, "**the server ended: ") || !strings.Contains(line, "killed") {
				t.Errorf("the row does not say that the server ended: %s", line)
			}
			continue
		}
		if cells := strings.Split(line, "|"); strings.TrimSpace(cells[6]) != "0" || strings.TrimSpace(cells[14]) != "" {
			t.Errorf("the panel was not served: %s", line)
		}
	}
	if rows != 5 {
		t.Errorf("the table has %d rows:\n%s", rows, page.Text)
	}
}
