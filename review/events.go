package review

import "context"

// EventKind is a step of a review.
type EventKind int

// The steps, in the order of the proto's.
const (
	EventReady EventKind = iota
	EventSubmitted
	EventDecided
	EventApplied
	EventDiscarded
	EventUndone
	EventOverflow
	EventRebased
)

// Event says what happened to a review.
type Event struct {
	Kind    EventKind
	Journal int64
}

// eventsHeld is how many events wait for a watcher that does not receive.
const eventsHeld = 64

// Watch calls f for each step of a context's review, until ctx ends or f fails. It begins with EventReady.
func (r *Reviews) Watch(ctx context.Context, id string, f func(Event) error) error {
	ch := make(chan Event, eventsHeld)
	r.mu.Lock()
	if r.watchers[id] == nil {
		r.watchers[id] = map[chan Event]bool{}
	}
	r.watchers[id][ch] = true
	r.mu.Unlock()
	defer r.unwatch(id, ch)
	ch <- Event{Kind: EventReady}
	for {
		select {
		case e := <-ch:
			if err := f(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Reviews) unwatch(id string, ch chan Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.watchers[id], ch)
	if len(r.watchers[id]) == 0 {
		delete(r.watchers, id)
	}
}

// tell passes an event to the watchers. If a watcher's channel is full, EventOverflow replaces the oldest event in it.
func (r *Reviews) tell(id string, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ch := range r.watchers[id] {
		select {
		case ch <- e:
		default:
			select {
			case <-ch:
			default:
			}
			ch <- Event{Kind: EventOverflow} // only tell sends, and it holds the lock
		}
	}
}
