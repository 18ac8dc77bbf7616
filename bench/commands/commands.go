// Package commands runs the benchmarks of package exec, and writes down what they report: commands in a sandbox beside bwrap alone, in a
// shared one beside fork and exec, their output beside a pipe, and what idle sandboxes cost.
package commands

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
)

// Run runs the benchmarks.
func Run(ctx context.Context, o *stand.Options) (*report.Page, error) {
	most := o.Time.String()
	if o.Quick {
		most = "1x"
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./exec", "-run", "^$", "-bench", ".", "-benchtime", most)
	cmd.Dir = filepath.Join(o.Source, "..")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, o.Log), o.Log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go test ./exec: %w", err)
	}
	text, err := text(out.String())
	return &report.Page{
		Name: "exec", Title: "Commands", Intro: "Written by `make bench-exec`; [what commands may do](../how-to/exec.md).", How: "Each benchmark ran " + most + ".", Text: text,
	}, err
}

// What the benchmarks report.
const short, shared, flood, idle = "BenchmarkTrue", "BenchmarkTrueInSharedSandbox", "BenchmarkFlood", "BenchmarkHundredIdleSandboxes"

// rows are the table. A metric is the name of a benchmark and a unit.
var rows = []struct {
	what, metric, format, required string
	met                            func(float64) bool
}{
	{"`true` in a sandbox of its own", short + " x-bwrap", "%.2fx of bwrap alone", "at most 1.3x", func(v float64) bool { return v <= 1.3 }},
	{"`true` in a shared sandbox", shared + " x-fork", "%.2fx of fork and exec, and a round trip", "at most 1.5x", func(v float64) bool { return v <= 1.5 }},
	{"the same, to fork and exec with the first step", shared + " x-step", "%.2fx", "", nil},
	{"1 GiB of output", flood + " x-pipe", "%.2fx of a pipe's rate", "at least 0.5x", func(v float64) bool { return v >= 0.5 }},
	{"memory that the server allocates for it", flood + " MiB", "%.2f MiB", "under 32 MiB", func(v float64) bool { return v < 32 }},
	{"100 idle sandboxes: the server's processor time", idle + " CPU-ms/s", "%.2f ms a second", "", nil},
	{"100 idle sandboxes: the server's heap and stacks", idle + " heap-MiB", "%.1f MiB", "", nil},
	{"100 idle sandboxes: the server's goroutines", idle + " goroutines", "%.0f", "", nil},
	{"100 idle sandboxes: the number of their processes", idle + " processes", "%.0f", "", nil},
	{"100 idle sandboxes: the memory of these", idle + " processes-MiB", "%.1f MiB", "", nil},
}

// text is made of the output of go test. It fails if a value is missing, as it is where commands cannot be isolated.
func text(output string) (string, error) {
	found := map[string]float64{}
	for line := range strings.Lines(output) {
		f := strings.Fields(line)
		for i := 2; i+1 < len(f) && strings.HasPrefix(f[0], "Benchmark"); i += 2 {
			name, _, _ := strings.Cut(f[0], "-")
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			found[name+" "+f[i+1]] = v
		}
	}
	t := &report.Table{Head: []string{"what", ">measured", ">required", "met"}}
	for _, r := range rows {
		v, ok := found[r.metric]
		if !ok {
			return "", fmt.Errorf("the benchmarks reported no %s; 'go test ./exec -run ^$ -bench . -v' says why", r.metric)
		}
		met := ""
		if r.met != nil {
			met = report.Met(r.met(v))
		}
		t.Add(r.what, fmt.Sprintf(r.format, v), r.required, met)
	}
	us := func(metric string) string {
		return report.Duration(time.Duration(found[metric] * float64(time.Microsecond)))
	}
	return fmt.Sprintf("%s\n`true` and bwrap with the same options run in turns, in new sandboxes each; the median of bwrap was %s. "+
		"In a shared sandbox `true` took %s; it runs in turns with a fork and exec of `true` by the server and a message to and fro through a pair of sockets. The first step "+
		"of a command is the server's program, which sets limits and has Landlock restrict the command to its paths; a shared sandbox keeps it ready, and the line below has it in the plain fork and exec as well. The output of `head -c 1G /dev/zero` "+
		"goes to the file from which callers read it, and in turns into a pipe of which a program reads 64 KiB at a time. A sandbox runs `sleep`. The memory of "+
		"processes is their proportional set size (what several share is counted once); heap and stacks are what the sandboxes add after a collection.\n",
		t, us(short+" bwrap-µs"), us(shared+" shared-µs")), nil
}
