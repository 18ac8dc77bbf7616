package client

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// watchQueue is how many events wait for a slow reader; then an overflow takes the place of what follows.
const watchQueue = 1024

// Watch implements ctxfsv1.FsServiceClient: by the session while that takes more watches,
// else as an RPC of its own.
func (c *fsClient) Watch(ctx context.Context, in *ctxfsv1.WatchRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[ctxfsv1.WatchResponse], error) {
	for try := 1; ; try++ {
		w, err := c.watch(ctx, in)
		switch {
		case errors.Is(err, errNoSession):
			return c.FsServiceClient.Watch(ctx, in, opts...)
		case err == nil:
			return w, nil
		case !again(err, func() bool { return true }, try):
			return nil, err
		}
	}
}

// watch begins a watch on a session and waits for its first message.
func (c *fsClient) watch(ctx context.Context, in *ctxfsv1.WatchRequest) (*sessionWatch, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	w, err := s.watch(ctx, in)
	if err != nil {
		return nil, err
	}
	if w.first, err = w.Recv(); err != nil {
		w.cancelled()
		var broken *brokenError
		if errors.As(err, &broken) {
			<-s.over // which it is, or is about to be
		}
		return nil, err
	}
	return w, nil
}

// sessionWatch is a watch of a session. Its queue is bounded: the receiver of the session
// never waits for a watch's reader.
type sessionWatch struct {
	grpc.ClientStream                 // nil: no more than Recv is used of a watch
	ctx               context.Context //nolint:containedctx // a stream is its context's
	cancelled         func() bool
	queue             chan *ctxfsv1.WatchResponse
	// lossy says that events are left out; the receiver's alone.
	lossy bool
	// err is why the watch ended, set before queue is closed.
	err   error
	first *ctxfsv1.WatchResponse
}

// watch sends the request of a watch. ctx's end cancels it.
func (s *session) watch(ctx context.Context, in *ctxfsv1.WatchRequest) (*sessionWatch, error) {
	if !s.oneMoreWatch() {
		return nil, errNoSession
	}
	w := &sessionWatch{ctx: ctx, queue: make(chan *ctxfsv1.WatchResponse, watchQueue)}
	x := &exchange{method: ctxfsv1.FsService_Watch_FullMethodName, args: in, size: proto.Size(in), watch: w}
	err := s.acquire(ctx)
	if err == nil {
		err = s.begin(ctx, x)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches--
		return nil, err
	}
	w.cancelled = context.AfterFunc(ctx, func() { s.abandon(x) })
	return w, nil
}

func (s *session) oneMoreWatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches >= s.maxWatches {
		return false
	}
	s.watches++
	return true
}

// put queues a part, or leaves it out when there is no room. Only the receiver calls it.
func (w *sessionWatch) put(m *ctxfsv1.WatchResponse) {
	if w.lossy && len(w.queue) > cap(w.queue)/2 {
		return
	}
	w.lossy = len(w.queue) == cap(w.queue)-1
	if w.lossy {
		m = watchOverflow()
	}
	w.queue <- m
}

func watchOverflow() *ctxfsv1.WatchResponse {
	return &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Overflow{Overflow: &ctxfsv1.WatchOverflow{}}}
}

// finish says that no more will be put.
func (w *sessionWatch) finish(err error) {
	w.err = err
	close(w.queue)
}

// Recv implements grpc.ServerStreamingClient.
func (w *sessionWatch) Recv() (*ctxfsv1.WatchResponse, error) {
	if m := w.first; m != nil {
		w.first = nil
		return m, nil
	}
	select {
	case m, more := <-w.queue:
		if more {
			return m, nil
		}
	case <-w.ctx.Done():
		return nil, status.FromContextError(w.ctx.Err()).Err()
	}
	w.cancelled()
	return nil, w.end()
}

func (w *sessionWatch) end() error {
	if w.err == nil {
		return io.EOF
	}
	return w.err
}
