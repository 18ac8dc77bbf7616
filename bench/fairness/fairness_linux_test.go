package fairness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/stand"
)

// TestMain is also the hostile command.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "hostile" {
		fmt.Fprintln(os.Stderr, Hostile(os.Args[2]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// TestPanelIsServedBesideAttacks builds ctxfs, and starts it for each of three attacks.
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
	page, err := Run(t.Context(), &stand.Options{
		Dir: os.TempDir(), Source: source, Self: self, Time: time.Second, Quick: true, Log: os.Stderr,
		Only: regexp.MustCompile("^nothing$|as JSON|handles|terminals"),
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
		if cells := strings.Split(line, "|"); strings.TrimSpace(cells[6]) != "0" || strings.TrimSpace(cells[14]) != "" {
			t.Errorf("the panel was not served: %s", line)
		}
	}
	if rows != 4 {
		t.Errorf("the table has %d rows:\n%s", rows, page.Text)
	}
}
