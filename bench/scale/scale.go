package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	process *child.Process
	host    *client.Client
	address string
	folder  string
	fs      *client.FS
	log     io.Writer
}

// Run measures everything, prints it and, with Options.Out, writes scale.md and scale.svg.
func Run(ctx context.Context, o Options, stdout, log io.Writer) (err error) {
	scratch, err := os.MkdirTemp(o.Dir, "cs")
	if err != nil {
		return err
	}
	b := &bench{log: log}
	defer func() { err = errors.Join(err, b.close(), os.RemoveAll(scratch)) }()
	if err := b.start(ctx, o.Self, scratch); err != nil {
		return err
	}
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

func (b *bench) start(ctx context.Context, self, scratch string) (err error) {
	workspace := filepath.Join(scratch, "w")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return err
	}
	if b.process, err = child.Start(scratch, self, "peer", "scale", "-", workspace); err != nil {
		return err
	}
	if b.address, err = b.process.Line(ctx, readyPrefix); err != nil {
		return err
	}
	if b.host, err = client.Dial(ctx, client.WithAddress(b.address)); err != nil {
		return err
	}
	p, err := b.host.OpenPanel(ctx, "panels/scale")
	if err != nil {
		return err
	}
	b.fs = p.FS()
	info, err := b.host.Info(ctx, p.ContextID())
	b.folder = info.GetFolder()
	return err
}

func (b *bench) close() error {
	if b.host != nil {
		_ = b.host.Close()
	}
	if b.process == nil {
		return nil
	}
	return b.process.Stop()
}

// memory is the server's account of itself, and the system's.
func (b *bench) memory(ctx context.Context) (m Memory, resident int64, err error) {
	line, err := b.process.Ask(ctx, ask, memoryPrefix)
	if err != nil {
		return m, 0, err
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return m, 0, err
	}
	resident, err = child.Resident(b.process.PID())
	return m, resident, err
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
