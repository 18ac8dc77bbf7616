// Package fairness measures what a panel that sends one stat at a time notices of a greedy panel
// on the same server. The greedy panel's client is a process of its own that gets what others leave of the
// processors, as though it were on another machine: what it takes is not the server's to divide.
package fairness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/bench/child"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/client"
)

// load is the work that runs during a measurement: jobs are a panel's; other adds a busy program of normal priority.
type load struct {
	name  string
	other bool
	jobs  []job
}

// job is done over and over, atOnce times at once; i counts.
type job struct {
	atOnce int
	do     func(fs *client.FS, i int) error
}

// another is a program that has nothing to do with the server.
var another = load{name: "2 busy loops", jobs: []job{{2, spin}}}

var (
	reads   = job{256, readFile}
	streams = job{4, readStream}
	greps   = job{2, grep}
)

// loads begin with none. What is required is required of those that are a panel's.
var loads = []load{
	{name: "nothing"},
	{name: "256 reads of 4 KiB at once", jobs: []job{reads}},
	{name: "4 streams of 64 MiB", jobs: []job{streams}},
	{name: "2 greps of 5,000 files", jobs: []job{greps}},
	{name: "these reads, streams and greps", jobs: []job{reads, streams, greps}},
	{name: "2 recursive listings of 5,000 files", jobs: []job{{2, list}}},
	{name: "50 files copied and removed", jobs: []job{{1, copyTree}}},
	{name: "another program, 2 busy loops", other: true},
	{name: "2 greps, and that program", other: true, jobs: []job{greps}},
}

// Options of Run.
type Options struct {
	// Self is this program, Ctxfs the server's; "" builds it, Source being the folder of bench's source.
	Self, Ctxfs, Source string
	// Dir is where temporary files lie; Out where the report goes, "" writes none.
	Dir, Out string
	// Rounds is how often each load is measured, Time how long; the median is reported.
	Rounds int
	Time   time.Duration
}

// Run measures everything, prints it and, with Options.Out, writes fairness.md.
func Run(ctx context.Context, o Options, stdout, log io.Writer) error {
	machine := report.Describe(o.Dir)
	f, err := measure(ctx, o, log)
	if err != nil {
		return err
	}
	text := machine + ".\n\n" + f.Text()
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	return f.write(o.Out, text)
}

// stand is a server with two panels.
type stand struct {
	server *peers.Ctxfs
	// greedy and other are child processes that run the load they are asked for. other runs at normal priority.
	greedy, other *child.Process
	panel         *client.Client
	// open are the panels that were opened.
	open []*client.Panel
}

func measure(ctx context.Context, o Options, log io.Writer) (f Figures, err error) {
	scratch, err := os.MkdirTemp(o.Dir, "cf")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	s := &stand{server: &peers.Ctxfs{}}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.start(ctx, o, scratch); err != nil {
		return f, err
	}
	rounds := make([][]Row, len(loads))
	for n := range o.Rounds {
		for i, l := range loads {
			row, err := s.round(ctx, l, o.Time)
			if err != nil {
				return f, fmt.Errorf("%s: %w", l.name, err)
			}
			_, _ = fmt.Fprintf(log, "round %d, %s: p99 %s\n", n+1, l.name, row.P99)
			rounds[i] = append(rounds[i], row)
		}
	}
	for i, l := range loads {
		f.Rows = append(f.Rows, median(l, rounds[i]))
	}
	return f, nil
}

// start starts the server and the greedy panel's process.
func (s *stand) start(ctx context.Context, o Options, workspace string) error {
	program, err := peers.Program(ctx, o.Ctxfs, o.Source, workspace)
	if err != nil {
		return err
	}
	if _, err := s.server.Launch(ctx, program, workspace); err != nil {
		return err
	}
	patient, err := s.openPanel(ctx, "panels/patient", 0)
	if err != nil {
		return err
	}
	if s.panel, err = client.Dial(ctx, client.WithAddress(s.server.Address()), client.WithToken(patient)); err != nil {
		return err
	}
	greedy, err := s.openPanel(ctx, "panels/greedy", grepFiles)
	if err != nil {
		return err
	}
	argv := []string{o.Self, "peer", "greedy", s.server.Address(), greedy}
	if s.greedy, err = child.Start(workspace, "chrt", append([]string{"--idle", "0"}, argv...)...); err != nil {
		return err
	}
	s.other, err = child.Start(workspace, argv[0], argv[1:]...)
	return err
}

// openPanel opens a panel and fills its folder, with so many files to search.
func (s *stand) openPanel(ctx context.Context, id string, search int) (token string, err error) {
	p, err := s.server.Host().OpenPanel(ctx, id)
	if err != nil {
		return "", err
	}
	s.open = append(s.open, p)
	info, err := s.server.Host().Info(ctx, p.ContextID())
	if err != nil {
		return "", err
	}
	token, _ = p.Token()
	return token, fill(info.GetFolder(), search)
}

func (s *stand) close() (err error) {
	for _, p := range []*child.Process{s.greedy, s.other} {
		if p != nil {
			err = errors.Join(err, p.Stop())
		}
	}
	if s.panel != nil {
		err = errors.Join(err, s.panel.Close())
	}
	for _, p := range s.open {
		err = errors.Join(err, p.Close())
	}
	return errors.Join(err, s.server.Close())
}

// settle is how long a load runs before it is measured.
const settle = 200 * time.Millisecond

// round sends one stat at a time while the load l runs.
func (s *stand) round(ctx context.Context, l load, period time.Duration) (row Row, err error) {
	other := loads[0].name
	if l.other {
		other = another.name
	}
	if _, err := s.greedy.Ask(ctx, l.name, startedPrefix+l.name); err != nil {
		return row, err
	}
	if _, err := s.other.Ask(ctx, other, startedPrefix+other); err != nil {
		return row, err
	}
	fs := s.panel.FS().With(ctx)
	var took []time.Duration
	begin := time.Now().Add(settle)
	for end := begin.Add(period); ; {
		start := time.Now()
		if start.After(end) {
			break
		}
		if _, err := fs.Stat(fileName(0)); err != nil {
			return row, err
		}
		if start.After(begin) {
			took = append(took, time.Since(start))
		}
	}
	if len(took) == 0 {
		return row, fmt.Errorf("no stat ended in %s", period)
	}
	slices.Sort(took)
	return Row{
		P50: took[len(took)/2], P99: took[len(took)*99/100], PerSecond: float64(len(took)) / period.Seconds(),
	}, nil
}

// What a panel's folder holds.
const (
	smallFiles, smallSize = 64, 4 << 10
	grepFiles, perDir     = 5000, 50
	largeName, largeSize  = "large.bin", 64 << 20
)

func directory(i int) string { return fmt.Sprintf("d%d", i/perDir) }

func fileName(i int) string { return fmt.Sprintf("f%02d.txt", i) }

// fill makes the files of a panel; with nothing to search there is no large one either.
func fill(folder string, search int) error {
	line := []byte("func step(in []byte) (out int, err error) { return len(in), nil }\n")
	text := slices.Repeat(line, smallSize/len(line)+1)[:smallSize]
	for i := range smallFiles {
		if err := os.WriteFile(filepath.Join(folder, fileName(i)), text, 0o644); err != nil {
			return err
		}
	}
	for i := range search {
		dir := filepath.Join(folder, directory(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fileName(i)), text, 0o644); err != nil {
			return err
		}
	}
	if search == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(folder, largeName), slices.Repeat(text, largeSize/smallSize), 0o644)
}
