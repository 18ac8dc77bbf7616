// Package review measures what a review costs, by driver, by the size of the workspace and by how much changed, in turns with git
// on the same files. Each server is a real one, asked over its socket.
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
			took, err := s.list(ctx, driver, min(few, size))
			f.Sizes = append(f.Sizes, Row{Files: size, Changed: min(few, size), Driver: driver, Took: took})
			return err
		})
		if err != nil {
			return fmt.Errorf("%d files: %w", size, err)
		}
	}
	_, _ = fmt.Fprintf(log, "up to %d of %d files changed\n", o.Most, o.Files)
	err := o.measure(ctx, o.Files, log, func(s *stand, driver string) error {
		for changed := min(few, o.Most); changed <= o.Most; changed *= 10 {
			took, err := s.all(ctx, driver, changed)
			if err != nil {
				return fmt.Errorf("%d changed: %w", changed, err)
			}
			f.Changed = append(f.Changed, Row{Files: o.Files, Changed: changed, Driver: driver, Took: took})
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

// median returns the median of so many runs.
func (s *stand) median(do func() (time.Duration, error)) (time.Duration, error) {
	all := make([]time.Duration, s.rounds)
	for i := range all {
		var err error
		if all[i], err = do(); err != nil {
			return 0, err
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// timed returns how long do takes.
func timed(do func() error) (time.Duration, error) {
	start := time.Now()
	err := do()
	return time.Since(start), err
}

func (o Options) newStand(ctx context.Context, driver string, files int) (*stand, error) {
	dir, err := os.MkdirTemp(o.Dir, "cr")
	if err != nil {
		return &stand{}, err
	}
	s := &stand{dir: dir, rounds: o.Rounds, files: files}
	return s, s.open(ctx, driver)
}
