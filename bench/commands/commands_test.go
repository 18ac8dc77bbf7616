package commands

import (
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkTrue-2                  	     100	  20000000 ns/op	      9800 bwrap-µs	         1.250 x-bwrap
BenchmarkTrueInSharedSandbox-2   	     100	   7000000 ns/op	      6700 shared-µs	         1.450 x-fork	         1.100 x-step
BenchmarkFlood-2                 	       5	2000000000 ns/op	        12.00 MiB	         0.6000 x-pipe
BenchmarkHundredIdleSandboxes-2  	       1	1000000000 ns/op	         0.3000 CPU-ms/s	       405.0 goroutines	         1.500 heap-MiB	       300.0 processes	        45.00 processes-MiB
PASS
`

func TestTableSaysWhatIsMet(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		notMet   int
	}{
		"all met":        {"", "", 0},
		"slow start":     {"1.250 x-bwrap", "1.310 x-bwrap", 1},
		"slow to share":  {"1.450 x-fork", "1.510 x-fork", 1},
		"slow output":    {"0.6000 x-pipe", "0.4900 x-pipe", 1},
		"too much space": {"12.00 MiB", "32.00 MiB", 1},
	} {
		text, err := text(strings.Replace(output, c.from, c.to, 1))
		if got := strings.Count(text, "**no**"); got != c.notMet || err != nil {
			t.Errorf("%s: %d are not met, want %d: %v\n%s", name, got, c.notMet, err, text)
		}
		for _, want := range []string{" 300 ", "45.0 MiB", "0.30 ms a second", "9.80 ms", "6.70 ms"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the text lacks %q:\n%s", name, want, text)
			}
		}
	}
}

func TestMissingBenchmarkIsAnError(t *testing.T) {
	skipped := strings.Replace(output, "BenchmarkFlood-2 ", "--- SKIP: BenchmarkFlood ", 1)
	if _, err := text(skipped); err == nil || !strings.Contains(err.Error(), "BenchmarkFlood") {
		t.Errorf("a run without BenchmarkFlood: %v", err)
	}
}
