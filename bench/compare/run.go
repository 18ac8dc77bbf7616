package compare

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
)

// Run compares ctxfs with its peers.
func Run(ctx context.Context, o *stand.Options) (page *report.Page, err error) {
	begin, sizes := time.Now(), full
	if o.Quick {
		sizes = quick
	}
	err = o.Scratch(func(scratch string) (err error) {
		e := &peers.Env{Options: o, Scratch: scratch}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := e.StartCtxfs(ctx); err != nil {
			return err
		}
		rivals, missing, err := e.Join(ctx, peers.Rivals()...)
		if err != nil {
			return err
		}
		all := slices.DeleteFunc(append(e.Ctxfs.Peers(), rivals...), func(p *peers.Peer) bool { return !o.Peers.MatchString(p.Name) })
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		if err := MakeTree(e.Root, sizes, names...); err != nil {
			return err
		}
		chosen := slices.DeleteFunc(sizes.cells(), func(c *Cell) bool { return !o.Only.MatchString(c.Key()) })
		rs, err := Measure(ctx, o, chosen, all)
		if err != nil {
			return err
		}
		page = &report.Page{
			Name: "bench", Title: "ctxfs beside its peers", Intro: "Written by `make bench`; [how to read it](../explanation/performance.md).",
			How:   fmt.Sprintf("Median of %d rounds of %s, all peers interleaved; %s in all.", o.Rounds, o.Time, time.Since(begin).Round(time.Second)),
			Text:  text(rs, missing, all),
			Chart: rs.chart(),
		}
		return nil
	})
	return page, err
}

func text(rs Results, missing []string, all []*peers.Peer) string {
	legend := &report.Table{Head: []string{"peer", "what it is"}}
	for _, p := range all {
		legend.Add(p.Name, p.What)
	}
	return Missing(missing) + rs.Table().String() +
		"\n`rate/s` is operations (bytes for 256 MiB), `CPU/op` of client and server together, `ctxfs is` its rate over unix socket\n" +
		"divided by the peer's.\n\n## Required\n\n" + rs.Required(rules) + "\n## Peers\n\n" + legend.String()
}

// Missing names the peers that cannot run here.
func Missing(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return "**Missing here, and not measured:**\n\n- " + strings.Join(missing, "\n- ") + "\n\n"
}

// Measure runs each cell with all peers that can do it.
func Measure(ctx context.Context, o *stand.Options, cells []*Cell, all []*peers.Peer) (rs Results, err error) {
	for i, c := range cells {
		o.Logf("%2d/%d %s, at once: %d", i+1, len(cells), c.Name, c.Concurrency)
		r, err := c.run(ctx, o, all)
		if err != nil {
			return nil, err
		}
		rs = append(rs, r...)
	}
	return rs, nil
}

// entrant is a peer in a cell.
type entrant struct {
	peer   *peers.Peer
	conn   *peers.Conn
	run    runner
	rounds []report.Round
}

// run measures one cell, interleaved: every round runs each peer for a short time, and the next round begins with the next peer.
func (c *Cell) run(ctx context.Context, o *stand.Options, all []*peers.Peer) (results Results, err error) {
	var entrants []*entrant
	defer func() {
		for _, e := range entrants {
			err = errors.Join(err, e.conn.Close())
		}
	}()
	for _, p := range all {
		conn, err := p.Dial(ctx, c.Concurrency)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", p.Name, err)
		}
		if run := c.bind(conn, p.Name); run != nil {
			entrants = append(entrants, &entrant{peer: p, conn: conn, run: run})
		} else if err := conn.Close(); err != nil {
			return nil, err
		}
	}
	for round := range o.Rounds {
		for i := range entrants {
			e := entrants[(i+round)%len(entrants)]
			r, err := e.measure(ctx, c, o.Time)
			if err != nil {
				return nil, fmt.Errorf("%s with %s: %w", c.Key(), e.peer.Name, err)
			}
			e.rounds = append(e.rounds, r)
		}
	}
	for _, e := range entrants {
		results = append(results, Result{Cell: c, Peer: e.peer, Round: report.Medians(e.rounds)})
	}
	return results, nil
}

// runner makes a peer do the work for a time, and returns how much it did and how long that took.
type runner func(ctx context.Context, d time.Duration) (peers.Done, error)

// bind returns how a peer does the work, by its own program or by this one; nil when it cannot.
func (c *Cell) bind(conn *peers.Conn, peer string) runner {
	if conn.Drive != nil && c.Work != nil {
		return func(ctx context.Context, d time.Duration) (peers.Done, error) {
			w := *c.Work
			w.Workers, w.Millis = c.workers(), d.Milliseconds()
			return conn.Drive(ctx, w)
		}
	}
	step := c.Bind(conn, peer)
	if step == nil {
		return nil
	}
	return func(ctx context.Context, d time.Duration) (peers.Done, error) { return loop(ctx, c.workers(), d, step) }
}

// measure runs one peer for a time.
func (e *entrant) measure(ctx context.Context, c *Cell, d time.Duration) (report.Round, error) {
	if !c.Long {
		if _, err := e.run(ctx, d/10); err != nil {
			return report.Round{}, err
		}
	}
	runtime.GC() // one peer's garbage is not the next one's cost
	before, err := stand.CPU(e.peer.PIDs)
	if err != nil {
		return report.Round{}, err
	}
	did, err := e.run(ctx, d)
	if err != nil {
		return report.Round{}, err
	}
	after, err := stand.CPU(e.peer.PIDs)
	return report.Summarize(did.Durations, did.Ops, did.Took, after-before), err
}

// loop calls step by a number of workers until the time is over, at least once each.
func loop(ctx context.Context, workers int, d time.Duration, step Step) (sum peers.Done, err error) {
	each, errs := make([]peers.Done, workers), make([]error, workers)
	begin := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { errs[w] = until(ctx, &each[w], begin.Add(d), w, step) })
	}
	wg.Wait()
	sum.Took = time.Since(begin)
	for _, did := range each {
		sum.Durations = append(sum.Durations, did.Durations...)
		sum.Ops += did.Ops
	}
	return sum, errors.Join(errs...)
}

// until records the duration of each step; that of one which was cut is scaled up.
func until(ctx context.Context, did *peers.Done, end time.Time, worker int, step Step) error {
	did.Durations = make([]time.Duration, 0, 1<<14)
	begin := time.Now()
	for i := 0; ; i++ {
		share, err := step(worker, i)
		if err != nil {
			return err
		}
		now := time.Now()
		if share <= 0 {
			return errors.New("nothing was done in the time")
		}
		did.Durations = append(did.Durations, time.Duration(float64(now.Sub(begin))/share))
		did.Ops += share
		if now.After(end) || ctx.Err() != nil {
			return ctx.Err()
		}
		begin = now
	}
}
