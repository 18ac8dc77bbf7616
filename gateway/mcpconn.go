package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
)

// localConn calls RPCs of this server, in this process, with the token of a request. The server authenticates, limits and records each
// call as one that came over HTTP.
type localConn struct {
	g *Gateway
	// info and addr are the client's.
	info credentials.AuthInfo
	addr remoteAddr
	// ctx ends all calls.
	ctx context.Context //nolint:containedctx // it belongs to all calls

	mu sync.Mutex
	md metadata.MD
	// calls are the streams that run.
	calls users
}

var _ grpc.ClientConnInterface = (*localConn)(nil)

// identity returns the metadata of further calls.
func (c *localConn) identity() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.md
}

// renew replaces the metadata of further calls.
func (c *localConn) renew(md metadata.MD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.md = md
}

// caller returns ctx as the server gets it with a call: with the token of the request that the call is made for, or the session's.
func (c *localConn) caller(ctx context.Context) context.Context {
	if q := mcpRequestOf(ctx); q != nil {
		return callContext(ctx, q.r, q.md, q.info)
	}
	return peer.NewContext(metadata.NewIncomingContext(ctx, c.identity()), &peer.Peer{Addr: c.addr, AuthInfo: c.info})
}

// begin returns the context of a call, which ends with ctx and with all calls. The caller must call end.
func (c *localConn) begin(ctx context.Context, rpc string) (s *localStream, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	mcpRequestOf(ctx).hold(nil) // while a call waits for memory, nothing may be held
	s = &localStream{g: c.g, rpc: rpc, received: ctx, responses: make(chan []byte), ended: make(chan struct{})}
	s.ctx = grpc.NewContextWithServerTransportStream(c.caller(ctx), localTransport{s})
	return s, func() {
		stop()
		cancel()
	}
}

// Invoke implements grpc.ClientConnInterface.
func (c *localConn) Invoke(ctx context.Context, rpc string, args, reply any, _ ...grpc.CallOption) error {
	s, end := c.begin(ctx, rpc)
	defer end()
	if err := s.SendMsg(args); err != nil {
		return err
	}
	s.reply = reply
	return c.g.cfg.Calls.Serve(rpc, serverSide{s})
}

// NewStream implements grpc.ClientConnInterface. The call begins when the request has been sent.
func (c *localConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, rpc string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if desc.ClientStreams {
		return nil, fserr.EOPNOTSUPP
	}
	if !c.calls.enter() {
		return nil, errStopping
	}
	s, end := c.begin(ctx, rpc)
	s.begun = make(chan struct{})
	go func() {
		defer c.calls.leave()
		defer end()
		defer close(s.ended)
		select {
		case <-s.begun:
			s.err = c.g.cfg.Calls.Serve(rpc, serverSide{s})
		case <-s.received.Done():
			s.err = s.received.Err()
		}
	}()
	return s, nil
}

// localStream is a call in this process, as the client sees it.
type localStream struct {
	g   *Gateway
	rpc string
	// received ends with the client's context, ctx is what the server sees.
	received, ctx context.Context //nolint:containedctx // grpc.ClientStream has one
	request       proto.Message
	// reply gets the response of a unary call.
	reply any
	// begun is closed when a stream's request was sent, ended when the call has ended, with err.
	begun, ended chan struct{}
	responses    chan []byte
	err          error
}

var _ grpc.ClientStream = (*localStream)(nil)

// Header implements grpc.ClientStream.
func (*localStream) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements grpc.ClientStream.
func (*localStream) Trailer() metadata.MD { return nil }

// CloseSend implements grpc.ClientStream.
func (*localStream) CloseSend() error { return nil }

// Context implements grpc.ClientStream.
func (s *localStream) Context() context.Context { return s.received }

// SendMsg implements grpc.ClientStream. A call has one request.
func (s *localStream) SendMsg(m any) error {
	request, ok := m.(proto.Message)
	if !ok || s.request != nil {
		return fmt.Errorf("a call of %s has one request, and it is a message", s.rpc)
	}
	s.request = request
	if s.begun != nil {
		close(s.begun)
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *localStream) RecvMsg(m any) error {
	select {
	case data := <-s.responses:
		return decodeInto(data, m)
	case <-s.ended:
		if s.err != nil {
			return s.err
		}
		return io.EOF
	}
}

func decodeInto(data []byte, m any) error {
	into, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("a response is decoded into a %T", m)
	}
	return proto.Unmarshal(data, into)
}

// serverSide is a localStream as the server sees it.
type serverSide struct{ *localStream }

var _ grpc.ServerStream = serverSide{}

// Context implements grpc.ServerStream.
func (s serverSide) Context() context.Context { return s.ctx }

// SetHeader implements grpc.ServerStream.
func (serverSide) SetHeader(metadata.MD) error { return errNoHeaders }

// SendHeader implements grpc.ServerStream.
func (serverSide) SendHeader(metadata.MD) error { return errNoHeaders }

// SetTrailer implements grpc.ServerStream.
func (serverSide) SetTrailer(metadata.MD) {}

// RecvMsg implements grpc.ServerStream. The server receives by ReceiveRequest.
func (serverSide) RecvMsg(any) error {
	return errors.New("the request of a call in this process is received by ReceiveRequest")
}

// SendMsg implements grpc.ServerStream.
func (s serverSide) SendMsg(m any) error {
	pieces, err := s.g.codec.Marshal(m)
	if err != nil {
		return err
	}
	data := pieces.Materialize()
	mcpRequestOf(s.ctx).hold(pieces.Free)
	if s.reply != nil {
		return decodeInto(data, s.reply)
	}
	select {
	case s.responses <- data:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// localTransport is what gRPC's functions, and the server, find in the context of a call.
type localTransport struct{ s *localStream }

var _ grpc.ServerTransportStream = localTransport{}

// Method implements grpc.ServerTransportStream.
func (t localTransport) Method() string { return t.s.rpc }

// SetHeader implements grpc.ServerTransportStream.
func (localTransport) SetHeader(metadata.MD) error { return errNoHeaders }

// SendHeader implements grpc.ServerTransportStream.
func (localTransport) SendHeader(metadata.MD) error { return errNoHeaders }

// SetTrailer implements grpc.ServerTransportStream.
func (localTransport) SetTrailer(metadata.MD) error { return nil }

// ReceiveRequest copies the request into m, as rpcStream.ReceiveRequest receives one.
func (t localTransport) ReceiveRequest(_ context.Context, m proto.Message, limit int, reserve func(bytes int64) error) (size int, err error) {
	if size = proto.Size(t.s.request); size > limit {
		return 0, &TooLargeError{size}
	}
	if mcpRequestOf(t.s.ctx) == nil { // the message that the request is made from counts already
		if err := reserve(int64(size)); err != nil {
			return 0, err
		}
	}
	proto.Merge(m, t.s.request)
	return size, nil
}

// mcpRequest is a request to /v1/mcp. The calls that are made for it have its token and its connection.
type mcpRequest struct {
	r    *http.Request
	md   metadata.MD
	info credentials.AuthInfo
	// calls are those under way.
	calls users

	mu sync.Mutex
	// free gives back what the last response holds of the panel's memory.
	free func()
}

type mcpRequestKey struct{}

// mcpRequestOf returns the request that a call is made for; nil if it is made for the session, or before there is one.
func mcpRequestOf(ctx context.Context) *mcpRequest {
	q, _ := ctx.Value(mcpRequestKey{}).(*mcpRequest)
	return q
}

// hold lets a response count until the next call, or the end of the request: what a tool returns is made of it. free gives back what the
// response holds; nil for no response.
func (q *mcpRequest) hold(free func()) {
	if q != nil {
		q.mu.Lock()
		free, q.free = q.free, free
		q.mu.Unlock()
	}
	if free != nil {
		free()
	}
}

// mcpRequestHeader has the ID of a request in what the SDK passes on with its message.
const mcpRequestHeader = "Ctxfs-Mcp-Request"

// answer answers a request. The calls that are made for it end with it, since nobody else receives their results.
func (s *mcpSession) answer(w *mcpWriter, q *mcpRequest) {
	defer onEnd(s.conn.ctx, func(time.Time) error { return w.end() })()
	id := rand.Text()
	q.r.Header.Set(mcpRequestHeader, id)
	s.t.mu.Lock()
	s.requests[id] = q
	s.t.mu.Unlock()
	ctx, leave := context.WithCancel(q.r.Context())
	q.r = q.r.WithContext(ctx)
	s.handler.ServeHTTP(w, q.r)
	s.t.mu.Lock()
	delete(s.requests, id)
	s.t.mu.Unlock()
	leave()
	q.calls.end()
	q.hold(nil)
}

// asRequested lets the calls of a message have the token of the request that carried it, and end with that. Notifications make no calls.
func (s *mcpSession) asRequested(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil { // the SDK has goroutines of its own, whose panics would end the server
				s.t.g.cfg.Log.Error("a call of MCP panicked", zap.String("op", method), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
				err = errors.New("internal error; the server's log has the cause")
			}
		}()
		extra := req.GetExtra()
		if strings.HasPrefix(method, "notifications/") || extra == nil {
			return next(ctx, method, req)
		}
		s.t.mu.Lock()
		q := s.requests[extra.Header.Get(mcpRequestHeader)]
		s.t.mu.Unlock()
		if q == nil || !q.calls.enter() {
			return nil, errors.New("the client has left")
		}
		defer q.calls.leave()
		ctx, cancel := context.WithCancel(context.WithValue(ctx, mcpRequestKey{}, q))
		defer cancel()
		defer context.AfterFunc(q.r.Context(), cancel)()
		result, err = next(ctx, method, req)
		if r, ok := result.(*sdk.CallToolResult); ok && err == nil && isSmall(r) {
			q.hold(nil)
		}
		return result, err
	}
}

// isSmall reports whether a result is a text, which has a limit that is much smaller than what it was read from.
func isSmall(r *sdk.CallToolResult) bool {
	for _, c := range r.Content {
		if _, ok := c.(*sdk.TextContent); !ok {
			return false
		}
	}
	return true
}
