package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxSubscriptions bounds the resources that are watched for a session.
	maxSubscriptions = 64
	// calm is the least time between two notifications of a resource.
	calm = 250 * time.Millisecond
	// rewatch is how long a watch that has ended waits before it begins again, and maxRewatch how long it waits at most.
	rewatch, maxRewatch = 500 * time.Millisecond, 30 * time.Second
)

// subscriptions are the watches of a session, by URI.
type subscriptions struct {
	mu   sync.Mutex
	stop map[string]context.CancelFunc
	// ctx ends with the session.
	ctx    context.Context //nolint:containedctx // it belongs to all watches
	end    context.CancelFunc
	active sync.WaitGroup
}

func (u *subscriptions) init() {
	u.ctx, u.end = context.WithCancel(context.Background())
	u.stop = map[string]context.CancelFunc{}
}

// close ends the watches and waits for them.
func (u *subscriptions) close() {
	u.mu.Lock()
	u.end()
	u.mu.Unlock()
	u.active.Wait()
}

// add returns the context of a new watch. It returns nil if there is one for the URI.
func (u *subscriptions) add(uri string) (context.Context, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.stop[uri] != nil:
		return nil, nil
	case u.ctx.Err() != nil:
		return nil, u.ctx.Err()
	case len(u.stop) >= maxSubscriptions:
		return nil, fmt.Errorf("the session has %d subscriptions, which is the most; end one first", maxSubscriptions)
	}
	ctx, stop := context.WithCancel(u.ctx) //nolint:gosec // remove and close call it
	u.stop[uri] = stop
	u.active.Add(1)
	return ctx, nil
}

func (u *subscriptions) remove(uri string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if stop := u.stop[uri]; stop != nil {
		stop()
		delete(u.stop, uri)
	}
}

// subscribe watches a resource until the client unsubscribes or the session ends. It returns once the watch is in place.
func (s *Server) subscribe(caller context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	name, err := s.fileOf(uri)
	if err != nil {
		return err
	}
	ctx, err := s.subscriptions.add(uri)
	if ctx == nil {
		return err
	}
	w := &resourceWatch{s: s, uri: uri, name: name, changed: make(chan struct{}, 1)}
	begun := make(chan error, 1)
	go func() {
		defer s.subscriptions.active.Done()
		w.run(ctx, begun)
	}()
	select {
	case err = <-begun:
	case <-caller.Done():
		err = caller.Err()
	}
	if err == nil {
		return nil
	}
	s.subscriptions.remove(uri)
	if codeOf(err) == fserr.ENOENT {
		return sdk.ResourceNotFoundError(uri)
	}
	return explained(err)
}

func (s *Server) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	s.subscriptions.remove(req.Params.URI)
	return nil
}

// errNoWatch is the error of a watch that ended before it began.
var errNoWatch = errors.New("the watch ended at once; subscribe again")

// resourceWatch notifies a session of the changes of a resource.
type resourceWatch struct {
	s         *Server
	uri, name string
	// changed has an element if the session must be notified.
	changed chan struct{}
}

// run watches until ctx ends. It sends begun the error of the first attempt, and returns if that failed. A watch that ends, since the file
// was removed or the context was restored, is followed by another one and by a notification.
func (w *resourceWatch) run(ctx context.Context, begun chan<- error) {
	var notifying sync.WaitGroup
	defer notifying.Wait()
	for first, pause := true, rewatch; ; pause = min(2*pause, maxRewatch) {
		ready := false
		err := w.watch(ctx, func() {
			if ready = true; first {
				notifying.Go(func() { w.notify(ctx) })
				begun <- nil
				return
			}
			w.change()
		})
		switch {
		case ready:
			pause = rewatch
			w.change()
		case first:
			begun <- cmp.Or(err, errNoWatch)
			return
		}
		if first = false; !wait(ctx, pause) {
			return
		}
	}
}

// watch calls ready once the watch is in place, and returns why it ended.
func (w *resourceWatch) watch(ctx context.Context, ready func()) error {
	stream, err := w.s.fs.Watch(ctx, &ctxfsv1.WatchRequest{ContextId: w.s.context, Path: w.name})
	return each(stream, err, func(r *ctxfsv1.WatchResponse) error {
		switch {
		case r.GetReady() != nil:
			ready()
		case r.GetKeepalive() == nil:
			w.change()
		}
		return nil
	})
}

// change asks for a notification.
func (w *resourceWatch) change() {
	select {
	case w.changed <- struct{}{}:
	default: // one is due already
	}
}

// notify notifies the session of changes, with pauses, until ctx ends.
func (w *resourceWatch) notify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		// It fails for a session that has ended.
		_ = w.s.SDK.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: w.uri})
		if !wait(ctx, calm) {
			return
		}
	}
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
