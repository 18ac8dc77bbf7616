// Package records measures what keeping the records in PostgreSQL costs beside SQLite: opening a panel, a first access and a stat, with few
// and with many contexts. The PostgreSQL is a real one on this machine, reached by its unix socket, which flushes each commit.
package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/server"
)

// Options of Run.
type Options struct {
	// Dir is the directory for temporary files, on the disk to measure. Out is the directory for the report; "" writes none.
	Dir, Out string
	// Sizes are numbers of contexts, ascending. Rounds is how often each is measured, in turns; the report has the median.
	Sizes  []int
	Rounds int
}

// calls is how often each operation is called in a round.
const calls = 100

// The stores that are compared.
const inSQLite, inPostgres = "SQLite", "PostgreSQL"

// Run measures everything, prints it and, with Options.Out, writes records.md.
func Run(ctx context.Context, o Options, stdout, log io.Writer) (err error) {
	scratch, err := os.MkdirTemp(o.Dir, "cr")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	database, err := pgtest.Launch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	var stands []*stand
	for _, size := range o.Sizes {
		url, err := database.MakeSchema(ctx)
		if err != nil {
			return err
		}
		stands = append(stands, &stand{store: inSQLite, size: size}, &stand{store: inPostgres, size: size, url: url})
	}
	var f figures
	if err := serve(ctx, scratch, stands, func() (err error) {
		f, err = measure(ctx, o, stands, log)
		return err
	}); err != nil {
		return err
	}
	text := report.Describe(scratch) + ".\n\n" + f.text()
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	md := "# Records\n\nWritten by `make bench-records`; [records in PostgreSQL](../how-to/postgres.md).\n\n" + text
	return os.WriteFile(filepath.Join(o.Out, "records.md"), []byte(md), 0o644)
}

// stand is a server whose records are in one of the stores.
type stand struct {
	store, url string
	// size is the number of contexts that it has before it is measured.
	size int
	c    *client.Client
	// contexts counts those that exist.
	contexts int
	// took has how long each call took, by the operation's name.
	took map[string][]time.Duration
}

// serve runs the servers, each on a workspace of its own, while do is at work.
func serve(ctx context.Context, scratch string, stands []*stand, do func() error) (err error) {
	if len(stands) == 0 {
		return do()
	}
	s := stands[0]
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.Metadata = filepath.Join(scratch, s.store+strconv.Itoa(s.size)), s.url
	cfg.Driver, cfg.Pool, cfg.LogLevel, cfg.DiskReserve = server.DriverCopy, 0, "error", 0
	if err := os.MkdirAll(cfg.Workspace, 0o755); err != nil {
		return err
	}
	srv, err := server.New(ctx, cfg, server.Deps{Version: "0.0.0-bench"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	c, err := client.Dial(ctx, client.WithAddress(srv.Info().Addresses.Target()))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	s.c, s.took = c, map[string][]time.Duration{}
	return serve(ctx, scratch, stands[1:], do)
}

// measure fills all stands before it measures the first. A machine that becomes slower changes no ratio then.
func measure(ctx context.Context, o Options, stands []*stand, log io.Writer) (f figures, err error) {
	for _, s := range stands {
		_, _ = fmt.Fprintf(log, "%s, %d contexts\n", s.store, s.size)
		if err := s.fill(ctx); err != nil {
			return f, err
		}
	}
	// What the kernel has not written yet would delay PostgreSQL's flushes.
	if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
		return f, fmt.Errorf("sync: %w", err)
	}
	for range o.Rounds {
		for _, s := range stands {
			if err := s.round(ctx); err != nil {
				return f, err
			}
		}
	}
	f = figures{sizes: o.Sizes, took: map[string]time.Duration{}}
	for _, s := range stands {
		for name, all := range s.took {
			slices.Sort(all)
			f.took[s.store+name+strconv.Itoa(s.size)] = all[len(all)/2]
		}
	}
	return f, nil
}

// fillers is how many panels are opened at a time before a measurement.
const fillers = 8

// fill makes contexts until there are so many as it should have.
func (s *stand) fill(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	for ; s.contexts < s.size; s.contexts++ {
		id := fmt.Sprintf("filled/%d", s.contexts)
		group.Go(func() error {
			p, err := s.c.OpenPanel(ctx, id)
			if err != nil {
				return err
			}
			return p.Close()
		})
	}
	return group.Wait()
}

// The operations. again opens a panel that is open, as a reload does.
const opens, again, first, stats = "open a new panel", "open a panel again", "first access by a host", "stat"

// round calls each operation some times.
func (s *stand) round(ctx context.Context) error {
	p, err := s.c.OpenPanel(ctx, "filled/0")
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	fsys := p.FS().With(ctx)
	base := s.contexts
	for range calls {
		s.contexts++
		for _, op := range []struct {
			name string
			do   func() error
		}{
			{opens, func() error { return s.open(ctx, fmt.Sprintf("more/%d", s.contexts)) }},
			{again, func() error { return s.open(ctx, fmt.Sprintf("more/%d", s.contexts)) }},
			{first, func() error {
				_, err := s.c.EnsureContext(ctx, fmt.Sprintf("ctx_host%d", s.contexts), nil)
				return err
			}},
		} {
			if err := s.time(op.name, op.do); err != nil {
				return err
			}
		}
	}
	// Apart from the others: a database still works after its answer.
	for range calls {
		if err := s.time(stats, func() error { _, err := fsys.Stat("."); return err }); err != nil {
			return err
		}
	}
	s.contexts += s.contexts - base // the host's
	return nil
}

// time notes how long an operation takes.
func (s *stand) time(name string, do func() error) error {
	begun := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %s: %w", s.store, name, err)
	}
	s.took[name] = append(s.took[name], time.Since(begun))
	return nil
}

func (s *stand) open(ctx context.Context, panel string) error {
	p, err := s.c.OpenPanel(ctx, panel)
	if err != nil {
		return err
	}
	return p.Close()
}

// figures is the result of a run: the medians by store, operation and number of contexts.
type figures struct {
	sizes []int
	took  map[string]time.Duration
}

func (f figures) text() string {
	t := &report.Table{Head: []string{"what", "records in"}}
	for _, size := range f.sizes {
		t.Head = append(t.Head, ">"+report.Thousands(int64(size))+" contexts")
	}
	t.Head = append(t.Head, ">ratio")
	for _, name := range []string{opens, again, first, stats} {
		for _, store := range []string{inSQLite, inPostgres} {
			cells := []string{name, store}
			for _, size := range f.sizes {
				cells = append(cells, report.Duration(f.took[store+name+strconv.Itoa(size)]))
			}
			least, most := f.took[store+name+strconv.Itoa(f.sizes[0])], f.took[store+name+strconv.Itoa(f.sizes[len(f.sizes)-1])]
			t.Add(append(cells, report.Ratio(float64(most)/float64(least)))...)
		}
	}
	return "## Records in SQLite and in PostgreSQL\n\n" + t.String() +
		"\nOver the socket, medians, all servers in turns. PostgreSQL runs on the same machine and flushes each commit; SQLite does not. " +
		"The ratio is that of the most contexts to the fewest. An empty workspace: a first access is records and one folder.\n"
}
