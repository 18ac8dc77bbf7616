package fsservice

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/fserr"
)

// streamPath runs f for a request with one path whose answer is many messages. f runs
// behind the gate, in a goroutine of its own; what it sends goes out from the handler's.
// The gate is therefore never held while a client is slow: when somebody wants to delete
// the context, f ends, with ESTALE, whatever the client has read.
func streamPath[M any](s *Service, op string, req pathRequest, stream grpc.ServerStreamingServer[M], f func(c *call, send func(*M) error) error) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	o := &outbox[M]{messages: make(chan *M)}
	go o.fill(func() error {
		_, err := onPath(ctx, s, op, reads, req, func(c *call) (struct{}, error) {
			return struct{}{}, untilClosing(c, func(c *call) error {
				return f(c, func(m *M) error { return o.put(c, m) })
			})
		})
		return err
	})
	sendErr := o.drain(stream, cancel)
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case sendErr != nil:
		return sendErr
	}
	return o.err
}

// outbox is between what makes messages and what sends them. err and panicked are set
// before messages is closed.
type outbox[M any] struct {
	messages chan *M
	err      error
	panicked any
}

func (o *outbox[M]) fill(produce func() error) {
	defer close(o.messages)
	// A panic belongs to the handler, where it is caught, logged and answered.
	defer func() { o.panicked = recover() }()
	o.err = produce()
}

func (o *outbox[M]) put(ctx context.Context, m *M) error {
	select {
	case o.messages <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain sends until there is no more to send. When the client is gone it calls cancel,
// and still waits for the end.
func (o *outbox[M]) drain(stream grpc.ServerStreamingServer[M], cancel func()) error {
	var err error
	for m := range o.messages {
		if err != nil {
			continue
		}
		if err = stream.Send(m); err != nil {
			cancel()
		}
	}
	return err
}

// untilClosing runs f with a call that ends when its context is about to be deleted.
func untilClosing(c *call, f func(*call) error) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	stop := context.AfterFunc(c.closing, cancel)
	defer stop()
	inner := *c
	inner.Context = ctx
	err := f(&inner)
	if err != nil && c.closing.Err() != nil && c.Err() == nil {
		return &fserr.Error{
			Code: fserr.ESTALE, Kind: fserr.KindContext, Err: err,
			Detail: fmt.Sprintf("context '%s' is being deleted", c.id.Context),
		}
	}
	return err
}
