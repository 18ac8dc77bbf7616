// Package review measures what a review costs, by driver, by the size of the workspace and by how much changed, and what commits and pushes
// cost, in turns with git on the same files. Each server is a real one, asked over its socket.
package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/server"
)

// Options of Run.
type Options struct {
	// Dir is the directory for temporary files, on the disk to measure. Out is the directory for the report; "" writes none.
	Dir, Out string
	// Sizes are the numbers of files of the workspaces in which Few files change.
	Sizes []int
	// Files are those of the workspace in which 10 files change, then ten times as many, up to Most.
	Files, Most int
	// Rounds is how often each is measured; the report has the median.
	Rounds int
}

// few is how many files change in workspaces of several sizes.
const few = 10

// Run measures everything, prints it and, with Options.Out, writes review.md and review.svg.
func Run(ctx context.Context, o Options, stdout, log io.Writer) error {
	f := Figures{Files: o.Files, Rounds: o.Rounds}
	for _, size := range o.Sizes {
		_, _ = fmt.Fprintf(log, "%d files\n", size)
		err := o.measure(ctx, size, log, func(s *stand, driver string) error {
			changed := min(few, size)
			took, err := s.first(ctx, changed)
			if err == nil {
				err = s.turns(func(turn int) error { return s.list(ctx, took, turn, changed) })
			}
			f.Sizes = append(f.Sizes, Row{Files: size, Changed: changed, Driver: driver, Took: took.medians()})
			return err
		})
		if err != nil {
			return fmt.Errorf("%d files: %w", size, err)
		}
	}
	_, _ = fmt.Fprintf(log, "up to %d of %d files changed\n", o.Most, o.Files)
	err := o.measure(ctx, o.Files, log, func(s *stand, driver string) error {
		for changed := min(few, o.Most); changed <= o.Most; changed *= 10 {
			took := samples{}
			if err := s.turns(func(turn int) error { return s.all(ctx, took, turn, changed) }); err != nil {
				return fmt.Errorf("%d changed: %w", changed, err)
			}
			f.Changed = append(f.Changed, Row{Files: o.Files, Changed: changed, Driver: driver, Took: took.medians()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	text := report.Describe(o.Dir) + ".\n\n" + f.Text()
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	return f.write(o.Out, text)
}

// measure calls do with a stand of so many files, for each driver that works here.
func (o Options) measure(ctx context.Context, files int, log io.Writer, do func(s *stand, driver string) error) error {
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		if why := server.OverlayRefusal(ctx, o.Dir); driver == server.DriverOverlay && why != "" {
			_, _ = fmt.Fprintln(log, "overlay is left out:", why)
			continue
		}
		s, err := o.newStand(ctx, driver, files)
		if err == nil {
			err = do(s, driver)
		}
		if err = errors.Join(err, s.close()); err != nil {
			return fmt.Errorf("%s: %w", driver, err)
		}
	}
	return nil
}

// samples are the times of each thing that is measured.
type samples map[string][]time.Duration

// add measures do.
func (s samples) add(name string, do func() error) error {
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s[name] = append(s[name], time.Since(start))
	return nil
}

// medians returns the median of each.
func (s samples) medians() map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, all := range s {
		slices.Sort(all)
		out[name] = all[len(all)/2]
	}
	return out
}

// turns calls do for each round.
func (s *stand) turns(do func(turn int) error) error {
	for turn := range s.rounds {
		if err := do(turn); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) newStand(ctx context.Context, driver string, files int) (*stand, error) {
	dir, err := os.MkdirTemp(o.Dir, "cr")
	if err != nil {
		return &stand{}, err
	}
	s := &stand{dir: dir, rounds: o.Rounds, files: files}
	return s, s.open(ctx, driver)
}
