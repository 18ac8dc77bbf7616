// Package memory measures a sandbox in the memory of a Node process beside memfs, in turns in one process.
package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
)

// Options of Run.
type Options struct {
	// Source is the directory of bench's source. Out is the directory for the report; "" writes none.
	Source, Out string
	// Rounds is how often each step is measured; the report has the median. Files is the number of files.
	Rounds, Files int
}

// results are what the Node process prints: the versions of Node and memfs, and the rows of the table.
type results struct {
	Node, Memfs string
	Rows        []row
}

// row has the time of an operation in nanoseconds: of the sandbox, of its fs, and of memfs.
type row struct {
	What               string
	Sandbox, FS, Memfs int64
}

// Run measures everything, prints a table and, with Options.Out, writes sandbox.md. It needs what 'make bench-peers' installs.
func Run(ctx context.Context, o Options, stdout, log io.Writer) error {
	machine := report.Describe(o.Source)
	found, err := o.measure(ctx, log)
	if err != nil {
		return fmt.Errorf("measure in Node (make bench-peers installs what it needs): %w", err)
	}
	text := fmt.Sprintf("%s. Node %s, memfs %s.\n\n%s", machine, found.Node, found.Memfs, o.table(found.Rows))
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	md := "# Sandbox in memory\n\nWritten by `make bench-sandbox`; [the sandbox of the npm client](../../client/ts/README.md).\n\n" + text
	return os.WriteFile(filepath.Join(o.Out, "sandbox.md"), []byte(md), 0o644)
}

func (o Options) measure(ctx context.Context, log io.Writer) (found results, err error) {
	module, err := filepath.Abs(filepath.Join(o.Source, "..", "client", "ts", "dist", "esm", "sandbox", "index.js"))
	if err != nil {
		return results{}, err
	}
	cmd := exec.CommandContext(ctx, "node", "memory.mjs", module, strconv.Itoa(o.Rounds), strconv.Itoa(o.Files))
	cmd.Dir, cmd.Stderr = filepath.Join(o.Source, "peers", "node"), log
	out, err := cmd.Output()
	if err != nil {
		return results{}, err
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return results{}, err
	}
	for _, r := range found.Rows {
		if r.Sandbox <= 0 || r.FS <= 0 || r.Memfs <= 0 {
			return results{}, errors.New(r.What + ": a time is missing")
		}
	}
	return found, nil
}

func (o Options) table(rows []row) string {
	t := &report.Table{Head: []string{"what", ">sandbox", ">its fs", ">memfs", ">sandbox of memfs", ">its fs of memfs"}}
	for _, r := range rows {
		cells := []string{r.What}
		for _, ns := range []int64{r.Sandbox, r.FS, r.Memfs} {
			cells = append(cells, report.Duration(time.Duration(ns)))
		}
		t.Add(append(cells, report.Ratio(float64(r.Sandbox)/float64(r.Memfs)), report.Ratio(float64(r.FS)/float64(r.Memfs)))...)
	}
	return fmt.Sprintf("%s\nTimes of one operation, one after the other, medians of %d rounds in turns in one Node process; %s files of 4 KiB in a directory. "+
		"The sandbox is that of `createMemorySandbox()`, with its `read`, `write`, `list` and `delete`. `its fs` is `sandbox.fs`, and memfs its `promises`, with "+
		"`readFile`, `writeFile`, `readdir` and `rm`. The sandbox also checks the zone, makes missing directories and sorts names. A ratio below 1 means that ctxfs is faster.\n",
		t, o.Rounds, report.Thousands(int64(o.Files)))
}
