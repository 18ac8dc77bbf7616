package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/client"
)

const (
	// feedKills is how often the server is killed while panels write and a consumer reads.
	feedKills = 4
	// feedWriters is how many panels write at once.
	feedWriters = 3
	// feedWrites is how many writes are answered before each kill, by all panels.
	feedWrites = 150
)

// consumer reads the feed of a context. What it keeps survives it: the cursor of what it has dealt with.
type consumer struct {
	cursor string
	// paths are those of the changes, in the order in which they came.
	paths    []string
	sequence int64
	stops    int
}

// take reads until stop says that the consumer is killed, or the feed ends.
func (c *consumer) take(f *client.FS, once bool, stop func() bool) error {
	for n, err := range f.Feed(client.FeedOptions{Cursor: c.cursor, Once: once}) {
		if err != nil {
			return err
		}
		switch n.Kind {
		case client.NoticeReset:
			return &wrongRead{"the feed was reset: " + n.Reason}
		case client.NoticeChange:
			if c.sequence != 0 && n.Change.Sequence != c.sequence+1 {
				return &wrongRead{fmt.Sprintf("change %d follows change %d", n.Change.Sequence, c.sequence)}
			}
			c.sequence = n.Change.Sequence
			if n.Change.Operation == "WriteFile" {
				c.paths = append(c.paths, n.Change.Path)
			}
		}
		c.cursor = n.Cursor
		if stop() {
			c.stops++
			return nil
		}
	}
	return nil
}

// lives reads until the server is gone, and is killed at any moment. It returns what is wrong with the feed.
func (c *consumer) lives(ctx context.Context, f *client.FS) error {
	for ctx.Err() == nil {
		err := c.take(f, false, func() bool { return rand.IntN(40) == 0 })
		if _, is := errors.AsType[*wrongRead](err); is {
			return err
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// feedWriter writes files with numbers, one after the other. Panels share a context.
type feedWriter struct {
	name string
	next int
	// answered are the paths whose writes were answered.
	answered []string
}

// write writes until the server is gone. It closes enough when all writers have enough answers.
func (w *feedWriter) write(f *client.FS, answers *atomic.Int64, enough chan<- struct{}) {
	for {
		p := fmt.Sprintf("/%s/%d", w.name, w.next)
		w.next++
		if err := f.WriteFile(p, []byte(w.name), 0o644); err != nil {
			return
		}
		w.answered = append(w.answered, p)
		if answers.Add(1) == feedWrites {
			close(enough)
		}
	}
}

// TestFeedOverKills kills the server again and again under writers, and the consumer at any moment. The consumer has each write that was
// answered once, and those of each writer in order.
func TestFeedOverKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/workspace"
	must(t, os.Mkdir(dir, 0o755))
	reader := &consumer{}
	writers := make([]*feedWriter, feedWriters)
	for i := range writers {
		writers[i] = &feedWriter{name: fmt.Sprintf("w%d", i)}
	}
	for range feedKills {
		feedLife(t, dir, reader, writers)
	}
	p, err := start(dir, "copy")
	must(t, err)
	c, err := p.dial(t.Context())
	must(t, err)
	must(t, reader.take(c.Context("ctx_shared").With(t.Context()), true, func() bool { return false }))
	must(t, c.Close())
	must(t, p.end(syscall.SIGTERM))
	compareFeed(t, reader, writers)
}

// feedLife is that of one server, until it is killed.
func feedLife(t *testing.T, dir string, reader *consumer, writers []*feedWriter) {
	t.Helper()
	p, err := start(dir, "copy")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), lifeTime)
	defer cancel()
	c, err := p.dial(ctx)
	must(t, err)
	_, err = c.EnsureContext(ctx, "ctx_shared", nil)
	must(t, err)
	f := c.Context("ctx_shared").With(ctx)
	if reader.cursor == "" {
		for _, w := range writers {
			must(t, f.Mkdir(w.name, 0o755))
		}
		must(t, reader.take(f, true, func() bool { return false }))
	}
	var answers atomic.Int64
	enough, wrong := make(chan struct{}), make(chan error, 1)
	var working sync.WaitGroup
	for _, w := range writers {
		working.Go(func() { w.write(f, &answers, enough) })
	}
	working.Go(func() { wrong <- reader.lives(ctx, f) })
	select {
	case <-enough:
	case <-ctx.Done():
	}
	must(t, p.end(os.Kill))
	working.Wait()
	must(t, <-wrong)
	must(t, ctx.Err())
	_ = c.Close() // its server is gone
}

// compareFeed compares what the consumer has with what was answered.
func compareFeed(t *testing.T, reader *consumer, writers []*feedWriter) {
	t.Helper()
	seen, at, answered := map[string]int{}, map[string]int{}, 0
	for _, p := range reader.paths {
		seen[p]++
		name, number, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		var n int
		_, err := fmt.Sscan(number, &n)
		must(t, err)
		if last, any := at[name]; any && n <= last {
			t.Errorf("%s came after number %d of the same writer", p, last)
		}
		at[name] = n
	}
	for _, w := range writers {
		answered += len(w.answered)
		for _, p := range w.answered {
			if seen[p] != 1 {
				t.Errorf("%s was answered, and is in the feed %d times", p, seen[p])
			}
		}
	}
	t.Logf("%d writes were answered and %d are in the feed; the consumer was killed %d times", answered, len(reader.paths), reader.stops)
	if answered < feedKills*feedWrites || reader.stops == 0 {
		t.Errorf("too little happened: %d answers, %d kills of the consumer", answered, reader.stops)
	}
}
