package fsservice

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The bounds of a session, which SessionReady tells.
const (
	// MaxInFlight bounds the operations under way.
	MaxInFlight = 128
	// MaxWatches bounds the watches among them.
	MaxWatches = 64
	// MaxContent bounds the content of a request and of a Read, in bytes.
	MaxContent = 256 << 10
)

// Link carries a session's messages: a gRPC stream, or a WebSocket. Send and Recv are each called by one goroutine at a time.
type Link interface {
	// Recv returns io.EOF when the client has said all.
	Recv() (*ctxfsv1.SessionRequest, error)
	// Send sends a message. It releases h, which may be nil, once the message takes no memory any more.
	Send(m *ctxfsv1.SessionResponse, h *budget.Hold) error
}

// streamLink is the Link of a gRPC stream.
type streamLink struct {
	grpc.BidiStreamingServer[ctxfsv1.SessionRequest, ctxfsv1.SessionResponse]
}

// Send implements Link.
func (l streamLink) Send(m *ctxfsv1.SessionResponse, h *budget.Hold) error {
	return codec.SendHeld(l.BidiStreamingServer, m, h)
}

// Around surrounds a call that came by a session as an interceptor does: it authorizes, limits and observes it, and catches its
// panic. transport is what the session came by. do calls begin with the decoded request before it runs the call. Around returns
// what do returns.
type Around func(ctx context.Context, transport string, m *method.Method, do func(begin func(req any)) (any, error)) (any, error)

// Shares are what a connection may hold of its panel's memory; nil counts nothing. Requests and replies have shares of their own: a
// reply may wait for memory while requests that come after it wait for the same handle.
type Shares struct{ Requests, Replies *budget.Share }

// SessionConfig is what sessions need from their server. Zero values do without.
type SessionConfig struct {
	// Leases is told of sessions and holds. Required.
	Leases *panels.Leases
	// Refresh returns whom a further token of the panel of ctx names, and lets the stream of ctx
	// go on as long as that token lives; the token of another panel it refuses. nil refuses all.
	Refresh func(ctx context.Context, token string) (panels.Identity, error)
	// Around surrounds each operation.
	Around Around
	// Calls are the RPCs that sessions may call; nil for none.
	Calls *Calls
	// Shares returns what the connection of ctx may hold of its panel's memory. nil counts nothing.
	Shares func(ctx context.Context) Shares
}

func (c SessionConfig) withDefaults() SessionConfig {
	if c.Refresh == nil {
		c.Refresh = func(context.Context, string) (panels.Identity, error) {
			return panels.Identity{}, &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "this server takes no further token", Hint: "begin another session"}
		}
	}
	if c.Calls == nil {
		c.Calls = NewCalls(nil)
	}
	if c.Shares == nil {
		c.Shares = func(context.Context) Shares { return Shares{} }
	}
	if c.Around == nil {
		c.Around = func(_ context.Context, _ string, _ *method.Method, do func(func(any)) (any, error)) (any, error) {
			return do(func(any) {})
		}
	}
	return c
}

// Session implements FsService.
func (s *Service) Session(stream grpc.BidiStreamingServer[ctxfsv1.SessionRequest, ctxfsv1.SessionResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return unlessEOF(err)
	}
	if first.GetOpen().GetToken() != "" {
		return fail(invalid("open's token is for WebSocket; over gRPC it is the metadata 'authorization: Bearer TOKEN'"), "session", "", "")
	}
	return s.ServeSession(stream.Context(), first, streamLink{stream}, "session")
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ServeSession serves a session whose first message has come, until its client has said
// all and everything was answered, the link breaks, or ctx ends. The caller's identity is
// ctx's; transport is what metrics and logs call the link.
func (s *Service) ServeSession(ctx context.Context, first *ctxfsv1.SessionRequest, link Link, transport string) error {
	id, err := callerOf(ctx)
	if err != nil {
		return fail(err, "session", "", "")
	}
	instance, err := instanceOf(first.GetOpen())
	if err != nil {
		return fail(err, "session", "", "")
	}
	id.Instance = instance
	release, resumed := s.sessions.Leases.Hold(id.Owner, instance)
	defer release()
	s.open.Add(1)
	defer s.open.Add(-1)
	se := newSession(ctx, s, id, link, first.GetOpen().GetBatches(), transport)
	defer se.end()
	err = se.replies.send(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Ready{Ready: &ctxfsv1.SessionReady{
		ClientInstance: instance, Resumed: resumed, MaxInFlight: MaxInFlight, MaxWatches: MaxWatches, MaxContent: MaxContent,
		GraceMs: s.sessions.Leases.Grace().Milliseconds(), ContextId: string(id.Context), ExpiresNs: expiresNs(id), ReadOnly: id.ReadOnly,
	}}}, nil)
	if err != nil {
		return err
	}
	return se.serve()
}

// Sessions returns the number of open sessions.
func (s *Service) Sessions() int64 { return s.open.Load() }

func callerOf(ctx context.Context) (panels.Identity, error) {
	id := panels.IdentityFrom(ctx)
	if id.Role == panels.RoleNone {
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "the caller is not known"}
	}
	return id, nil
}

// instanceOf returns the client instance that a session is for; a new one when it names none.
func instanceOf(open *ctxfsv1.SessionOpen) (string, error) {
	switch name := open.GetClientInstance(); {
	case open == nil:
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "the session's first message is not open", Hint: "send open first, once"}
	case name == "":
		return rand.Text(), nil
	default:
		return name, panels.CheckInstance(name)
	}
}

func expiresNs(id panels.Identity) int64 {
	if id.ExpiresAt.IsZero() {
		return 0
	}
	return id.ExpiresAt.UnixNano()
}

// Hold implements FsService.
func (s *Service) Hold(req *ctxfsv1.HoldRequest, stream grpc.ServerStreamingServer[ctxfsv1.HoldResponse]) error {
	id, err := callerOf(stream.Context())
	if err == nil {
		err = panels.CheckInstance(req.GetClientInstance())
	}
	if err != nil {
		return fail(err, "hold", "", "")
	}
	release, resumed := s.sessions.Leases.Hold(id.Owner, req.GetClientInstance())
	defer release()
	held := &ctxfsv1.HoldHeld{Resumed: resumed, GraceMs: s.sessions.Leases.Grace().Milliseconds()}
	if err := stream.Send(&ctxfsv1.HoldResponse{Notice: &ctxfsv1.HoldResponse_Held{Held: held}}); err != nil {
		return err
	}
	tick := time.NewTicker(watchKeepalive)
	defer tick.Stop()
	for {
		select {
		case <-stream.Context().Done():
			return fail(stream.Context().Err(), "hold", "", "")
		case <-tick.C:
		}
		if err := stream.Send(&ctxfsv1.HoldResponse{Notice: &ctxfsv1.HoldResponse_Keepalive{Keepalive: &ctxfsv1.HoldKeepalive{}}}); err != nil {
			return err
		}
	}
}
