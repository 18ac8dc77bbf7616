package client

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
)

// callMany calls an RPC that changes nothing with each request, together as far as the session carries,
// and calls answer for each, in order, with the response, encoded. Errors are as those of call; with errNoSession and
// *brokenError the call was not answered, and the caller makes it again in another way.
func (c *fsClient) callMany(ctx context.Context, method string, ops []proto.Message, answer func(i int, data []byte, err error)) {
	s, err := c.session(ctx)
	if err != nil {
		for i := range ops {
			answer(i, nil, err)
		}
		return
	}
	// While one half of what may be under way is answered, the other is asked.
	half := max(1, cap(s.slots)/2)
	var ahead []*exchange
	first := 0
	for done := 0; done < len(ops); {
		n := min(half, len(ops)-done)
		next := s.beginAll(ctx, method, ops[done:done+n])
		first = s.awaitAll(ctx, ahead, first, answer)
		ahead, done = next, done+n
	}
	s.awaitAll(ctx, ahead, first, answer)
}

// beginAll sends calls. One that could not be begun has its answer already.
func (s *session) beginAll(ctx context.Context, method string, ops []proto.Message) []*exchange {
	xs := make([]*exchange, len(ops))
	queue := make([]*exchange, 0, len(ops))
	for i, op := range ops {
		x := s.newExchange(method, op, proto.Size(op))
		xs[i] = x
		if !s.tryAcquire() {
			// Calls that hold slots and are not sent would block other callers, and those block this one.
			s.sendAll(ctx, queue)
			queue = queue[:0]
			if err := s.acquire(ctx); err != nil {
				x.reply <- reply{err: err}
				continue
			}
		}
		if err := s.number(x); err != nil {
			x.reply <- reply{err: err}
			continue
		}
		queue = append(queue, x)
	}
	s.sendAll(ctx, queue)
	return xs
}

// sendAll queues requests and sends what is queued.
func (s *session) sendAll(ctx context.Context, xs []*exchange) {
	if len(xs) == 0 {
		return
	}
	s.mu.Lock()
	if s.why != nil {
		defer s.mu.Unlock()
		for _, x := range xs {
			s.release(x)
			x.reply <- reply{err: &brokenError{why: s.why}}
		}
		return
	}
	last := len(xs) - 1
	for i, x := range xs {
		s.enter(x)
		if i < last {
			s.queue = append(s.queue, outgoing{id: x.id, x: x, request: x.encoded})
		}
	}
	s.push(outgoing{id: xs[last].id, x: xs[last], request: xs[last].encoded}, ctx.Done() == nil) // which gives mu back
}

// awaitAll hands the replies on, the first of them as that of operation from, and returns the next one's number.
func (s *session) awaitAll(ctx context.Context, xs []*exchange, from int, answer func(i int, data []byte, err error)) int {
	for _, x := range xs {
		r, done := s.await(ctx, x)
		answer(from, r.data, s.orEnd(ctx, r.err))
		if done {
			s.reuse(x)
		}
		from++
	}
	return from
}

// unanswered reports whether an operation has to be done in another way.
func unanswered(err error) bool {
	var broken *brokenError
	return errors.Is(err, errNoSession) || errors.As(err, &broken)
}
