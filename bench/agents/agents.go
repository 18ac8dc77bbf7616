// Package agents measures what agents ask for: edits, batches and archives by the Go client, and files over the Model Context Protocol (MCP).
// Each is measured in turns with what does the same without it, on the same files.
package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/bench/figure"
	"github.com/ctxfs/ctxfs/bench/report"
)

// Options of Run.
type Options struct {
	// Ctxfs is the program to measure; "" builds it, Source being the directory of bench's source.
	Ctxfs, Source string
	// Dir is the directory for temporary files, on the disk to measure. Out is the directory for the report; "" writes none.
	Dir, Out string
	// Rounds is how often each side is measured, Time how long; the report has the medians.
	Rounds int
	Time   time.Duration
	// Files is the number of files of the directory that is listed, searched and exported.
	Files int
}

// side is one of the two ways to do the same. do does it once; i counts.
type side struct {
	name string
	do   func(ctx context.Context, i int) error
}

// pair is a row: what is done by ctxfs and by the other.
type pair struct {
	what         string
	ctxfs, other side
}

// Row is what was measured of a pair.
type Row struct {
	What, Other       string
	CtxfsTook, Theirs time.Duration
}

// Run measures everything, prints a table and, with Options.Out, writes agents.md.
func Run(ctx context.Context, o Options, stdout, log io.Writer) error {
	machine := report.Describe(o.Dir)
	rows, err := o.measure(ctx, log)
	if err != nil {
		return err
	}
	text := machine + ".\n\n" + o.text(rows)
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	md := "# Agents\n\nWritten by `make bench-agents`; [files over MCP](../how-to/mcp.md).\n\n" + text
	return os.WriteFile(filepath.Join(o.Out, "agents.md"), []byte(md), 0o644)
}

func (o Options) measure(ctx context.Context, log io.Writer) (rows []Row, err error) {
	s := &stand{files: o.Files}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx, o); err != nil {
		return nil, err
	}
	for _, p := range s.pairs() {
		_, _ = fmt.Fprintln(log, p.what+", beside "+p.other.name)
		row, err := o.turns(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.what, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// turns measures both sides of a pair in each round. They take turns in beginning.
func (o Options) turns(ctx context.Context, p pair) (Row, error) {
	took := map[string][]time.Duration{}
	for round := range o.Rounds {
		sides := []side{p.ctxfs, p.other}
		if round%2 == 1 {
			sides[0], sides[1] = sides[1], sides[0]
		}
		for _, s := range sides {
			middle, err := s.run(ctx, o.Time)
			if err != nil {
				return Row{}, fmt.Errorf("%s: %w", s.name, err)
			}
			took[s.name] = append(took[s.name], middle)
		}
	}
	return Row{What: p.what, Other: p.other.name, CtxfsTook: figure.Median(took[p.ctxfs.name]), Theirs: figure.Median(took[p.other.name])}, nil
}

// run does it over and over for a time, after once without a clock, and returns the median.
func (s side) run(ctx context.Context, d time.Duration) (time.Duration, error) {
	if err := s.do(ctx, 0); err != nil {
		return 0, err
	}
	var all []time.Duration
	for begin, i := time.Now(), 1; i == 1 || time.Since(begin) < d; i++ {
		start := time.Now()
		if err := s.do(ctx, i); err != nil {
			return 0, err
		}
		all = append(all, time.Since(start))
	}
	return figure.Median(all), nil
}

func (o Options) text(rows []Row) string {
	t := &report.Table{Head: []string{"what", ">ctxfs", "beside", ">took", ">ctxfs is"}}
	for _, r := range rows {
		t.Add(r.What, report.Duration(r.CtxfsTook), r.Other, report.Duration(r.Theirs), report.Ratio(float64(r.Theirs)/float64(r.CtxfsTook)))
	}
	return fmt.Sprintf("%s\nTimes of one operation, one after the other; medians of %d rounds in turns, on the same files of one context. A ratio above 1 means "+
		"that ctxfs is faster; compare ratios, since times change with the machine's load. EditFile, Batch and Export are calls of the Go client over the unix "+
		"socket. MCP is `ctxfs mcp` on stdio, as an agent starts it, and the reference server is `@modelcontextprotocol/server-filesystem` in Node; the same client "+
		"calls both. ctxfs confines each path and asks a server, the reference server reads the disk itself. `tar` writes into a pipe that this program reads, and "+
		"its time includes the start of a process.\n", t, o.Rounds)
}
