package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ctxfs/ctxfs/bench/child"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/client"
)

const (
	// handles that are opened, and entries of the largest directory.
	handles, entries = 10_000, 100_000
	// idleTime is how long an idle server is watched.
	idleTime = 3 * time.Second
)

// Options of Run.
type Options struct {
	// Self is this program, Dir where temporary files lie, Out where the report goes; "" writes none.
	Self, Dir, Out string
}

// bench is a run.
type bench struct {
	*Server
	fs  *client.FS
	log io.Writer
}

// Run measures everything, prints it and, with Options.Out, writes scale.md and scale.svg.
func Run(ctx context.Context, o Options, stdout, log io.Writer) (err error) {
	scratch, err := os.MkdirTemp(o.Dir, "cs")
	if err != nil {
		return err
	}
	server := &Server{}
	defer func() { err = errors.Join(err, server.Close(), os.RemoveAll(scratch)) }()
	p, err := server.Start(ctx, o.Self, scratch)
	if err != nil {
		return err
	}
	b := &bench{Server: server, fs: p.FS(), log: log}
	var f Figures
	for _, step := range []struct {
		name string
		do   func(context.Context, *Figures) error
	}{{"sessions", b.panels}, {"handles", b.handles}, {"directories", b.directories}, {"a file of 4 GiB", b.ranges}} {
		_, _ = fmt.Fprintln(log, step.name)
		if err := step.do(ctx, &f); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	text := report.Describe(scratch) + ".\n\n" + f.Text()
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	return f.write(o.Out, text)
}

// idle returns the share of one processor that the server uses while no calls arrive.
func (b *bench) idle(ctx context.Context) (float64, error) {
	before, err := child.Used(b.process.PID())
	if err != nil {
		return 0, err
	}
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := child.Used(b.process.PID())
	return float64(after-before) / float64(idleTime), err
}
