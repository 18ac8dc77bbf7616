package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/internal/pgtest"
)

// TestMain is also the processes of the servers.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "peer" {
		if err := peers.Serve(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEachBenchmarkWritesAPageOfAllFigures(t *testing.T) {
	_, noPostgres := pgtest.Programs()
	nginx := "| nginx "
	if _, err := exec.LookPath("nginx"); err != nil {
		nginx = "nginx (Debian: nginx-light)"
	}
	for _, c := range []struct {
		name  string
		skip  error
		chart bool
		want  []string
	}{
		{"first-access", nil, true, []string{"| cp -a ", "| otiai10/copy ", "| stat walk ", "| copy, nothing there ", "| copy, layer built ", "| copy, copy ready ", "| 10 files alone | as a scope of 200 |"}},
		{"review", nil, true, []string{"| copy    |    20 |      10 |", "| copy    |    60 |      10 |", "| copy    |   100 |      10 |", "| copy    |   100 |     100 |"}},
		{"gateway", nil, false, []string{"file of 4 KiB", "file of 256 MiB", "listing of 10,000 files", "| ctxfs ", "| net-http ", nginx, "goroutines for each", "the last of 10", "\n## Edit to reload\n\nby hand\n"}},
		{"records", noPostgres, false, []string{"| open a new panel ", "| open a panel again ", "| first access by a host ", "| stat ", "| SQLite ", "| PostgreSQL "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.skip != nil {
				t.Skip(c.skip)
			}
			t.Parallel()
			out, scratch := t.TempDir(), t.TempDir()
			page := filepath.Join(out, c.name+".md")
			if err := os.WriteFile(page, []byte("earlier\n## Edit to reload\n\nby hand\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := command(t.Context(), []string{c.name, "--quick", "--out", out, "--dir", scratch}, &text, io.Discard); err != nil {
				t.Fatal(err)
			}
			written, err := os.ReadFile(page)
			if err != nil || !bytes.Contains(written, text.Bytes()) {
				t.Errorf("the page is not what was printed: %v\n%s", err, written)
			}
			for _, want := range append(c.want, "the figures mean nothing") {
				if !bytes.Contains(written, []byte(want)) {
					t.Errorf("the page lacks %q:\n%s", want, written)
				}
			}
			for line := range strings.Lines(string(written)) { // overlay does not work everywhere
				if strings.HasPrefix(line, "earlier") || strings.Contains(line, " 0.00 us |") || strings.Contains(line, "NaN") || (strings.Contains(line, " - |") && !strings.HasPrefix(line, "| overlay")) {
					t.Errorf("the page has the line %q", line)
				}
			}
			if _, err := os.Stat(filepath.Join(out, c.name+".svg")); errors.Is(err, os.ErrNotExist) == c.chart {
				t.Errorf("the chart: %v", err)
			}
			if left, err := os.ReadDir(scratch); len(left) > 0 || err != nil {
				t.Errorf("%d files are left, %v", len(left), err)
			}
		})
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"none"}, {"--rounds", "0"}, {"--time", "0"}, {"review", "--sizes", "10,x"}, {"--only", "("}} {
		if err := command(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q were taken", args)
		}
	}
}
