package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/figure"
)

const (
	// eventsName is the stream of a site's live reload.
	eventsName = "__ctxfs/events"
	// editedName is the file that is changed.
	editedName = "edited.txt"
	// eventTime bounds the wait for an event.
	eventTime = time.Minute
)

// streamFigures are what open event streams cost and do.
type streamFigures struct {
	// Heap and Resident are bytes for each stream, Goroutines their number for each.
	Heap, Resident, Goroutines float64
	// First and Last are how long after a change the first stream and the last report it; medians of all changes.
	First, Last time.Duration
}

// events is an open stream.
type events struct {
	wire *wire
	body *bufio.Reader
}

// streams opens event streams, and measures what they cost and how soon they report changes.
func (s *stand) streams(ctx context.Context) (f streamFigures, err error) {
	_, _ = fmt.Fprintln(s.log, "event streams")
	var open []*events
	defer func() {
		for _, e := range open {
			err = errors.Join(err, e.wire.conn.Close())
		}
	}()
	more := func(n int) error {
		for range n {
			e, err := s.openEvents(ctx)
			if err != nil {
				return err
			}
			open = append(open, e)
		}
		return nil
	}
	if err := more(1); err != nil { // what the first one makes is not counted
		return f, err
	}
	before, resident, err := s.server.Memory(ctx)
	if err != nil {
		return f, err
	}
	if err := more(s.Sizes.Streams); err != nil {
		return f, err
	}
	after, grown, err := s.server.Memory(ctx)
	if err != nil {
		return f, err
	}
	n := float64(s.Sizes.Streams)
	f.Heap = float64(after.Heap+after.Stacks-before.Heap-before.Stacks) / n
	f.Resident = float64(grown-resident) / n
	f.Goroutines = float64(after.Goroutines-before.Goroutines) / n
	f.First, f.Last, err = s.edits(open)
	return f, err
}

func (s *stand) openEvents(ctx context.Context) (*events, error) {
	w, err := s.site.connect(ctx)
	if err != nil {
		return nil, err
	}
	w.scratch = nil
	body, err := w.ask(eventsName, "text/event-stream")
	if err != nil {
		return nil, errors.Join(err, w.conn.Close())
	}
	e := &events{w, bufio.NewReader(body)}
	if err := e.await("retry:"); err != nil {
		return nil, errors.Join(err, w.conn.Close())
	}
	return e, nil
}

// await reads until a line that begins with prefix, and to the end of its event.
func (e *events) await(prefix string) error {
	if err := e.wire.conn.SetReadDeadline(time.Now().Add(eventTime)); err != nil {
		return err
	}
	for found := false; ; {
		line, err := e.body.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("wait for %q: %w", prefix, err)
		}
		found = found || strings.HasPrefix(line, prefix)
		if found && line == "\n" {
			return nil
		}
	}
}

// edits changes a file again and again, each time once all streams have reported the last change.
func (s *stand) edits(open []*events) (first, last time.Duration, err error) {
	var firsts, lasts []time.Duration
	for i := range s.Sizes.Edits {
		took := make([]time.Duration, len(open))
		begin := time.Now()
		var g errgroup.Group
		for j, e := range open {
			g.Go(func() error {
				err := e.await("event: reload")
				took[j] = time.Since(begin)
				return err
			})
		}
		name := filepath.Join(s.server.Folder(), editedName)
		if err := errors.Join(os.WriteFile(name, fmt.Appendf(nil, "%d\n", i), 0o644), g.Wait()); err != nil {
			return 0, 0, err
		}
		firsts, lasts = append(firsts, figure.Quantile(took, 0)), append(lasts, 0)
		for _, d := range took {
			firsts[i], lasts[i] = min(firsts[i], d), max(lasts[i], d)
		}
	}
	return figure.Median(firsts), figure.Median(lasts), nil
}
