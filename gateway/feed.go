package gateway

import (
	"context"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/sites"
)

const (
	// gather is how long changes are collected before a page is reloaded. An editor's save is a few events.
	gather = 50 * time.Millisecond
	// calm is the least time between two events of a site. A build that runs does not reload the page for each of its files.
	calm = 250 * time.Millisecond
	// linger is how long a watch stays after its last listener left: a page that is reloaded comes back.
	linger = 5 * time.Second
	// rewatch is how long a watch whose directory is gone waits before it looks again. Builds remove their output and make it anew.
	rewatch = 500 * time.Millisecond
)

// The kinds of events.
const (
	eventReload = "reload"
	eventCSS    = "css"
)

// event is what a page listens for: all that was seen until a time needs no more than its kind says.
type event struct {
	kind string
	at   time.Time
}

// feeds are the watches of sites whose pages listen for changes: one of each site, however many pages listen.
type feeds struct {
	g  *Gateway
	mu sync.Mutex
	by map[[32]byte]*feed
	// watches counts the goroutines that watch.
	watches atomic.Int64
}

// feed is the watch of a site. Its goroutine gathers changes, and sends their kind to the listeners.
type feed struct {
	site sites.Site
	stop context.CancelFunc
	// ready is closed when the watch is in place, or when it could not be. Then failed is set.
	ready  chan struct{}
	failed error
	// begun is when the watch was in place. unknown says that it is not known whether something was changed shortly before that. Both are set
	// before ready is closed.
	begun   time.Time
	unknown bool
	// The rest is guarded by feeds.mu. changed is when the last change was seen, or made before the watch was in place.
	listeners map[chan event]bool
	changed   time.Time
	idle      *time.Timer
}

// Watches returns how many trees are watched for pages that reload.
func (g *Gateway) Watches() int { return int(g.feeds.watches.Load()) }

// listen returns a channel of a site's events. A listener that is slow gets one for several. If something was changed since a
// time, there is an event at once; certain asks for one also if that is not known. The caller must call leave. listen fails if the site's
// root cannot be watched. ctx is a visitor's call.
func (fs *feeds) listen(ctx context.Context, site sites.Site, since time.Time, certain bool) (events <-chan event, leave func(), err error) {
	f, listener, ok := fs.join(ctx, site)
	if !ok {
		return nil, nil, errStopping
	}
	leave = func() { fs.leave(f, listener) }
	select {
	case <-f.ready:
		err = f.failed
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.changed.After(since) || certain && f.unknown && f.begun.After(since) {
		offer(listener, event{eventReload, time.Now()})
	}
	return listener, leave, nil
}

// join adds a listener to the feed of a site, which begins if there is none. It returns false while the gateway stops.
func (fs *feeds) join(ctx context.Context, site sites.Site) (*feed, chan event, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.by[site.Hash]
	if f == nil {
		if !fs.g.requests.enter() {
			return nil, nil, false
		}
		f = &feed{site: site, ready: make(chan struct{}), listeners: map[chan event]bool{}}
		f.idle = time.AfterFunc(linger, func() { fs.expire(f) })
		// The watch outlives the call that began it. Those who listen end with the site.
		ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		ended := context.AfterFunc(fs.g.ending, f.stop)
		fs.by[site.Hash] = f
		go func() {
			defer fs.g.requests.leave()
			defer ended()
			fs.watches.Add(1)
			defer fs.watches.Add(-1)
			fs.run(ctx, f)
		}()
	}
	f.idle.Stop()
	listener := make(chan event, 1)
	f.listeners[listener] = true
	return f, listener, true
}

func (fs *feeds) leave(f *feed, listener chan event) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if delete(f.listeners, listener); len(f.listeners) == 0 {
		f.idle.Reset(linger)
	}
}

// expire ends a feed that has no listener.
func (fs *feeds) expire(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(f.listeners) == 0 {
		fs.end(f)
	}
}

// end forgets a feed and stops its watch. fs.mu is held.
func (fs *feeds) end(f *feed) {
	if fs.by[f.site.Hash] == f {
		delete(fs.by, f.site.Hash)
	}
	f.idle.Stop()
	f.stop()
}

// run watches the site's root until ctx ends. A watch that ends, as with the generation of the context, is followed by another one and by
// an event.
func (fs *feeds) run(ctx context.Context, f *feed) {
	defer func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.end(f)
	}()
	for first := true; ; {
		events, done, err := fs.g.cfg.Files.WatchTree(ctx, f.site.Options.Root, f.skips)
		switch {
		case first:
			f.failed = err
			fs.look(ctx, f)
			close(f.ready)
			if err != nil {
				return
			}
			first = false
		case err == nil:
			fs.seen(f)
			fs.tell(f, eventReload)
		}
		if err == nil {
			fs.follow(ctx, f, events)
			done()
		} else if !wait(ctx, rewatch) {
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// look finds when something was changed last before the watch was in place, which nobody saw: pages listen only while they are visible.
func (fs *feeds) look(ctx context.Context, f *feed) {
	if f.failed != nil {
		return
	}
	f.begun = time.Now()
	changed, err := fs.g.cfg.Files.LastChange(ctx, f.site.Options.Root, f.skips)
	f.unknown = err != nil
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.changed = changed
}

// wait returns false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// skips reports the names that pages do not depend on.
func (f *feed) skips(name string) bool {
	return name == "node_modules" || hides(f.site.Options, name)
}

// follow gathers events, and tells the listeners their kind, until the watch ends.
func (fs *feeds) follow(ctx context.Context, f *feed, events <-chan watch.Event) {
	kind := ""
	var told time.Time
	due := time.NewTimer(gather)
	due.Stop()
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				return
			}
			fs.seen(f)
			if kind == "" {
				due.Reset(max(gather, calm-time.Since(told)))
			}
			if e.Kind == watch.Overflow || path.Ext(e.Name) != ".css" {
				kind = eventReload
			} else if kind == "" {
				kind = eventCSS
			}
		case <-due.C:
			fs.tell(f, kind)
			kind, told = "", time.Now()
		}
	}
}

// seen records that something was changed just now.
func (fs *feeds) seen(f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.changed = time.Now()
}

// tell sends an event to all listeners.
func (fs *feeds) tell(f *feed, kind string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	e := event{kind, time.Now()}
	for listener := range f.listeners {
		offer(listener, e)
	}
}

// offer puts an event into a listener's channel. If one is there already, both become a reload, unless they are the same. feeds.mu is held,
// so that nobody else sends.
func offer(listener chan event, e event) {
	select {
	case listener <- e:
		return
	case old := <-listener:
		if old.kind != e.kind {
			e.kind = eventReload
		}
	}
	listener <- e
}
