// Package records measures what keeping the records in PostgreSQL costs beside SQLite: opening a panel, a first access and a stat, with few
// and with many contexts. The PostgreSQL is a real one on this machine, reached by its unix socket. Both stores
// flush their commits.
package records

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/server"
)

// calls is how often each operation is called in a round, and in a quick one; fillers how many panels are opened at a time before a measurement.
const calls, quickCalls, fillers = 100, 5, 8

// The stores that are compared.
const inSQLite, inPostgres = "SQLite", "PostgreSQL"

// The operations. again opens a panel that is open, as a reload does.
const opens, again, first, stats = "open a new panel", "open a panel again", "first access by a host", "stat"

// Run measures everything.
func Run(ctx context.Context, o *stand.Options) (page *report.Page, err error) {
	database, err := pgtest.Launch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	var all []*store
	for _, size := range o.Sizes {
		url, err := database.MakeSchema(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, &store{kind: inSQLite, size: size, took: report.Samples{}}, &store{kind: inPostgres, size: size, url: url, took: report.Samples{}})
	}
	err = o.Scratch(func(scratch string) error {
		return serve(ctx, scratch, all, func() error { return measure(ctx, o, all) })
	})
	return &report.Page{
		Name: "records", Title: "Records", Intro: "Written by `make bench-records`; [records in PostgreSQL](../how-to/postgres.md).", Text: text(o.Sizes, all),
	}, err
}

// store is a server whose records are in one of the stores.
type store struct {
	kind, url string
	// size is the number of contexts that it has before it is measured; contexts counts those that exist.
	size, contexts int
	server         stand.Server
	took           report.Samples
}

// serve runs the servers, each on a workspace of its own, while do is at work.
func serve(ctx context.Context, scratch string, all []*store, do func() error) error {
	if len(all) == 0 {
		return do()
	}
	s := all[0]
	workspace := filepath.Join(scratch, s.kind+strconv.Itoa(s.size))
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		return err
	}
	return stand.Serve(ctx, func(cfg *server.Config) {
		cfg.Workspace, cfg.Metadata, cfg.Driver = workspace, s.url, server.DriverCopy
	}, func(srv stand.Server) error {
		s.server = srv
		return serve(ctx, scratch, all[1:], do)
	})
}

// measure fills all stores before it measures the first. A machine that becomes slower changes no ratio then.
func measure(ctx context.Context, o *stand.Options, all []*store) error {
	for _, s := range all {
		o.Logf("%s, %d contexts", s.kind, s.size)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(fillers)
		for ; s.contexts < s.size; s.contexts++ {
			id := fmt.Sprintf("filled/%d", s.contexts)
			group.Go(func() error { return s.open(ctx, id) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	// What the kernel has not written yet would delay the stores' flushes.
	if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	calls := calls
	if o.Quick {
		calls = quickCalls
	}
	for range o.Rounds {
		for _, s := range all {
			if err := s.round(ctx, calls); err != nil {
				return fmt.Errorf("%s: %w", s.kind, err)
			}
		}
	}
	return nil
}

// round calls each operation so many times.
func (s *store) round(ctx context.Context, calls int) error {
	p, err := s.server.OpenPanel(ctx, "filled/0")
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	base := s.contexts
	for range calls {
		s.contexts++
		open := func() error { return s.open(ctx, fmt.Sprintf("more/%d", s.contexts)) }
		ensure := func() error {
			_, err := s.server.EnsureContext(ctx, fmt.Sprintf("ctx_host%d", s.contexts), nil)
			return err
		}
		for _, op := range []struct {
			name string
			do   func() error
		}{{opens, open}, {again, open}, {first, ensure}} {
			if err := s.took.Add(op.name, op.do); err != nil {
				return err
			}
		}
	}
	// Apart from the others: a database still works after its answer.
	for range calls {
		if err := s.took.Add(stats, func() error { _, err := p.FS().With(ctx).Stat("."); return err }); err != nil {
			return err
		}
	}
	s.contexts += s.contexts - base // the host's
	return nil
}

func (s *store) open(ctx context.Context, panel string) error {
	p, err := s.server.OpenPanel(ctx, panel)
	if err != nil {
		return err
	}
	return p.Close()
}

func text(sizes []int, all []*store) string {
	t := &report.Table{Head: []string{"what", "records in"}}
	for _, size := range sizes {
		t.Head = append(t.Head, ">"+report.Thousands(int64(size))+" contexts")
	}
	t.Head = append(t.Head, ">ratio")
	for _, name := range []string{opens, again, first, stats} {
		for _, kind := range []string{inSQLite, inPostgres} {
			cells, least, most := []string{name, kind}, 0.0, 0.0
			for _, s := range all {
				if s.kind == kind {
					d := report.Median(s.took[name])
					cells, most = append(cells, report.Duration(d)), float64(d)
					if least == 0 {
						least = most
					}
				}
			}
			t.Add(append(cells, report.Ratio(most/least))...)
		}
	}
	return "## Records in SQLite and in PostgreSQL\n\n" + t.String() +
		"\nOver the socket, medians, all servers in turns. PostgreSQL runs on the same machine. Both flush each commit to the disk, except that " +
		"SQLite flushes the end of a seeding and the time of a last use only with the next commit. " +
		"The ratio is that of the most contexts to the fewest. An empty workspace: a first access is records and one folder.\n"
}
