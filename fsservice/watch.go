package fsservice

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// watchKeepalive is how long a watch is silent before it sends a sign of life.
	watchKeepalive = 30 * time.Second
	// watchBytes bounds what waits in the queues of all watches of a panel, in bytes.
	watchBytes = 8 << 20
	// maxUnwritten bounds the events of a watch that the transport has, which counts only their bytes.
	maxUnwritten = 16
)

// watches has the RPC that watches.
type watches struct {
	*opener
	budgets watchBudgets
	// overflows counts the overflows that watches have reported.
	overflows atomic.Int64
}

// Watch implements FsService. The gate is open only while the watch is set up: a watch must not keep its context from being deleted,
// which ends the watch.
func (s *watches) Watch(req *ctxfsv1.WatchRequest, stream grpc.ServerStreamingServer[ctxfsv1.WatchResponse]) error {
	ctx := stream.Context()
	budget, release := s.budgets.of(payer(ctx))
	defer release()
	w, err := s.putWatch(ctx, req, watch.Options{Recursive: req.GetRecursive()}, budget)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := stream.Send(&ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Ready{Ready: &ctxfsv1.WatchReady{}}}); err != nil {
		return err
	}
	unwritten := make(chan struct{}, maxUnwritten)
	written := func() { <-unwritten }
	return forward(ctx, w.Events(), func(m *ctxfsv1.WatchResponse) error {
		select {
		case unwritten <- struct{}{}:
			if m.GetOverflow() != nil {
				s.overflows.Add(1)
			}
			return stream.SendMsg(&codec.Outgoing{Message: m, Written: written})
		case <-ctx.Done():
			return fail(ctx.Err(), "watch", "", "")
		}
	})
}

// WatchOverflows returns how many times watches have reported that events were lost.
func (s *watches) WatchOverflows() int64 { return s.overflows.Load() }

// WatchTree watches a directory and those below for a caller in this process, as Watch does. No event names what skip reports, or what is
// below that. The caller must call done. events is closed when the directory itself is gone.
func (s *watches) WatchTree(ctx context.Context, dir string, skip func(name string) bool) (events <-chan watch.Event, done func(), err error) {
	budget, release := s.budgets.of(payer(ctx))
	w, err := s.putWatch(ctx, &ctxfsv1.WatchRequest{Path: dir + "/"}, watch.Options{Recursive: true, Skip: skip}, budget)
	if err != nil {
		release()
		return nil, nil, err
	}
	return w.Events(), func() {
		_ = w.Close() // it has no error
		release()
	}, nil
}

// LastChange returns when a directory, or something below it, was last changed (ctime), for a caller in this process. It leaves out what skip
// reports, and times to come, which another machine's clock may give. It fails with EFBIG if the names that it has to remember take more
// than watchBytes.
func (s *watches) LastChange(ctx context.Context, dir string, skip func(name string) bool) (time.Time, error) {
	budget, release := s.budgets.of(payer(ctx))
	defer release()
	end, err := budget.turn(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer end()
	return onPath(ctx, s.opener, "watch", reads, &ctxfsv1.WatchRequest{Path: dir + "/"}, func(c *call) (time.Time, error) {
		top, err := c.root.Stat(c.path)
		if err != nil {
			return time.Time{}, err
		}
		now, last := time.Now().UnixNano(), int64(0)
		note := func(ns int64) {
			if ns <= now {
				last = max(last, ns)
			}
		}
		note(top.CtimeNs)
		err = c.root.Walk(ctx, c.path, tree.WalkOptions{Stats: true, Reserve: reserveNames}, func(_ string, e rootfs.Entry, err error) error {
			switch {
			case err != nil: // nor can it be watched
			case skip(e.Name):
				return tree.SkipDir
			case e.Stat != nil:
				note(e.Stat.CtimeNs)
			}
			return nil
		})
		return time.Unix(0, last), err
	})
}

func reserveNames(bytes int64) error {
	if bytes > watchBytes {
		return &fserr.Error{Code: fserr.EFBIG, Detail: "a directory has too many entries to be looked at"}
	}
	return nil
}

// payer returns whose budget the watches of a call take from: its panel's, also if a site's visitor calls, else the caller's own.
func payer(ctx context.Context) string {
	id := panels.IdentityFrom(ctx)
	return cmp.Or(id.Panel, id.Owner)
}

// putWatch sets up a watch when it is its turn.
func (s *watches) putWatch(ctx context.Context, req *ctxfsv1.WatchRequest, o watch.Options, budget *ownerBudget) (watch.Watcher, error) {
	o.Budget = budget.Budget
	end, err := budget.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return onPath(ctx, s.opener, "watch", reads, req, func(c *call) (watch.Watcher, error) {
		return c.root.Watch(c.path, o)
	})
}

// turn waits until the owner may walk through a tree. Call end after that.
func (b *ownerBudget) turn(ctx context.Context) (end func(), err error) {
	select {
	case b.setups <- struct{}{}:
		return func() { <-b.setups }, nil
	case <-ctx.Done():
		return nil, fail(ctx.Err(), "watch", "", "")
	}
}

// watchBudgets has a budget for each owner that has watches (payer). The zero watchBudgets has none.
type watchBudgets struct {
	mu sync.Mutex
	by map[string]*ownerBudget
}

type ownerBudget struct {
	*watch.Budget
	// setups has room for the watches of the owner that may be set up at once, and for its other walks (turn).
	setups  chan struct{}
	watches int
}

// of returns the budget of an owner's watches. Call release when the watch is closed.
func (b *watchBudgets) of(owner string) (budget *ownerBudget, release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.by[owner]
	if o == nil {
		if b.by == nil {
			b.by = map[string]*ownerBudget{}
		}
		// Setting up walks the tree; half of the processors are left to others.
		o = &ownerBudget{Budget: watch.NewBudget(watchBytes), setups: make(chan struct{}, max(1, runtime.NumCPU()/2))}
		b.by[owner] = o
	}
	o.watches++
	return o, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if o.watches--; o.watches == 0 {
			delete(b.by, owner)
		}
	}
}

// forward sends events until there are no more, or ctx ends.
func forward(ctx context.Context, events <-chan watch.Event, send func(*ctxfsv1.WatchResponse) error) error {
	quiet := time.NewTimer(watchKeepalive)
	defer quiet.Stop()
	for {
		var msg *ctxfsv1.WatchResponse
		select {
		case <-ctx.Done():
			return fail(ctx.Err(), "watch", "", "")
		case e, ok := <-events:
			if !ok {
				return nil
			}
			msg = watchMessage(e)
		case <-quiet.C:
			msg = &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Keepalive{Keepalive: &ctxfsv1.WatchKeepalive{}}}
		}
		if err := send(msg); err != nil {
			return err
		}
		quiet.Reset(watchKeepalive)
	}
}

func watchMessage(e watch.Event) *ctxfsv1.WatchResponse {
	if e.Kind == watch.Overflow {
		return &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Overflow{Overflow: &ctxfsv1.WatchOverflow{}}}
	}
	event := &ctxfsv1.WatchEvent{EventType: "change"}
	if e.Kind == watch.Rename {
		event.EventType = "rename"
	}
	event.Filename, event.RawFilename = wirePath(e.Name)
	return &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Event{Event: event}}
}
