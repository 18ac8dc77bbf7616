package client

import (
	"errors"
	"io"
	"runtime"
	"slices"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// mayBlock is how much may be unanswered, in bytes, before sending may have to wait for
	// the connection: less than the 64 KiB that the transport takes for a stream.
	mayBlock = 32 << 10
	// maxTurns is how often a caller sends what others have queued meanwhile, before it looks for its own reply.
	maxTurns = 4
)

// push queues a message and sends what is queued, unless that is being done. A caller
// that is patient may be kept waiting by the connection. The caller holds mu, which push gives back.
func (s *session) push(o outgoing, patient bool) {
	s.queue = append(s.queue, o)
	if s.sending {
		s.mu.Unlock()
		return
	}
	s.sending = true
	if len(s.pending)-s.watches > 1 {
		s.mu.Unlock()
		runtime.Gosched() // others are about to have something: it goes together
		s.mu.Lock()
	}
	s.drain(patient, maxTurns)
}

// drain sends what is queued. When that takes more turns, or when it could make an
// impatient caller wait, another goroutine sends the rest. The caller holds mu, which drain releases.
func (s *session) drain(patient bool, turns int) {
	for len(s.queue) > 0 {
		if s.why == nil && (turns == 0 || !patient && s.unanswered > mayBlock) {
			s.senders.Go(func() {
				s.mu.Lock()
				s.drain(true, -1)
			})
			s.mu.Unlock()
			return
		}
		turns--
		s.take()
		s.mu.Unlock()
		n := s.send()
		s.mu.Lock()
		s.settle(n)
	}
	s.sending = false
	s.mu.Unlock()
}

// take makes the queue the batch to send. The caller holds mu.
func (s *session) take() {
	s.batch, s.queue = s.queue, s.spare[:0]
	for _, o := range s.batch {
		if o.x != nil {
			o.x.queued = false
		}
	}
}

// send sends the batch and returns how many messages it sent. Only the goroutine that set sending calls it.
func (s *session) send() int {
	sent := 0
	for sent < len(s.batch) {
		n := s.together.pack(s.batch[sent:])
		if err := s.link.send(s.together); err != nil {
			if !errors.Is(err, io.EOF) {
				s.stop()
			}
			break // the reader learns why
		}
		sent += n
	}
	return sent
}

// settle ends the batch after its first n messages were sent. It fails the calls whose message was not sent. If the session has
// ended meanwhile, it also fails the others, as calls that may have happened. The caller holds mu.
func (s *session) settle(n int) {
	if n < len(s.batch) || s.why != nil {
		for i, o := range s.batch {
			if sent := i < n; o.x != nil && s.pending[o.id] == o.x && (!sent || s.why != nil) {
				s.fail(o.x, sent)
			}
		}
	}
	clear(s.batch)
	s.spare, s.batch = s.batch, nil
}

// abandon cancels a request whose caller waits no longer; false when its reply is there already.
func (s *session) abandon(x *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[x.id] != x {
		return false
	}
	if x.queued {
		s.queue = slices.DeleteFunc(s.queue, func(o outgoing) bool { return o.x == x })
		s.forget(x)
		s.release(x)
		return true
	}
	s.cancel(x.id)
	return true
}

// cancel has a cancel sent: without waiting, since the connection may be stuck. The caller holds mu.
func (s *session) cancel(id uint64) {
	if s.why != nil {
		return
	}
	s.senders.Go(func() {
		m := &ctxfsv1.SessionRequest{Id: id, Request: &ctxfsv1.SessionRequest_Cancel{Cancel: &ctxfsv1.SessionCancel{}}}
		request, err := proto.Marshal(m)
		if err != nil {
			s.stop() // what cannot be cancelled must not run on
			return
		}
		s.mu.Lock()
		s.push(outgoing{request: request}, true)
	})
}
