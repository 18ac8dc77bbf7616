package watch

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// WatchOptions of Watch.
type Options struct {
	// Recursive watches directories below too, new ones included.
	Recursive bool
	// Queue bounds the events held for a slow reader; 0 means 4096. Beyond it events are dropped, and once the reader has
	// taken those that are held, an Overflow is delivered.
	Queue int
	// Budget bounds what the queues of all watches that share it take; nil means no bound. Beyond it is as beyond Queue.
	Budget *Budget
}

// Watcher delivers events until Close. Watches are in place when Watch returns.
type Watcher interface {
	// Events delivers events; it is closed after Close, or when the watched root itself is gone.
	Events() <-chan Event
	io.Closer
}

// WatchEvent is one change, in fs.watch's terms.
type Event struct {
	// Kind is WatchRename (a name came or went) or WatchChange (content or
	// attributes), or WatchOverflow (events were lost; list again).
	Kind Kind
	// Name is the path relative to the watched directory, without leading slash;
	// of a watched file its base name.
	Name string
}

// WatchKind is a WatchEvent's kind.
type Kind uint8

// The kinds of WatchEvent.
const (
	Rename Kind = iota + 1
	Change
	Overflow
)

// defaultWatchQueue is how many events wait for a slow reader unless WatchOptions says otherwise.
const defaultQueue = 4096

// eventCost is about what a queued event takes besides its name, in bytes: its place in the queue, which may have as much
// spare room again.
const eventCost = 96

// WatchBudget bounds what the queues of several watches take together, in bytes. A nil WatchBudget has no bound. It is safe
// for concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64

	mu sync.Mutex
	// rescanning says that a watch looks at its tree again. The next one may do so from again on.
	rescanning bool
	again      time.Time
}

// maxRescanPause bounds how long the watches of a budget rest after one of them has looked at its tree again.
const maxRescanPause = 10 * time.Second

// rescanPoll is how often a watch asks for its turn to look at its tree again.
const rescanPoll = 250 * time.Millisecond

// beginRescan gives one watch at a time its turn to look at its tree again. Otherwise it returns how long to wait before asking again.
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

// endRescan ends a turn. All watches together spend a tenth of the time in turns.
func (b *Budget) endRescan(took time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rescanning, b.again = false, time.Now().Add(min(9*took, maxRescanPause))
}

// NewWatchBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// take counts a queued event of that name, and reports whether there is room for it.
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

// queuedEvent is an event whose path is joined when it is delivered: until then all watches share the strings.
type queuedEvent struct {
	kind      Kind
	dir, name string
}

// put adds an event about name in the directory dir, and reports whether there was room for it.
func (o *outbox) put(kind Kind, dir, name string) bool {
	if len(o.events) >= o.limit || !o.budget.take(name) {
		return false
	}
	o.events = append(o.events, queuedEvent{kind, dir, name})
	return true
}

// overflow adds an overflow, for which there is always room, unless the newest event is one.
func (o *outbox) overflow() {
	if n := len(o.events); n == 0 || o.events[n-1].kind != Overflow {
		o.events = append(o.events, queuedEvent{kind: Overflow})
	}
}

// next returns where to send the oldest event: nowhere (nil) when there is none.
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

// watchedName is what a watched thing's own events are called: the last
// component of path, "." for the root.
func watchedName(path string) string {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "."
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// joinRel adds a name to a path relative to the watched directory, "" for that itself.
func joinRel(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

// below tells whether rel is top or stands below it.
func below(rel, top string) bool {
	return rel == top || top == "" || strings.HasPrefix(rel, top+"/")
}

// unwatchable tells that a directory below the watched one is passed over: it
// vanished or was replaced, may not be read, or another file system is mounted there.
func unwatchable(err error) bool {
	switch fserr.CodeOf(err) {
	case fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP, fserr.EACCES, fserr.EXDEV:
		return true
	}
	return false
}

// cutRel splits off a relative path's first component.
func cutRel(rel string) (name, rest string) {
	name, rest, _ = strings.Cut(rel, "/")
	return name, rest
}
