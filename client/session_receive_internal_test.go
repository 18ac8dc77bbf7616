package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// playedLink is a link whose server is the test. Its receive can be interrupted, as a WebSocket's.
type playedLink struct {
	sent        chan uint64
	replies     chan []byte
	interrupted chan struct{}
}

func (l *playedLink) send(t together) error {
	var m ctxfsv1.SessionRequest
	if err := proto.Unmarshal(t.join(nil), &m); err != nil {
		return err
	}
	for _, r := range append([]*ctxfsv1.SessionRequest{&m}, m.GetAlso()...) {
		l.sent <- r.GetId()
	}
	return nil
}

func (l *playedLink) receive() ([]byte, bool, error) {
	select {
	case m, ok := <-l.replies:
		if !ok {
			return nil, false, io.EOF
		}
		return m, false, nil
	case <-l.interrupted:
		return nil, false, os.ErrDeadlineExceeded
	}
}

func (*playedLink) interruptible() bool { return true }
func (l *playedLink) interrupt()        { l.interrupted <- struct{}{} }

// answer sends the replies to calls in one message.
func (l *playedLink) answer(t *testing.T, ids ...uint64) {
	t.Helper()
	var first *ctxfsv1.SessionResponse
	for _, id := range ids {
		m := &ctxfsv1.SessionResponse{Id: id, Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{}}}
		if first == nil {
			first = m
			continue
		}
		first.Also = append(first.Also, m)
	}
	b, err := proto.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	l.replies <- b
}

// playedSession returns a session on a playedLink, whose callers are silent after rest, and what ends it and returns why it ended.
func playedSession(t *testing.T, rest time.Duration) (s *session, link *playedLink, end func() error) {
	t.Helper()
	link = &playedLink{sent: make(chan uint64, 100), replies: make(chan []byte), interrupted: make(chan struct{}, 1)}
	stopped := make(chan struct{})
	s = newSession(link, &ctxfsv1.SessionReady{MaxInFlight: 10}, stopped, func() {})
	s.rest = rest
	ended := make(chan error, 1)
	go func() {
		why := s.receive()
		s.end(why)
		ended <- why
	}()
	return s, link, func() error {
		close(link.replies)
		close(stopped)
		return <-ended
	}
}

func (s *session) stat(ctx context.Context) chan error {
	done := make(chan error, 1)
	in := &ctxfsv1.StatRequest{Path: "/a"}
	go func() {
		done <- s.call(ctx, ctxfsv1.FsService_Stat_FullMethodName, in, proto.Size(in), &ctxfsv1.StatResponse{})
	}()
	return done
}

// awaitReader waits until the reader is the one that the test expects.
func (s *session) awaitReader(t *testing.T, want reader) {
	t.Helper()
	clocktest.Await(t, fmt.Sprintf("the reader is %d", want), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.reader == want
	})
}

// TestLoneCallerReceives has one call after another, each cancelled or answered.
func TestLoneCallerReceives(t *testing.T) {
	t.Parallel()
	s, link, end := playedSession(t, time.Hour)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		call := s.stat(ctx)
		id := <-link.sent
		s.awaitReader(t, callerReads)
		cancel()
		if err := <-call; status.Code(err) != codes.Canceled {
			t.Errorf("%v, want cancelled", err)
		}
		<-link.sent // the cancel
		s.awaitReader(t, receiverReads)
		link.answer(t, id)
		s.awaitReader(t, noReader)

		call = s.stat(t.Context())
		id = <-link.sent
		s.awaitReader(t, callerReads)
		link.answer(t, id)
		if err := <-call; err != nil {
			t.Error(err)
		}
	}
	if err := end(); status.Code(err) != codes.Unavailable {
		t.Errorf("the session ended with %v", err)
	}
}

// TestCallersFollow has a second call begin while the caller of the first receives, and outlast it.
func TestCallersFollow(t *testing.T) {
	t.Parallel()
	s, link, end := playedSession(t, time.Hour)
	first := s.stat(t.Context())
	one := <-link.sent
	s.awaitReader(t, callerReads)
	second := s.stat(context.Background())
	two := <-link.sent
	link.answer(t, one)
	if err := <-first; err != nil {
		t.Error(err)
	}
	s.awaitReader(t, receiverReads)
	link.answer(t, two)
	if err := <-second; err != nil {
		t.Error(err)
	}
	third, fourth := s.stat(t.Context()), s.stat(context.Background())
	link.answer(t, <-link.sent, <-link.sent)
	if err := errors.Join(<-third, <-fourth); err != nil {
		t.Error(err)
	}
	_ = end()
}

// TestEndWhileACallerReceives has the link end under a caller that receives for itself.
func TestEndWhileACallerReceives(t *testing.T) {
	t.Parallel()
	s, link, end := playedSession(t, time.Hour)
	call := s.stat(t.Context())
	<-link.sent
	s.awaitReader(t, callerReads)
	if err := end(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := <-call; !isBroken(err, true) {
		t.Errorf("%v, want broken and sent", err)
	}
}

// TestIdleSessionIsRead has the server end a session that no caller uses.
func TestIdleSessionIsRead(t *testing.T) {
	t.Parallel()
	s, link, end := playedSession(t, restAfter)
	call := s.stat(t.Context())
	link.answer(t, <-link.sent)
	if err := <-call; err != nil {
		t.Error(err)
	}
	s.awaitReader(t, receiverReads)
	_ = end()
	<-s.over
}
