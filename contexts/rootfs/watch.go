package rootfs

import (
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// defaultWatchQueue is how many events wait for a slow reader unless WatchOptions says otherwise.
const defaultWatchQueue = 4096

// outbox holds events until their reader takes them.
type outbox struct {
	limit  int
	events []WatchEvent
}

// put adds an event; when the box is full it is dropped, and an overflow stands in its place.
func (o *outbox) put(e WatchEvent) {
	full := len(o.events) >= o.limit
	if full || e.Kind == WatchOverflow {
		e = WatchEvent{Kind: WatchOverflow}
		if n := len(o.events); n > 0 && o.events[n-1] == e {
			return
		}
	}
	o.events = append(o.events, e)
}

// next returns where to send the oldest event: nowhere (nil) when there is none.
func (o *outbox) next(to chan WatchEvent) (chan<- WatchEvent, WatchEvent) {
	if len(o.events) == 0 {
		return nil, WatchEvent{}
	}
	return to, o.events[0]
}

// sent drops the oldest event.
func (o *outbox) sent() { o.events = o.events[1:] }

func (o WatchOptions) queue() int {
	if o.Queue > 0 {
		return o.Queue
	}
	return defaultWatchQueue
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
