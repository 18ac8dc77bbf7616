package client

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// stuck is a stream whose sends wait until they are let go, with an error or none.
type stuck struct {
	sessionLink
	sending chan together
	let     chan error
}

func (s *stuck) send(t together) error {
	s.sending <- append(together(nil), t...)
	return <-s.let
}

func (*stuck) interruptible() bool { return false }

// stuckSession has a call whose message is being sent, and further ones that wait; ctx is theirs.
func stuckSession(ctx context.Context, t *testing.T, waiting int) (s *session, stream *stuck, first chan error, further []chan error) {
	t.Helper()
	stream = &stuck{sending: make(chan together, 10), let: make(chan error)}
	s = newSession(stream, &ctxfsv1.SessionReady{MaxInFlight: 10}, nil, func() {})
	call := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() {
			done <- s.call(ctx, ctxfsv1.FsService_Fsync_FullMethodName, &ctxfsv1.FsyncRequest{}, 0, &ctxfsv1.FsyncResponse{})
		}()
		return done
	}
	first = call(context.Background())
	<-stream.sending
	for n := range waiting {
		further = append(further, call(ctx))
		for queued := 0; queued <= n; runtime.Gosched() {
			s.mu.Lock()
			queued = len(s.queue)
			s.mu.Unlock()
		}
	}
	return s, stream, first, further
}

func isBroken(err error, sent bool) bool {
	var broken *brokenError
	return errors.As(err, &broken) && broken.sent == sent
}

// TestCancelledInTheQueue has a call cancelled before its turn to be sent: it never is.
func TestCancelledInTheQueue(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, stream, first, further := stuckSession(ctx, t, 2)
	cancel()
	for _, call := range further {
		if err := <-call; status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	}
	stream.let <- nil
	s.end(status.Error(codes.Unavailable, "gone"))
	if err := <-first; !isBroken(err, true) {
		t.Errorf("%v, want sent", err)
	}
	if n := len(stream.sending); n != 0 {
		t.Errorf("%d messages were sent for calls that were cancelled before", n)
	}
}

// TestSendingFails has the stream break while a message is being sent, which then was
// not, and others wait.
func TestSendingFails(t *testing.T) {
	t.Parallel()
	for name, endsFirst := range map[string]bool{"noticed by the sender": false, "noticed by the receiver": true} {
		t.Run(name, func(t *testing.T) {
			s, stream, first, further := stuckSession(t.Context(), t, 1)
			fail := func() { stream.let <- io.EOF }
			if endsFirst {
				s.end(status.Error(codes.Unavailable, "gone"))
				fail()
			} else {
				fail()
				<-stream.sending // the second
				fail()
			}
			if err := <-first; !isBroken(err, false) {
				t.Errorf("being sent: %v, want not sent", err)
			}
			if err := <-further[0]; !isBroken(err, false) {
				t.Errorf("queued: %v, want not sent", err)
			}
		})
	}
}
