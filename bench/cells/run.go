package cells

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/bench/child"
	"github.com/ctxfs/ctxfs/bench/figure"
	"github.com/ctxfs/ctxfs/bench/peers"
)

// Result is what a peer did in a cell: the medians of its rounds.
type Result struct {
	Cell   *Cell
	Peer   *peers.Peer
	Median figure.Round
	Rounds []figure.Round
}

// Options of Run.
type Options struct {
	// Rounds of each cell, every peer once in each; Time is what one of them lasts at least.
	Rounds int
	Time   time.Duration
	// Progress, if set, is called with each cell before the cell runs.
	Progress func(*Cell)
}

// entrant is a peer in a cell.
type entrant struct {
	peer   *peers.Peer
	conn   peers.Conn
	run    runner
	rounds []figure.Round
}

// Run measures one cell with all peers that can do it, interleaved: every round runs each
// peer for a short time, and the next round begins with the next peer.
func Run(ctx context.Context, c *Cell, all []*peers.Peer, o Options) (results []Result, err error) {
	if o.Progress != nil {
		o.Progress(c)
	}
	entrants, err := enter(ctx, c, all)
	defer func() {
		for _, e := range entrants {
			err = errors.Join(err, e.conn.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		for i := range entrants {
			e := entrants[(i+round)%len(entrants)]
			r, err := measure(ctx, c, e, o.Time)
			if err != nil {
				return nil, fmt.Errorf("%s with %s: %w", c.Key(), e.peer.Name, err)
			}
			e.rounds = append(e.rounds, r)
		}
	}
	for _, e := range entrants {
		results = append(results, Result{Cell: c, Peer: e.peer, Median: figure.Medians(e.rounds), Rounds: e.rounds})
	}
	return results, nil
}

func enter(ctx context.Context, c *Cell, all []*peers.Peer) ([]*entrant, error) {
	var out []*entrant
	for _, p := range all {
		conn, err := p.Dial(ctx, c.Concurrency)
		if err != nil {
			return out, fmt.Errorf("connect to %s: %w", p.Name, err)
		}
		run := bind(c, conn, p.Name)
		if run == nil {
			if err := conn.Close(); err != nil {
				return out, err
			}
			continue
		}
		out = append(out, &entrant{peer: p, conn: conn, run: run})
	}
	return out, nil
}

// runner makes a peer do the work for a time, and returns how much it did and how long that took.
type runner func(ctx context.Context, d time.Duration) (peers.Done, error)

// bind returns how a peer does the work, by its own program or by this one; nil when it cannot.
func bind(c *Cell, conn peers.Conn, peer string) runner {
	if driver, ok := conn.(peers.Driver); ok {
		if c.Work == nil {
			return nil
		}
		return func(ctx context.Context, d time.Duration) (peers.Done, error) {
			w := *c.Work
			w.Workers, w.Millis = c.Workers, d.Milliseconds()
			return driver.Drive(ctx, w)
		}
	}
	step := c.Bind(conn, peer)
	if step == nil {
		return nil
	}
	return func(ctx context.Context, d time.Duration) (peers.Done, error) { return loop(ctx, c.Workers, d, step) }
}

// measure runs one peer for a time. A simple operation is warmed up first.
func measure(ctx context.Context, c *Cell, e *entrant, d time.Duration) (figure.Round, error) {
	if c.Parts == 1 && c.Bytes == 0 {
		if _, err := e.run(ctx, d/10); err != nil {
			return figure.Round{}, err
		}
	}
	runtime.GC() // one peer's garbage is not the next one's cost
	before, err := child.CPU(e.peer.PIDs)
	if err != nil {
		return figure.Round{}, err
	}
	did, err := e.run(ctx, d)
	if err != nil {
		return figure.Round{}, err
	}
	after, err := child.CPU(e.peer.PIDs)
	return figure.Summarize(did.Durations, did.Ops, did.Took, after-before), err
}

// tally is what a loop did.
type tally struct {
	durations []time.Duration
	ops       float64
}

// loop calls step by a number of workers until the time is over, at least once each.
func loop(ctx context.Context, workers int, d time.Duration, step Step) (peers.Done, error) {
	tallies := make([]tally, workers)
	errs := make([]error, workers)
	begin := time.Now()
	end := begin.Add(d)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { errs[w] = tallies[w].until(ctx, end, w, step) })
	}
	wg.Wait()
	sum := peers.Done{Took: time.Since(begin)}
	for _, t := range tallies {
		sum.Durations = append(sum.Durations, t.durations...)
		sum.Ops += t.ops
	}
	return sum, errors.Join(errs...)
}

// until records the duration of each step; that of one which was cut is scaled up.
func (t *tally) until(ctx context.Context, end time.Time, worker int, step Step) error {
	t.durations = make([]time.Duration, 0, 1<<14)
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
		t.durations = append(t.durations, time.Duration(float64(now.Sub(begin))/share))
		t.ops += share
		if now.After(end) || ctx.Err() != nil {
			return ctx.Err()
		}
		begin = now
	}
}
