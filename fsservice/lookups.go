package fsservice

import (
	"context"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Lookups is shared by the calls of a session. Calls that came in one message and ask about a directory walk there once.
type Lookups struct {
	// message is the number of the present message; 0 while calls come alone.
	message atomic.Uint64
	// last is the number of the last message.
	last uint64
	// free is the run of lookups of the present message, while no call uses it.
	free atomic.Pointer[lookupsRun]
}

type lookupsRun struct {
	rootfs.Lookups
	root    rootfs.Root
	message uint64
}

type lookupsKey struct{}

// WithLookups returns a context for calls that share the Lookups.
func WithLookups(ctx context.Context) (context.Context, *Lookups) {
	l := &Lookups{}
	return context.WithValue(ctx, lookupsKey{}, l), l
}

// Begin says that the calls that start from now on came in one message. Begin and End are called by one goroutine at a time.
func (l *Lookups) Begin() {
	l.last++
	l.message.Store(l.last)
}

// End says that they did not.
func (l *Lookups) End() {
	l.message.Store(0)
	if run := l.free.Swap(nil); run != nil {
		run.Close()
	}
}

// attributes returns the attributes of the call's path. It follows a final link only if follow is set.
func (c *call) attributes(follow bool) (rootfs.Stat, error) {
	if l, ok := c.Value(lookupsKey{}).(*Lookups); ok {
		if run := l.take(c.root); run != nil {
			defer l.give(run)
			return attributesIn(run, c.path, follow)
		}
	}
	return attributesIn(c.root, c.path, follow)
}

func attributesIn(in interface {
	Stat(path string) (rootfs.Stat, error)
	Lstat(path string) (rootfs.Stat, error)
}, path string, follow bool,
) (rootfs.Stat, error) {
	if follow {
		return in.Stat(path)
	}
	return in.Lstat(path)
}

// take returns the run of the present message; nil when calls come alone.
func (l *Lookups) take(root rootfs.Root) *lookupsRun {
	message := l.message.Load()
	run := l.free.Swap(nil)
	if run != nil && (run.message != message || run.root != root) {
		run.Close()
		run = nil
	}
	if run == nil && message != 0 {
		run = &lookupsRun{root.Lookups(), root, message}
	}
	return run
}

// give takes a run back, or closes it when there is another one or its message is over.
func (l *Lookups) give(run *lookupsRun) {
	if run.message != l.message.Load() || !l.free.CompareAndSwap(nil, run) {
		run.Close()
	}
}
