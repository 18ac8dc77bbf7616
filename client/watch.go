package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// EventKind is what an Event says.
type EventKind string

// The kinds of events; the first two are fs.watch's.
const (
	// EventRename: a name came or went.
	EventRename EventKind = "rename"
	// EventChange: content or attributes changed.
	EventChange EventKind = "change"
	// EventOverflow: events were lost; list again.
	EventOverflow EventKind = "overflow"
)

// Event is a change.
type Event struct {
	Kind EventKind
	// Name is relative to what is watched; "" for an overflow.
	Name string
}

// Watcher reports changes until it is closed. Read Events, or range over All.
type Watcher struct {
	events chan Event
	cancel context.CancelFunc
	wg     sync.WaitGroup
	err    error
}

// Watch reports changes of a file or directory, with recursive also of what is below. The
// watch is in place when it returns: later changes are reported.
func (f *FS) Watch(name string, recursive bool) (*Watcher, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	p, raw := f.wire(name)
	s, err := f.rpc.Watch(ctx, &ctxfsv1.WatchRequest{ContextId: f.id, Path: p, RawPath: raw, Recursive: recursive})
	if err == nil {
		err = awaitWatch(s)
	}
	if err != nil {
		cancel()
		return nil, f.pathError("watch", name, err)
	}
	w := &Watcher{events: make(chan Event), cancel: cancel}
	w.wg.Go(func() {
		defer close(w.events)
		w.err = f.pathError("watch", name, w.pump(ctx, s))
	})
	return w, nil
}

type watchStream interface {
	Recv() (*ctxfsv1.WatchResponse, error)
}

func awaitWatch(s watchStream) error {
	for {
		r, err := s.Recv()
		if err != nil || r.GetReady() != nil {
			return err
		}
	}
}

func (w *Watcher) pump(ctx context.Context, s watchStream) error {
	for {
		r, err := s.Recv()
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ev, ok := eventOf(r)
		if !ok {
			continue
		}
		select {
		case w.events <- ev:
		case <-ctx.Done():
			return nil
		}
	}
}

func eventOf(r *ctxfsv1.WatchResponse) (Event, bool) {
	if e := r.GetEvent(); e != nil {
		return Event{Kind: EventKind(e.GetEventType()), Name: untwin(e.GetFilename(), e.GetRawFilename())}, true
	}
	return Event{Kind: EventOverflow}, r.GetOverflow() != nil
}

// Events gives the changes; it closes when the watch ends, after which Err says why.
func (w *Watcher) Events() <-chan Event { return w.events }

// Err is why the watch ended; nil when it was closed. Call it after Events has closed.
func (w *Watcher) Err() error { return w.err }

// All gives the changes until the watch ends; its error comes last.
func (w *Watcher) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for ev := range w.events {
			if !yield(ev, nil) {
				return
			}
		}
		if w.err != nil {
			yield(Event{}, w.err)
		}
	}
}

// Close ends the watch and waits until it has.
func (w *Watcher) Close() error {
	w.cancel()
	w.wg.Wait()
	return nil
}
