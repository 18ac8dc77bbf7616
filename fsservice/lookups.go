package fsservice

import (
	"context"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// lookups is what the operations of one message of a session share: questions that were
// asked together look into a directory without walking there again.
type lookups struct {
	// message numbers the messages; 0 while what is done came alone.
	message atomic.Uint64
	// free is the run of questions, while no operation uses it.
	free atomic.Pointer[lookupsRun]
}

type lookupsRun struct {
	rootfs.Lookups
	root    rootfs.Root
	message uint64
}

type lookupsKey struct{}

func withLookups(ctx context.Context, l *lookups) context.Context {
	return context.WithValue(ctx, lookupsKey{}, l)
}

// begin says that what is done from now on was asked together.
func (l *lookups) begin(message uint64) { l.message.Store(message) }

// end says that what is done from now on was not.
func (l *lookups) end() {
	l.message.Store(0)
	if run := l.free.Swap(nil); run != nil {
		run.Close()
	}
}

// attributes asks for the attributes of the call's path, following a final link or not.
func (c *call) attributes(follow bool) (rootfs.Stat, error) {
	if l, ok := c.Value(lookupsKey{}).(*lookups); ok {
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

// take returns the run of the present message; nil when there is none.
func (l *lookups) take(root rootfs.Root) *lookupsRun {
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

// give gives a run back. One that comes late, when there is another or its message is over, is closed.
func (l *lookups) give(run *lookupsRun) {
	if run.message != l.message.Load() || !l.free.CompareAndSwap(nil, run) {
		run.Close()
	}
}
