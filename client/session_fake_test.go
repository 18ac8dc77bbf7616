package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// fake is a server whose sessions a test plays. Unary Stat always answers.
type fake struct {
	ctxfsv1.UnimplementedFsServiceServer
	session func(s *played) error
	refuse  error
	asked   atomic.Int32
}

// played is the server's end of a session.
type played = grpc.BidiStreamingServer[ctxfsv1.SessionRequest, ctxfsv1.SessionResponse]

func (f *fake) Session(s grpc.BidiStreamingServer[ctxfsv1.SessionRequest, ctxfsv1.SessionResponse]) error {
	f.asked.Add(1)
	switch {
	case f.refuse != nil:
		return f.refuse
	case f.session == nil:
		return f.UnimplementedFsServiceServer.Session(s)
	}
	if _, err := s.Recv(); err != nil {
		return err
	}
	ready := &ctxfsv1.SessionReady{MaxInFlight: 2, MaxWatches: 1, MaxContent: 256 << 10}
	if err := s.Send(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Ready{Ready: ready}}); err != nil {
		return err
	}
	return f.session(&s)
}

func (f *fake) Stat(context.Context, *ctxfsv1.StatRequest) (*ctxfsv1.StatResponse, error) {
	return &ctxfsv1.StatResponse{Stat: &ctxfsv1.Stat{Size: 7}}, nil
}

func (f *fake) Unlink(context.Context, *ctxfsv1.UnlinkRequest) (*ctxfsv1.UnlinkResponse, error) {
	return &ctxfsv1.UnlinkResponse{}, nil
}

func (f *fake) ReadStream(_ *ctxfsv1.ReadStreamRequest, stream grpc.ServerStreamingServer[ctxfsv1.ReadStreamResponse]) error {
	start := &ctxfsv1.ReadStreamStart{Stat: &ctxfsv1.Stat{Size: 3}}
	return errors.Join(
		stream.Send(&ctxfsv1.ReadStreamResponse{Event: &ctxfsv1.ReadStreamResponse_Start{Start: start}}),
		stream.Send(&ctxfsv1.ReadStreamResponse{Event: &ctxfsv1.ReadStreamResponse_Data{Data: []byte("abc")}}))
}

// serve begins the fake and returns a client of it.
func (f *fake) serve(t *testing.T) *client.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	must(t, err)
	s := grpc.NewServer()
	ctxfsv1.RegisterFsServiceServer(s, f)
	done := later(func() error { return s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		must(t, <-done)
	})
	return dialTo(t, "unix://"+path)
}

// recv returns the requests of the next message.
func recv(s *played) ([]*ctxfsv1.SessionRequest, error) {
	m, err := (*s).Recv()
	if err != nil {
		return nil, err
	}
	return append([]*ctxfsv1.SessionRequest{m}, m.GetAlso()...), nil
}

func TestServerWithoutSessions(t *testing.T) {
	t.Parallel()
	f := &fake{}
	fsys := f.serve(t).FS()
	for range 3 {
		info, err := fsys.Stat("a")
		must(t, err)
		if info.Size() != 7 {
			t.Errorf("size %d", info.Size())
		}
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("a session was asked for %d times, want once", n)
	}
}

// TestServerWithoutContentByHTTP reads by gRPC.
func TestServerWithoutContentByHTTP(t *testing.T) {
	t.Parallel()
	fsys := (&fake{}).serve(t).FS()
	for range 2 {
		r, err := fsys.ReadStream("a", client.ReadOptions{})
		must(t, err)
		got, err := io.ReadAll(r)
		must(t, err)
		if string(got) != "abc" || r.Stat().Size() != 3 {
			t.Errorf("read %q of %d", got, r.Stat().Size())
		}
		must(t, r.Close())
	}
}

// TestSessionsEnd has the server end a session while a call waits: what changes something
// may have happened, what only asks is asked again.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	closing := func(e *fserr.Error, code codes.Code) func(*played) error {
		return func(s *played) error {
			return (*s).Send(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Closing{
				Closing: &ctxfsv1.SessionClosing{Error: fserrpb.ToSession(fserrpb.WithCode(e, code))},
			}})
		}
	}
	for _, c := range []struct {
		name  string
		end   func(*played) error
		code  codes.Code
		words string
	}{
		{"panel closed", closing(&fserr.Error{Code: fserr.EACCES, Detail: "the panel was closed"}, codes.Unauthenticated), codes.Unauthenticated, "the panel was closed"},
		{"panel closed, and told late", func(s *played) error {
			cancelled := &ctxfsv1.SessionResponse_Error{Error: fserrpb.ToSession(fserr.ECANCELED)}
			if err := (*s).Send(&ctxfsv1.SessionResponse{Id: 1, Response: cancelled}); err != nil {
				return err
			}
			return closing(&fserr.Error{Code: fserr.EACCES, Detail: "the panel was closed"}, codes.Unauthenticated)(s)
		}, codes.Unauthenticated, "the panel was closed"},
		{"server stopping", closing(&fserr.Error{Code: fserr.EAGAIN, Detail: "the server is stopping"}, codes.Unavailable), codes.Unavailable, "the server is stopping"},
		{"without a word", func(*played) error { return nil }, codes.Unavailable, "ended the session"},
		{"with a status", func(*played) error { return status.Error(codes.Internal, "odd") }, codes.Internal, "odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{session: func(s *played) error {
				if _, err := recv(s); err != nil {
					return err
				}
				return c.end(s)
			}}
			fsys := f.serve(t).FS()
			err := fsys.Unlink("a")
			wantTransport(t, err, c.code, true)
			if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "may have happened") {
				t.Errorf("%v, want %q", err, c.words)
			}
			before := f.asked.Load()
			_, err = fsys.Stat("a")
			wantTransport(t, err, c.code, false)
			if n := f.asked.Load() - before; n != 2 {
				t.Errorf("stat was tried on %d sessions, want 2", n)
			}
		})
	}
}

// TestSessionsThatEndAtOnce has every other session end before it takes a call: one that was
// not sent is made on the next.
func TestSessionsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.session = func(s *played) error {
		for f.asked.Load()%2 == 0 {
			all, err := recv(s)
			if err != nil {
				return nil //nolint:nilerr // the client is gone
			}
			for _, m := range all {
				err := (*s).Send(&ctxfsv1.SessionResponse{Id: m.GetId(), Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{}}})
				if err != nil || m.GetId()%3 == 0 {
					return err
				}
			}
		}
		return nil
	}
	fsys := f.serve(t).FS()
	var done int
	for range 300 {
		err := fsys.Unlink("a")
		if err == nil {
			done++
			continue
		}
		wantTransport(t, err, codes.Unavailable, true)
	}
	if done == 0 {
		t.Error("no call succeeded")
	}
}

// TestSessionRefused has no session begin, for a while: calls are RPCs of their own.
func TestSessionRefused(t *testing.T) {
	t.Parallel()
	f := &fake{refuse: status.Error(codes.ResourceExhausted, "too many")}
	fsys := f.serve(t).FS()
	for range 3 {
		must(t, fsys.Unlink("a"))
	}
	if n := f.asked.Load(); n != 3 {
		t.Errorf("a session was asked for %d times, want 3", n)
	}
}

// TestCallsAreBounded plays a server that takes two at once and answers only when one was cancelled.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	type seen struct{ ops, cancels int }
	got := make(chan seen, 100)
	f := &fake{session: func(s *played) error {
		var n seen
		for {
			all, err := recv(s)
			if err != nil {
				return nil //nolint:nilerr // the client is gone
			}
			for _, m := range all {
				if m.GetCancel() != nil {
					n.cancels++
					err = (*s).Send(&ctxfsv1.SessionResponse{Id: m.GetId(), Response: &ctxfsv1.SessionResponse_Error{Error: fserrpb.ToSession(fserr.ECANCELED)}})
				} else {
					n.ops++
				}
				if err != nil {
					return err
				}
				got <- n
			}
		}
	}}
	fsys := f.serve(t).FS()
	ctx, cancel := context.WithCancel(t.Context())
	first := []<-chan error{later(func() error { return fsys.With(ctx).Unlink("a") }), later(func() error { return fsys.With(ctx).Unlink("b") })}
	if n := <-got; n != (seen{1, 0}) {
		t.Errorf("%+v", n)
	}
	if n := <-got; n != (seen{2, 0}) {
		t.Errorf("%+v", n)
	}
	// clock: the caller gives up, whenever that is
	waits, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := fsys.With(waits).Unlink("c"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	cancel()
	for _, call := range first {
		if err := <-call; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	further, stopFurther := context.WithCancel(t.Context())
	fourth := later(func() error { return fsys.With(further).Unlink("d") })
	for n := range got {
		if n.ops > 2 { // once a cancel was answered, and not before
			if n.ops != 3 || n.cancels == 0 {
				t.Errorf("%+v", n)
			}
			break
		}
	}
	stopFurther()
	if err := <-fourth; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
