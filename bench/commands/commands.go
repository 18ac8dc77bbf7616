// Package commands runs the benchmarks of package exec, and writes down what they report: commands in a sandbox beside bwrap alone, in a
// shared one beside fork and exec, their output beside a pipe, and what idle sandboxes cost.
package commands

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
)

// Options of Run.
type Options struct {
	// Source is the directory of bench's source. Out is the directory for the report; "" writes none.
	Source, Out string
	// Time is how long each benchmark runs.
	Time time.Duration
}

// Run runs the benchmarks, prints a table of what they report and, with Options.Out, writes exec.md.
func Run(ctx context.Context, o Options, stdout, log io.Writer) error {
	machine := report.Describe(os.TempDir())
	cmd := exec.CommandContext(ctx, "go", "test", "./exec", "-run", "^$", "-bench", ".", "-benchtime", o.Time.String())
	cmd.Dir = filepath.Join(o.Source, "..")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, log), log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test ./exec: %w", err)
	}
	found, err := parse(out.String())
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s. Each benchmark ran %s.\n\n%s", machine, o.Time, found.text())
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	md := "# Commands\n\nWritten by `make bench-exec`; [what commands may do](../how-to/exec.md).\n\n" + text
	return os.WriteFile(filepath.Join(o.Out, "exec.md"), []byte(md), 0o644)
}

// metrics are the values of each benchmark, by unit.
type metrics map[string]map[string]float64

// What the benchmarks report.
const (
	short, shared, flood, idle = "BenchmarkTrue", "BenchmarkTrueInSharedSandbox", "BenchmarkFlood", "BenchmarkHundredIdleSandboxes"
)

var units = map[string][]string{
	short:  {"x-bwrap", "bwrap-µs"},
	shared: {"x-fork", "x-step", "shared-µs"},
	flood:  {"x-pipe", "MiB"},
	idle:   {"CPU-ms/s", "goroutines", "heap-MiB", "processes", "processes-MiB"},
}

// parse reads the output of go test. It fails if a value is missing, as it is where commands cannot be isolated.
func parse(output string) (metrics, error) {
	found := metrics{}
	for line := range strings.Lines(output) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(f[0], "-")
		values := map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			values[f[i+1]] = v
		}
		found[name] = values
	}
	for name, all := range units {
		for _, unit := range all {
			if _, ok := found[name][unit]; !ok {
				return nil, fmt.Errorf("%s reported no %s; 'go test ./exec -run ^$ -bench . -v' says why", name, unit)
			}
		}
	}
	return found, nil
}

// What is required.
const (
	mostOfBwrap = 1.3
	mostOfFork  = 1.5
	leastOfPipe = 0.5
	mostMemory  = 32
)

func (m metrics) text() string {
	t := &report.Table{Head: []string{"what", ">measured", ">required", "met"}}
	met := func(ok bool) string {
		if ok {
			return "yes"
		}
		return "no"
	}
	bwrap := time.Duration(m[short]["bwrap-µs"] * float64(time.Microsecond))
	ratio, rate, memory := m[short]["x-bwrap"], m[flood]["x-pipe"], m[flood]["MiB"]
	t.Add("`true` in a sandbox of its own", report.Ratio(ratio)+" of bwrap alone", fmt.Sprintf("at most %.1fx", mostOfBwrap), met(ratio <= mostOfBwrap))
	of := m[shared]
	t.Add("`true` in a shared sandbox", report.Ratio(of["x-fork"])+" of fork and exec, and a round trip", fmt.Sprintf("at most %.1fx", mostOfFork), met(of["x-fork"] <= mostOfFork))
	t.Add("the same, to fork and exec with the first step", report.Ratio(of["x-step"]), "", "")
	t.Add("1 GiB of output", report.Ratio(rate)+" of a pipe's rate", fmt.Sprintf("at least %.1fx", leastOfPipe), met(rate >= leastOfPipe))
	t.Add("memory that the server allocates for it", fmt.Sprintf("%.2f MiB", memory), fmt.Sprintf("under %d MiB", mostMemory), met(memory < mostMemory))
	of = m[idle]
	t.Add("100 idle sandboxes: the server's processor time", fmt.Sprintf("%.2f ms a second", of["CPU-ms/s"]), "", "")
	t.Add("100 idle sandboxes: the server's heap and stacks", fmt.Sprintf("%.1f MiB", of["heap-MiB"]), "", "")
	t.Add("100 idle sandboxes: the server's goroutines", fmt.Sprintf("%.0f", of["goroutines"]), "", "")
	t.Add(fmt.Sprintf("100 idle sandboxes: their %.0f processes", of["processes"]), fmt.Sprintf("%.1f MiB", of["processes-MiB"]), "", "")
	return t.String() + fmt.Sprintf("\n`true` and bwrap with the same options run in turns, in new sandboxes each; the median of bwrap was %s. "+
		"In a shared sandbox `true` took %s; it runs in turns with a fork and exec of `true` by the server and a message to and fro through a pair of sockets. The first step "+
		"of a command is the server's program, which sets limits and has Landlock restrict the command to its paths; a shared sandbox keeps it ready, and the line below has it in the plain fork and exec as well. The output of `head -c 1G /dev/zero` "+
		"goes to the file from which callers read it, and in turns into a pipe of which a program reads 64 KiB at a time. A sandbox runs `sleep`. The memory of "+
		"processes is their proportional set size (what several share is counted once); heap and stacks are what the sandboxes add after a collection.\n", report.Duration(bwrap), report.Duration(time.Duration(m[shared]["shared-µs"]*float64(time.Microsecond))))
}
