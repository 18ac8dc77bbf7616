package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// behind is the service behind a front.
type behind struct {
	ctxfsv1.UnimplementedFsServiceServer
	left   chan error
	logged *observer.ObservedLogs
}

func (b *behind) Stat(ctx context.Context, req *ctxfsv1.StatRequest) (*ctxfsv1.StatResponse, error) {
	if id := panels.IdentityFrom(ctx); id.Panel != "panels/a" || id.Role != panels.RolePanel {
		return nil, status.Errorf(codes.Unauthenticated, "called by %+v", id)
	}
	if req.GetPath() == "/panic" {
		panic("no such luck")
	}
	return nil, fserrpb.ToStatus(&fserr.Error{Code: fserr.ENOENT, Op: "stat", Path: req.GetPath()})
}

// Session sends back what it receives until a call has the number 0, which it waits after, or the requests end.
func (b *behind) Session(stream grpc.BidiStreamingServer[ctxfsv1.SessionRequest, ctxfsv1.SessionResponse]) error {
	if panels.IdentityFrom(stream.Context()).Panel != "panels/a" {
		return status.Error(codes.Unauthenticated, "nobody")
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return fserrpb.ToStatus(&fserr.Error{Code: fserr.EBADF, Detail: "that was all"})
		}
		if err == nil && m.GetId() == 0 {
			<-stream.Context().Done()
			err = stream.Context().Err()
		}
		if err != nil {
			b.left <- err
			return err
		}
		if err := stream.Send(&ctxfsv1.SessionResponse{Id: m.GetId()}); err != nil {
			return err
		}
	}
}

// Glob sends three parts.
func (b *behind) Glob(req *ctxfsv1.GlobRequest, stream grpc.ServerStreamingServer[ctxfsv1.GlobResponse]) error {
	if req.GetPath() == "/panic" {
		panic("no such luck")
	}
	for range 3 {
		if err := stream.Send(&ctxfsv1.GlobResponse{}); err != nil {
			return err
		}
	}
	return nil
}

// one is a backend with one connection.
type one struct{ cc *grpc.ClientConn }

func (o one) conn(ctx context.Context, _ proto.Message) (context.Context, grpc.ClientConnInterface, error) {
	return ctx, o.cc, nil
}

func (o one) invoke(ctx context.Context, name string, req, resp proto.Message) error {
	return o.cc.Invoke(ctx, name, req, resp)
}

// served serves in memory, and returns a connection.
func served(t *testing.T, register func(*grpc.Server), opts ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	l, s := bufconn.Listen(1<<16), grpc.NewServer(opts...)
	register(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	cc, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return cc
}

// fronted returns a client of a front, whose caller is a panel, and the service behind it.
func fronted(t *testing.T) (ctxfsv1.FsServiceClient, *behind) {
	t.Helper()
	core, logged := observer.New(zap.ErrorLevel)
	b := &behind{left: make(chan error, 1), logged: logged}
	back := served(t, func(s *grpc.Server) { ctxfsv1.RegisterFsServiceServer(s, b) }, asRunner(zap.New(core))...)
	desc, err := front(&ctxfsv1.FsService_ServiceDesc, one{back})
	if err != nil {
		t.Fatal(err)
	}
	who := panels.Identity{Role: panels.RolePanel, Panel: "panels/a"}
	cc := served(t, func(s *grpc.Server) { s.RegisterService(desc, nil) },
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(panels.WithIdentity(ctx, who), req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, callerStream{stream, panels.WithIdentity(stream.Context(), who)})
		}))
	return ctxfsv1.NewFsServiceClient(cc), b
}

func TestFrontPassesErrorsAndCaller(t *testing.T) {
	t.Parallel()
	c, _ := fronted(t)
	_, err := c.Stat(t.Context(), &ctxfsv1.StatRequest{Path: "/nope"})
	known, ok := fserrpb.FromStatus(err)
	if !ok || known.Code != fserr.ENOENT || known.Path != "/nope" || status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	stream, err := c.Glob(t.Context(), &ctxfsv1.GlobRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if _, err := stream.Recv(); err != nil {
			if !errors.Is(err, io.EOF) || n != 3 {
				t.Errorf("after %d parts: %v", n, err)
			}
			return
		}
	}
}

func TestFrontPassesStreamsInBothDirections(t *testing.T) {
	t.Parallel()
	c, _ := fronted(t)
	stream, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id := uint64(1); id < 100; id++ {
		if err := stream.Send(&ctxfsv1.SessionRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Recv(); err != nil || m.GetId() != id {
			t.Fatalf("%d came back as %v, %v", id, m, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Convert(err).Message() != "EBADF: that was all" {
		t.Errorf("after the end of the requests: %v", err)
	}
}

func TestFrontCallEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c, b := fronted(t)
	ctx, leave := context.WithCancel(t.Context())
	stream, err := c.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{1, 0} {
		if err := stream.Send(&ctxfsv1.SessionRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	leave()
	// The call ends while it waits, or before it received what it waits after.
	if err := <-b.left; !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		t.Errorf("behind the front: %v", err)
	}
}

func TestProcessOfARequest(t *testing.T) {
	t.Parallel()
	for want, req := range map[string]proto.Message{
		"p-1": &ctxfsv1.WaitRequest{ProcessId: "p-1"},
		"p-2": &ctxfsv1.RunResponse{Event: &ctxfsv1.RunResponse_Started{Started: &ctxfsv1.Process{ProcessId: "p-2"}}},
		"":    &ctxfsv1.StartRequest{Command: &ctxfsv1.Command{ContextId: "ctx_a"}},
	} {
		if got := processOf(req); got != want {
			t.Errorf("%v names %q, want %q", req, got, want)
		}
	}
}

// TestCallWithoutCallerIsRefused calls a runner as no server does: such a call must not count as a host's.
func TestCallWithoutCallerIsRefused(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]context.Context{
		"no identity": t.Context(),
		"no JSON":     metadata.NewIncomingContext(t.Context(), metadata.Pairs(callerKey, "{")),
		"two":         metadata.NewIncomingContext(t.Context(), metadata.Pairs(callerKey, "{}", callerKey, "{}")),
	} {
		called := false
		_, err := asCaller(ctx, nil, nil, func(context.Context, any) (any, error) { called = true; return nil, nil })
		if called || status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: called %v, %v", name, called, err)
		}
	}
}

// TestPanicFailsItsCallOnly makes calls that panic, and one that does not.
func TestPanicFailsItsCallOnly(t *testing.T) {
	t.Parallel()
	c, b := fronted(t)
	_, err := c.Stat(t.Context(), &ctxfsv1.StatRequest{Path: "/panic"})
	stream, streamErr := c.Glob(t.Context(), &ctxfsv1.GlobRequest{Path: "/panic"})
	if streamErr == nil {
		_, streamErr = stream.Recv()
	}
	if status.Code(err) != codes.Internal || status.Code(streamErr) != codes.Internal {
		t.Errorf("got %v and %v, want INTERNAL", err, streamErr)
	}
	for _, e := range b.logged.All() {
		stack, _ := e.ContextMap()["stack"].(string)
		if !strings.Contains(stack, "front_test.go") || e.ContextMap()["panic"] != "no such luck" {
			t.Errorf("logged %v", e)
		}
	}
	if n := b.logged.Len(); n != 2 {
		t.Errorf("%d panics are logged, want 2", n)
	}
	if _, err := c.Stat(t.Context(), &ctxfsv1.StatRequest{Path: "/x"}); status.Code(err) != codes.NotFound {
		t.Errorf("the next call: %v", err)
	}
}
