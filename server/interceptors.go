package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// interceptors surround every call: with recovery, request ID, metrics, log, authentication, limits and deadline, from the outside in.
// Unary calls have one function for all of it, and streams another, since each link of a chain costs every call an allocation.
type interceptors struct {
	log     *zap.Logger
	auth    *authenticator
	metrics *metrics
	streams *streamTable
	// limits is nil when there are none.
	limits *panelLimits
	// maxRequest is how much content one request may carry, in bytes.
	maxRequest int
	// codec is gRPC's.
	codec *codec.Codec
	// audit is nil when there is none.
	audit *auditLog
	// changes is nil when there are no feeds.
	changes *fsservice.Recorder
	// handleOf returns what the owner's handle fd stands for.
	handleOf func(owner string, fd int32) (handles.Spec, bool)
	// prefix and count make request IDs.
	prefix string
	count  atomic.Uint64
}

func newInterceptors(log *zap.Logger, auth *authenticator, m *metrics, streams *streamTable) *interceptors {
	return &interceptors{log: log, auth: auth, metrics: m, streams: streams, prefix: rand.Text()[:8] + "-"}
}

// call has what is known of a call from its beginning to its end.
type call struct {
	method    *method.Method
	transport string
	id        panels.Identity
	start     time.Time
	requestID atomic.Pointer[string] // set on first use
	// counted is the counter that the call is in; nil for none.
	counted *atomic.Int64
	// about is set at most once. A stream's handler may outlive the call, and set about and wrote while the call is recorded.
	about atomic.Pointer[about]
	// wrote is how much content a stream has written.
	wrote atomic.Int64
	// recorded says that the call is in the feed of its context.
	recorded atomic.Bool
}

// about is what must be recorded of a call before it ends.
type about struct {
	// first is a stream's first message, or the query of an HTTP request.
	first any
	// handle is what the handle stands for that a recorded call is about; nil for none.
	handle *handles.Spec
}

// handle returns what the handle stands for that a recorded call is about; nil when there is none.
func (c *call) handle() *handles.Spec {
	if a := c.about.Load(); a != nil {
		return a.handle
	}
	return nil
}

// first returns the first message of a stream; nil when it is not known.
func (c *call) first() any {
	if a := c.about.Load(); a != nil {
		return a.first
	}
	return nil
}

// operation surrounds one of a session's operations, as unary does a call. It sets no deadline: the client cancels operations that take
// too long.
func (i *interceptors) operation(ctx context.Context, transport string, m *method.Method, do func(begin func(req any)) (any, error)) (resp any, err error) {
	i.metrics.inFlight.Inc()
	c := &call{method: m, transport: transport, id: panels.IdentityFrom(ctx), start: time.Now()}
	var req any
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, i.panicked(m.Name, p)
		}
		err = i.record(ctx, c, req, resp, err)
	}()
	if err := mayCall(c.id, m); err != nil {
		return nil, err
	}
	if err := i.limits.enter(c); err != nil {
		return nil, err
	}
	return do(func(r any) {
		req = r
		i.note(c, r)
	})
}

// serveUnary serves a unary call. It receives the request once the caller is known, and counts the reply until it is sent.
func (i *interceptors) serveUnary(method string, handler grpc.MethodHandler, srv any, stream grpc.ServerStream) error {
	var reply *budget.Hold
	resp, err := i.unary(stream.Context(), method, func(ctx context.Context, c *call, req *any, inner grpc.UnaryServerInterceptor) (any, error) {
		var request *budget.Hold
		request, reply = i.holds(ctx, c.id)
		r, err := i.receiver(ctx, c, request)
		if err != nil {
			return nil, err
		}
		defer r.hold.Release()
		return handler(srv, budget.With(ctx, reply), func(m any) error {
			*req = m
			return r.only(ctx, m)
		}, inner)
	})
	if err != nil {
		reply.Release()
		return err
	}
	m, err := asMessage(resp)
	if err != nil {
		return err
	}
	return codec.SendHeld(stream, m, reply)
}

// unary surrounds a unary call. serve receives the request, and calls the handler through inner.
func (i *interceptors) unary(
	ctx context.Context, method string, serve func(ctx context.Context, c *call, req *any, inner grpc.UnaryServerInterceptor) (any, error),
) (resp any, err error) {
	c := i.begin(ctx, method)
	var req any
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, i.panicked(c.method.Name, p)
		}
		err = i.end(ctx, c, req, resp, err)
	}()
	if c.id, err = i.auth.identify(ctx, c.method); err != nil {
		return nil, err
	}
	if err := i.limits.enter(c); err != nil {
		return nil, err
	}
	return serve(ctx, c, &req, func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		i.note(c, req)
		inner, cancel := withDefaultDeadline(withCaller(ctx, c), c.start, c.method, req)
		defer cancel()
		return handler(inner, req)
	})
}

// withCaller returns the context of a call's handler. What a console reads does not count as a use of a context: its page refreshes itself.
func withCaller(ctx context.Context, c *call) context.Context {
	if c.id.Console && c.method.Effect() == ctxfsv1.Effect_EFFECT_READS {
		ctx = contexts.Observe(ctx)
	}
	return panels.WithIdentity(ctx, c.id)
}

func (i *interceptors) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := i.begin(ss.Context(), info.FullMethod)
	return i.around(ss.Context(), c, i.streams.run, func(ctx context.Context) error {
		request, reply := i.holds(ctx, c.id)
		r, err := i.receiver(ss.Context(), c, request)
		if err != nil {
			return err
		}
		defer r.hold.Release()
		return handler(srv, &observedStream{streamWithContext{ss, budget.With(ctx, reply)}, i, c, r, info.IsClientStream})
	})
}

// runStream is the type of streamTable.run and runHere.
type runStream func(context.Context, panels.Identity, func(context.Context) error) error

// around surrounds a stream: gRPC's, a WebSocket or a request for content. run runs serve.
func (i *interceptors) around(ctx context.Context, c *call, run runStream, serve func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = i.panicked(c.method.Name, p)
		}
		err = i.end(ctx, c, c.first(), nil, err)
	}()
	if c.id, err = i.auth.identify(ctx, c.method); err != nil {
		return err
	}
	if err := i.limits.enter(c); err != nil {
		return err
	}
	return run(withCaller(ctx, c), c.id, func(ctx context.Context) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = i.panicked(c.method.Name, p)
			}
		}()
		// If the panel was closed before the stream was in the table, closing it did not end the stream.
		now, err := i.auth.identify(ctx, c.method)
		if err != nil {
			return err
		}
		if !now.ExpiresAt.Equal(c.id.ExpiresAt) { // nor did renewing its site
			extendStream(ctx, now.ExpiresAt)
		}
		return serve(ctx)
	})
}

// observedStream counts and bounds the messages of a stream.
type observedStream struct {
	streamWithContext
	i *interceptors
	c *call
	r *receiver
	// many says that the client may send more than one message.
	many bool
}

// RecvMsg implements grpc.ServerStream.
func (s *observedStream) RecvMsg(m any) error {
	receive := s.r.only
	if s.many {
		receive = s.r.receive
	}
	if err := receive(s.ctx, m); err != nil {
		return err
	}
	if _, ok := m.(*ctxfsv1.SessionRequest); ok {
		s.r.hold.Release() // a session counts the content of its operations
	} else if s.c.about.Load() == nil {
		a := s.i.aboutHandle(s.c, m)
		if a == nil {
			a = &about{}
		}
		a.first = m
		s.c.about.Store(a)
	}
	return nil
}

// SendMsg implements grpc.ServerStream.
func (s *observedStream) SendMsg(m any) error {
	if r, ok := m.(*ctxfsv1.WriteStreamResponse); ok {
		s.c.wrote.Store(r.GetBytesWritten())
	}
	if r, ok := m.(*ctxfsv1.ImportResponse); ok {
		s.c.wrote.Store(r.GetSummary().GetBytes())
	}
	if d := s.c.method.Desc; d != nil && !d.IsStreamingServer() { // it is the answer
		s.i.changed(s.ctx, s.c, s.c.first(), m, nil)
	}
	return s.ServerStream.SendMsg(m)
}

func (i *interceptors) begin(ctx context.Context, name string) *call {
	i.metrics.inFlight.Inc()
	return &call{method: method.Of(name), transport: connOf(ctx).transport(), start: time.Now()}
}

// end records a call and returns its error as the status that travels, with the call's ID.
func (i *interceptors) end(ctx context.Context, c *call, req, resp any, err error) error {
	connOf(ctx).accepted.callEnded(errors.Is(ctx.Err(), context.Canceled))
	err = i.record(ctx, c, req, resp, err)
	if err != nil {
		// It reaches the client even after the header was sent.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(method.RequestIDKey, i.requestID(ctx, c)))
	}
	return err
}

// record counts and logs a call and returns its error as the status that travels.
func (i *interceptors) record(ctx context.Context, c *call, req, resp any, err error) error {
	i.metrics.inFlight.Dec()
	i.limits.leave(c)
	i.changed(ctx, c, req, resp, err)
	if c.id.Console {
		i.auth.consoles.Used(c.id.TokenHash)
	}
	err = fserrpb.ToStatus(err)
	took := time.Since(c.start)
	i.metrics.observe(c, err, took)
	if i.audit != nil {
		i.audit.record(c, req, resp, err, took, peerName(ctx), i.requestID(ctx, c))
	}
	level := zapcore.DebugLevel
	if c.id.Role == panels.RoleNone && err != nil {
		level = zapcore.InfoLevel
	}
	if entry := i.log.Check(level, "call"); entry != nil {
		entry.Write(fields(ctx, c, i.requestID(ctx, c), req, resp, err, took)...)
	}
	return err
}

func (i *interceptors) panicked(method string, p any) error {
	i.log.Error("a call panicked", zap.String("op", method), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
	return &fserr.Error{Code: fserr.EIO, Detail: "internal error", Hint: "the server's log has the cause", Err: fmt.Errorf("panic: %v", p)}
}

// requestID returns the caller's ID when it is short and printable, else a new one. A call keeps its ID.
func (i *interceptors) requestID(ctx context.Context, c *call) string {
	if id := c.requestID.Load(); id != nil {
		return *id
	}
	id := i.newRequestID(ctx)
	c.requestID.CompareAndSwap(nil, &id)
	return *c.requestID.Load()
}

func (i *interceptors) newRequestID(ctx context.Context) string {
	if v := metadata.ValueFromIncomingContext(ctx, method.RequestIDKey); len(v) == 1 && len(v[0]) <= 64 && isPrintable(v[0]) {
		return v[0]
	}
	return i.prefix + strconv.FormatUint(i.count.Add(1), 36)
}

func isPrintable(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

func fields(ctx context.Context, c *call, requestID string, req, resp any, err error, took time.Duration) []zap.Field {
	f := []zap.Field{zap.String("op", c.method.Name), zap.Float64("dur_ms", float64(took.Microseconds())/1000), zap.String("request_id", requestID)}
	add := func(key, value string) {
		if value != "" {
			f = append(f, zap.String(key, value))
		}
	}
	add("panel", c.id.Panel)
	context := string(c.id.Context)
	if r, ok := req.(interface{ GetContextId() string }); ok && r.GetContextId() != "" {
		context = r.GetContextId()
	}
	add("context", context)
	if r, ok := req.(interface{ GetPath() string }); ok {
		add("path", fserrpb.Printable(r.GetPath()))
	}
	if err != nil {
		add("errno", fserrpb.ReasonOf(err))
		add("error", status.Convert(err).Message())
	}
	if n, ok := payload(req, resp); ok {
		f = append(f, zap.Int64("bytes", n))
	}
	add("peer", peerName(ctx))
	return f
}

// peerName names the other end; "" when it is not known.
func peerName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if conn := connOf(ctx); conn.unix {
		return "unix:" + strconv.Itoa(conn.pid)
	}
	return p.Addr.String()
}

// payload returns the bytes of content that a call carried.
func payload(req, resp any) (int64, bool) {
	switch r := resp.(type) {
	case interface{ GetBytesWritten() int64 }:
		return r.GetBytesWritten(), true
	case interface{ GetBytesRead() int64 }:
		return r.GetBytesRead(), true
	case interface {
		GetData() []byte
		GetText() string
	}:
		return int64(len(r.GetData()) + len(r.GetText())), true
	}
	return 0, false
}
