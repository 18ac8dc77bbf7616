// Package watch reports changes in a tree of rootfs, in the terms of fs.watch: by inotify on Linux, by fsnotify elsewhere. On Linux it
// adds each watch by the descriptor of a directory that it opened in the tree, never by a path.
package watch

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// Options of Start.
type Options struct {
	// Recursive watches the directories below too, new ones included.
	Recursive bool
	// Queue bounds the events that wait for a slow reader; 0 means 4096. Further events are lost, and an Overflow follows those that wait.
	Queue int
	// Budget bounds the memory of the queues of all watches that share it; nil means no bound. Further events are lost, as with Queue.
	Budget *Budget
	// Barred reports names that no event names; nil means none.
	Barred func(name string) bool
	// Skip reports names that no event names, and whose directories are not watched; nil means none.
	Skip func(name string) bool
}

func (o Options) hides(name string) bool {
	return node.Reserved(name) || o.Barred != nil && o.Barred(name) || o.skips(name)
}

func (o Options) skips(name string) bool { return o.Skip != nil && o.Skip(name) }

// Watcher delivers events until Close. All watches are in place when Start returns.
type Watcher interface {
	// Events returns the channel of events. It is closed after Close, or when the watched file or directory itself is gone.
	Events() <-chan Event
	io.Closer
}

// Event is one change.
type Event struct {
	// Kind is Rename (a name appeared or disappeared), Change (content or attributes) or Overflow (events were lost; list again).
	Kind Kind
	// Name is the path relative to the watched directory, without a leading slash, or a watched file's base name.
	Name string
}

// Kind is an Event's kind.
type Kind uint8

// The kinds of Event.
const (
	Rename Kind = iota + 1
	Change
	Overflow
)

// defaultQueue is the default of Options.Queue.
const defaultQueue = 4096

// eventCost estimates the memory of a queued event besides its name, in bytes: its place in a queue that may be half empty.
const eventCost = 96

// Budget bounds the memory that the queues of several watches take together, in bytes. A nil Budget has no bound. It is safe for
// concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64

	mu sync.Mutex
	// rescanning says that a watch scans its tree again. The next one may do so from the time again on.
	rescanning bool
	again      time.Time
}

// maxRescanPause bounds how long the watches of a budget pause after one of them has scanned its tree again.
const maxRescanPause = 10 * time.Second

// rescanPoll is how often a watch asks for its turn to scan its tree again.
const rescanPoll = 250 * time.Millisecond

// beginRescan gives one watch at a time its turn to scan its tree again. To others it returns how long to wait before they ask again.
func (b *Budget) beginRescan() (wait time.Duration) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rescanning || time.Now().Before(b.again) {
		return rescanPoll
	}
	b.rescanning = true
	return 0
}

// endRescan ends a turn. All watches together spend at most a tenth of the time in turns.
func (b *Budget) endRescan(took time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rescanning, b.again = false, time.Now().Add(min(9*took, maxRescanPause))
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// take counts a queued event of that name. It returns false if there is no room for it.
func (b *Budget) take(name string) bool {
	if b == nil {
		return true
	}
	cost := int64(eventCost + len(name))
	if b.used.Add(cost) > b.limit {
		b.used.Add(-cost)
		return false
	}
	return true
}

// give ends what take began.
func (b *Budget) give(name string) {
	if b != nil {
		b.used.Add(-int64(eventCost + len(name)))
	}
}

// outbox holds events until their reader takes them.
type outbox struct {
	limit  int
	budget *Budget
	events []queuedEvent
}

// queuedEvent is an event whose path is joined when it is delivered. Until then all watches share the strings.
type queuedEvent struct {
	kind      Kind
	dir, name string
}

// put adds an event about name in the directory dir. It returns false if there is no room for it.
func (o *outbox) put(kind Kind, dir, name string) bool {
	if len(o.events) >= o.limit || !o.budget.take(name) {
		return false
	}
	o.events = append(o.events, queuedEvent{kind, dir, name})
	return true
}

// overflow adds an Overflow, unless the newest event is one. There is always room for it.
func (o *outbox) overflow() {
	if n := len(o.events); n == 0 || o.events[n-1].kind != Overflow {
		o.events = append(o.events, queuedEvent{kind: Overflow})
	}
}

// next returns the oldest event and the channel to send it to, nil if there is none.
func (o *outbox) next(to chan Event) (chan<- Event, Event) {
	if len(o.events) == 0 {
		return nil, Event{}
	}
	e := o.events[0]
	return to, Event{Kind: e.kind, Name: joinRel(e.dir, e.name)}
}

// sent drops the oldest event. An empty outbox takes no memory.
func (o *outbox) sent() {
	if e := o.events[0]; e.kind != Overflow {
		o.budget.give(e.name)
	}
	o.events[0] = queuedEvent{}
	if o.events = o.events[1:]; len(o.events) == 0 {
		o.events = nil
	}
}

// clear drops all events.
func (o *outbox) clear() {
	for len(o.events) > 0 {
		o.sent()
	}
}

func (o Options) queue() int {
	if o.Queue > 0 {
		return o.Queue
	}
	return defaultQueue
}

// watchedName returns the name for events about the watched file or directory itself: the last component of path, "." for the root.
func watchedName(path string) string {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "."
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// joinRel adds a name to a path relative to the watched directory, which is "".
func joinRel(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

// below reports whether rel is top or is below it.
func below(rel, top string) bool {
	return rel == top || top == "" || strings.HasPrefix(rel, top+"/")
}

// unwatchable reports whether err means that a directory below the watched one is skipped: it vanished, was replaced, may not be read, or
// is a mount point.
func unwatchable(err error) bool {
	switch fserr.CodeOf(err) {
	case fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP, fserr.EACCES, fserr.EXDEV:
		return true
	}
	return false
}

// cutRel splits a relative path after its first component.
func cutRel(rel string) (name, rest string) {
	name, rest, _ = strings.Cut(rel, "/")
	return name, rest
}
