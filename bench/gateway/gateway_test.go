package gateway

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/scale"
)

// TestMain is also the processes of the servers.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "peer" {
		serve := func() error { return peers.Serve(os.Args[2], os.Args[3], os.Args[4]) }
		if os.Args[2] == "scale" {
			serve = func() error { return scale.Serve(os.Args[4]) }
		}
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEveryServerIsMeasured(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := os.MkdirTemp("", "gt") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(scratch) })
	out := t.TempDir()
	const kept = "\nby hand\n"
	if err := os.WriteFile(filepath.Join(out, "gateway.md"), []byte("earlier"+byHand+kept), 0o644); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	o := Options{Self: self, Dir: scratch, Out: out, Rounds: 1, Time: time.Millisecond, Sizes: Quick()}
	if err := Run(t.Context(), o, &text, io.Discard); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(out, "gateway.md"))
	if err != nil {
		t.Fatal(err)
	}
	nginx := "| nginx "
	if _, err := exec.LookPath("nginx"); err != nil {
		nginx = "nginx (Debian: nginx-light)"
	}
	for _, want := range []string{"the figures mean nothing", smallCell, largeCell, listCell, "| ctxfs ", "| http.FileServer ", nginx, "goroutines for each", "the last of 10"} {
		if !strings.Contains(text.String(), want) || !bytes.Contains(written, []byte(want)) {
			t.Errorf("%q is not reported:\n%s", want, &text)
		}
	}
	if !bytes.HasSuffix(written, []byte(byHand+kept)) || bytes.Contains(written, []byte("earlier")) {
		t.Errorf("gateway.md does not keep what was written by hand:\n%s", written)
	}
}
