// Package session serves sessions: streams on which a client has many calls under way, whose replies come by id. It carries every
// RPC that is unary or streams its response, of every service that is registered with its Calls. It knows RPCs by the properties
// that the method table gives (internal/method), and names no service.
//
// A Server owns the rules of a session: order, bounds, batches, cancelling, and the lease of its client instance. Its owner
// authorizes, limits and records each call (Config.Around).
package session

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// MaxMessage bounds a message of a session, in bytes. Links refuse larger ones.
const MaxMessage = 1 << 20

// The bounds of a session that SessionReady reports.
const (
	// maxInFlight bounds the calls under way.
	maxInFlight = 128
	// maxWatches bounds the watches among them.
	maxWatches = 64
	// maxContent bounds the content of a request and of a Read, in bytes.
	maxContent = 256 << 10
)

// holdKeepalive is how long a hold is silent before it sends a sign of life.
const holdKeepalive = 30 * time.Second

// Link carries a session's messages: a gRPC stream or a WebSocket. Send and Recv are each called by one goroutine at a time.
type Link interface {
	// Recv returns io.EOF when the client sends nothing more and still reads.
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

// Shares are the shares of its panel's memory that a connection has; nil counts nothing. Requests and replies have shares of their
// own: a reply may wait for memory while later requests wait for the same handle.
type Shares struct{ Requests, Replies *budget.Share }

// Batches is notified of calls that came in one message, which may share work. Its methods are called by one goroutine at a time.
type Batches interface {
	// Begin says that the calls that start from now on came in one message.
	Begin()
	// End says that they did not.
	End()
}

// Config of a Server. Zero values do without, except as noted.
type Config struct {
	// Leases is notified of sessions and holds. Required.
	Leases *panels.Leases
	// Calls are the RPCs that sessions may call. Required.
	Calls *Calls
	// Refresh returns the identity that a further token of the same panel gives, and lets the stream of ctx last as long as that
	// token. It refuses the token of another panel. nil refuses all.
	Refresh func(ctx context.Context, token string) (panels.Identity, error)
	// Around surrounds each call as an interceptor does: it authorizes, limits and records the call, and recovers its panic.
	// transport names the session's link. do calls begin with the decoded request before it runs the call. Around returns what do
	// returns.
	Around func(ctx context.Context, transport string, m *method.Method, do func(begin func(req any)) (any, error)) (any, error)
	// Shares returns the shares of memory that the connection of ctx has. nil counts nothing.
	Shares func(ctx context.Context) Shares
	// Batches returns a context for the calls of one session, and what is notified of those that came together.
	Batches func(ctx context.Context) (context.Context, Batches)
}

// Server serves sessions and holds.
type Server struct {
	cfg      Config
	watchdog watchdog
	// open counts the sessions.
	open atomic.Int64
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Refresh == nil {
		cfg.Refresh = func(context.Context, string) (panels.Identity, error) {
			return panels.Identity{}, &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "this server takes no further token", Hint: "begin another session"}
		}
	}
	if cfg.Around == nil {
		cfg.Around = func(_ context.Context, _ string, _ *method.Method, do func(func(any)) (any, error)) (any, error) {
			return do(func(any) {})
		}
	}
	if cfg.Shares == nil {
		cfg.Shares = func(context.Context) Shares { return Shares{} }
	}
	if cfg.Batches == nil {
		cfg.Batches = func(ctx context.Context) (context.Context, Batches) { return ctx, noBatches{} }
	}
	return &Server{cfg: cfg}
}

type noBatches struct{}

func (noBatches) Begin() {}
func (noBatches) End()   {}

// Count returns the number of open sessions.
func (s *Server) Count() int64 { return s.open.Load() }

// Wait waits for the goroutines that sessions leave behind for a moment. All sessions must have ended.
func (s *Server) Wait() { s.watchdog.running.Wait() }

// Session implements FsService.
func (s *Server) Session(stream grpc.BidiStreamingServer[ctxfsv1.SessionRequest, ctxfsv1.SessionResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return unlessEOF(err)
	}
	if first.GetOpen().GetToken() != "" {
		return fail(fserr.Invalid("open's token is for WebSocket; over gRPC it is the metadata 'authorization: Bearer TOKEN'"), "session")
	}
	return s.Serve(stream.Context(), first, streamLink{stream}, "session")
}

// Serve serves a session whose first message was received. It returns when the client sends nothing more and everything was
// answered, when the link breaks, or when ctx ends. The identity of the caller is ctx's. transport names the link in metrics and
// logs.
func (s *Server) Serve(ctx context.Context, first *ctxfsv1.SessionRequest, link Link, transport string) error {
	id, err := callerOf(ctx)
	if err != nil {
		return fail(err, "session")
	}
	instance, err := instanceOf(first.GetOpen())
	if err != nil {
		return fail(err, "session")
	}
	id.Instance = instance
	release, resumed := s.cfg.Leases.Hold(id.Owner, instance)
	defer release()
	s.open.Add(1)
	defer s.open.Add(-1)
	se := newSession(ctx, s, id, link, first.GetOpen().GetBatches(), transport)
	defer se.end()
	err = se.replies.send(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Ready{Ready: &ctxfsv1.SessionReady{
		ClientInstance: instance, Resumed: resumed, MaxInFlight: maxInFlight, MaxWatches: maxWatches, MaxContent: maxContent,
		GraceMs: s.cfg.Leases.Grace().Milliseconds(), ContextId: string(id.Context), ExpiresNs: expiresNs(id), ReadOnly: id.ReadOnly,
	}}}, nil)
	if err != nil {
		return err
	}
	return se.serve(first)
}

// Hold implements FsService.
func (s *Server) Hold(req *ctxfsv1.HoldRequest, stream grpc.ServerStreamingServer[ctxfsv1.HoldResponse]) error {
	id, err := callerOf(stream.Context())
	if err == nil {
		err = panels.CheckInstance(req.GetClientInstance())
	}
	if err != nil {
		return fail(err, "hold")
	}
	release, resumed := s.cfg.Leases.Hold(id.Owner, req.GetClientInstance())
	defer release()
	held := &ctxfsv1.HoldHeld{Resumed: resumed, GraceMs: s.cfg.Leases.Grace().Milliseconds()}
	if err := stream.Send(&ctxfsv1.HoldResponse{Notice: &ctxfsv1.HoldResponse_Held{Held: held}}); err != nil {
		return err
	}
	tick := time.NewTicker(holdKeepalive)
	defer tick.Stop()
	for {
		select {
		case <-stream.Context().Done():
			return fail(stream.Context().Err(), "hold")
		case <-tick.C:
		}
		if err := stream.Send(&ctxfsv1.HoldResponse{Notice: &ctxfsv1.HoldResponse_Keepalive{Keepalive: &ctxfsv1.HoldKeepalive{}}}); err != nil {
			return err
		}
	}
}

func callerOf(ctx context.Context) (panels.Identity, error) {
	id := panels.IdentityFrom(ctx)
	if id.Role == panels.RoleNone {
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "the caller is not known"}
	}
	return id, nil
}

// instanceOf returns the client instance that a session is for; a new one when open names none.
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

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// fail returns err as the status of op.
func fail(err error, op string) error {
	if err == nil {
		return nil
	}
	if _, done := err.(interface{ GRPCStatus() *status.Status }); done { // a status of a cause is not the error's own
		return err
	}
	return fserrpb.ToStatus(fserr.Wrap(err, op, "", ""))
}
