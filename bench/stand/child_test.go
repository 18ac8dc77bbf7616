package stand_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/stand"
)

// TestMain is also the child: it says that it is ready, echoes lines, and ends with its input or, told to, at once.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "child" {
		goleak.VerifyTestMain(m)
		return
	}
	if os.Args[2] == "fail" {
		fmt.Fprintln(os.Stderr, "no such thing")
		os.Exit(3)
	}
	fmt.Println("noise\nready here")
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		fmt.Println("said " + s.Text())
	}
}

func start(t *testing.T, what string) *stand.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := stand.Start(t.TempDir(), self, "child", what)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAProcessTellsWhereItIsAndEnds(t *testing.T) {
	p := start(t, "serve")
	if line, err := p.Line(t.Context(), "ready "); line != "here" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if line, err := p.Ask(t.Context(), "hello", "said "); line != "hello" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if used, err := stand.CPU([]int{p.PID()}); used <= 0 || err != nil {
		t.Errorf("processor time %s, %v", used, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if err := p.Stop(); err != nil {
		t.Error("a second stop:", err)
	}
}

func TestAProcessThatFailsSaysWhy(t *testing.T) {
	p := start(t, "fail")
	_, err := p.Line(t.Context(), "ready ")
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("%v", err)
	}
	_ = p.Stop() // it may have been told to end, or have ended already
}
