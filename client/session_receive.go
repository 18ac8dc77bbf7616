package client

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// restAfter is how long callers are silent before the receiver reads. The server may ping, or end the session.
	restAfter = 5 * time.Millisecond
	// smallReply is the size up to which a reply's room is used again, in bytes: what is decoded from it is a copy.
	smallReply = 1 << 10
)

// reader is the role that receives from a session's link.
type reader int

const (
	// noReader stands for the time between two calls of a lone caller.
	noReader reader = iota
	// callerReads is a caller that waits alone.
	callerReads
	// receiverReads is the receiver: several callers wait, or a watch, or callers were silent for restAfter.
	receiverReads
)

// reading is the state of receiving. A goroutine that receives for a caller costs a switch between processors for each reply, so a
// caller that waits alone receives its own. Where more than one waits, the receiver serves them all.
type reading struct {
	// The session's mutex guards what follows.
	reader reader
	// led counts the calls whose callers received their own reply.
	led uint64
	// asleep says that the receiver waits until turn wakes it.
	asleep bool

	// turn wakes the receiver.
	turn chan struct{}
	// rest is restAfter. Tests change it.
	rest time.Duration

	// failed is why nothing more comes, closing why the server ends the session. Only the reader uses them.
	failed, closing error
}

func newReading(link sessionLink) reading {
	r := reading{turn: make(chan struct{}, 1), rest: restAfter}
	if !link.interruptible() {
		r.reader = receiverReads
	}
	return r
}

// receiverReads makes the receiver the reader, unless a caller is: lead hands over when that caller has its reply. The caller holds mu.
func (s *session) receiverReads() {
	if s.reader == noReader {
		s.reader = receiverReads
		s.wake()
	}
}

func (s *session) wake() {
	select {
	case s.turn <- struct{}{}:
	default:
	}
}

// mayLead makes the caller of x the reader if it waits alone.
func (s *session) mayLead(x *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != noReader || s.pending[x.id] != x {
		return false
	}
	s.reader = callerReads
	return true
}

// lead receives until x has its reply, ctx ends, or the link does.
func (s *session) lead(ctx context.Context, x *exchange) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, s.link.interrupt)()
	}
	for len(x.reply) == 0 && s.failed == nil && (ctx.Done() == nil || ctx.Err() == nil) {
		_, s.failed = s.receiveOne()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.led++
	s.reader = noReader
	if len(s.pending) > 0 || s.failed != nil {
		s.receiverReads()
	} else if s.asleep {
		s.wake()
	}
}

// receive is the receiver. It returns why the link ended, as a gRPC status.
func (s *session) receive() error {
	for {
		s.awaitTurn()
		for more := true; more; {
			n, err := 0, s.failed
			if err == nil {
				n, err = s.receiveOne()
			}
			switch {
			case err != nil && s.closing != nil:
				return s.closing
			case errors.Is(err, io.EOF):
				return status.Error(codes.Unavailable, "the server ended the session")
			case err != nil:
				return err
			}
			more = n != 1 || !s.stepDown()
		}
	}
}

// awaitTurn waits until the receiver is the reader. It looks from time to time whether the callers have become silent.
func (s *session) awaitTurn() {
	timer := time.NewTimer(s.rest)
	defer timer.Stop()
	led, late := uint64(0), false
	for {
		s.mu.Lock()
		silent := s.isEnded() || late && led == s.led
		if s.reader == noReader && silent {
			s.reader = receiverReads
		}
		mine := s.reader == receiverReads
		led, s.asleep = s.led, silent
		s.mu.Unlock()
		switch {
		case mine:
			return
		case silent: // a caller waits for long
			<-s.turn
			late = false
			continue
		}
		timer.Reset(s.rest)
		select {
		case <-s.turn:
			late = false
		case <-timer.C:
			late = true
		case <-s.ended:
		}
	}
}

func (s *session) isEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// stepDown leaves it to a lone caller to receive, if none waits now.
func (s *session) stepDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 || !s.link.interruptible() {
		return false
	}
	s.reader = noReader
	return true
}

// receiveOne receives a message, delivers its replies and returns their number. It returns 0 when it was interrupted. Only the reader calls it.
func (s *session) receiveOne() (n int, err error) {
	message, owned, err := s.link.receive()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	if err == nil {
		err = eachResponse(message, func(r response, alone bool) {
			n++
			s.dispatch(r, owned && alone)
		})
	}
	return n, err
}

// dispatch delivers a reply to its caller; an abandoned one has room for it. owned says that data is not used again.
func (s *session) dispatch(r response, owned bool) {
	s.mu.Lock()
	x := s.pending[r.id]
	if x != nil && !r.more {
		s.forget(x)
	}
	s.mu.Unlock()
	switch {
	case r.other.GetClosing() != nil:
		s.closing = fserrpb.FromSession(r.other.GetClosing().GetError())
	case x == nil:
	case r.more:
		x.part(r.data)
	case r.other.GetError() != nil:
		s.deliver(x, reply{err: fserrpb.FromSession(r.other.GetError())})
	default:
		s.deliver(x, reply{data: x.keep(r.data, owned)})
	}
}

// keep returns data for the caller to decode.
func (x *exchange) keep(data []byte, owned bool) []byte {
	switch {
	case owned:
		return data
	case len(data) >= smallReply:
		return slices.Clone(data)
	}
	x.small = append(x.small[:0], data...)
	return x.small
}

// part takes a part of a reply.
func (x *exchange) part(data []byte) {
	if x.watch == nil {
		return
	}
	m := &ctxfsv1.WatchResponse{}
	if proto.Unmarshal(data, m) != nil {
		m = watchOverflow() // the event is lost
	}
	x.watch.put(m)
}
