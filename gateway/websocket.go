package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/webconn"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/session"
)

const (
	// maxOpen bounds the first message, in bytes.
	maxOpen = 16 << 10
	// maxReason is what a WebSocket's close carries, in bytes.
	maxReason = 123
	// closeTime is how long a client may take to answer a close.
	closeTime = 400 * time.Millisecond
	// sendBuffer bounds what the system buffers for a WebSocket, in bytes. Without a bound a ping could wait for minutes behind what a
	// slow client has not received.
	sendBuffer = 256 << 10
)

// errEncoding refuses a message.
var errEncoding = errors.New("no SessionRequest")

// serveSession answers GET /v1/session with a session over WebSocket, which has what FsService/Session has over gRPC. A page sends its
// token as a message. It never sends a cookie, which a browser would send for other pages as well.
func (g *Gateway) serveSession(w http.ResponseWriter, r *http.Request) {
	if !g.enter(w, r) {
		return
	}
	defer g.requests.leave()
	conn, done := g.cfg.Calls.Conn(r.Context(), true)
	defer done()
	link, err := g.accept(w, r)
	if err != nil {
		return // and was answered
	}
	link.end(g.runSession(r, link, conn))
}

// runSession returns why the session ended.
func (g *Gateway) runSession(r *http.Request, link *webLink, conn credentials.AuthInfo) error {
	first, err := g.first(link)
	if err != nil {
		return err
	}
	md, err := g.tokenOf(r, first)
	if err != nil {
		return err
	}
	ctx := callContext(context.WithoutCancel(r.Context()), r, md, conn)
	return g.cfg.Calls.Call(ctx, ctxfsv1.FsService_Session_FullMethodName, nil, func(ctx context.Context, _ *atomic.Int64) error {
		if !link.users.enter() {
			return fserr.ECANCELED
		}
		defer link.users.leave()
		link.opened()
		err := g.cfg.Sessions.Serve(ctx, first, link, "websocket")
		if link.left.Load() {
			return nil // the client ended the session
		}
		return err
	})
}

// first receives the first message. It fails when none comes in time, or the server stops.
func (g *Gateway) first(link *webLink) (*ctxfsv1.SessionRequest, error) {
	if err := link.conn.AwaitFirst(time.Now().Add(g.OpenTime)); err != nil {
		return nil, link.gone(err)
	}
	stop := context.AfterFunc(g.ending, link.conn.Interrupt)
	m, err := link.Recv()
	if !stop() {
		return nil, context.Cause(g.ending)
	}
	return m, err
}

// tokenOf returns what a gRPC client would send as metadata.
func (g *Gateway) tokenOf(r *http.Request, first *ctxfsv1.SessionRequest) (metadata.MD, error) {
	if first.GetOpen() == nil {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "the session's first message is not open", Hint: "send open first, once"}
	}
	md, err := g.headersOf(r)
	if err != nil {
		return nil, err
	}
	token := first.GetOpen().GetToken()
	switch {
	case token == "":
		return md, nil
	case len(md.Get("authorization")) > 0:
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "a token in open and one in Authorization", Hint: "send one of them"}
	}
	md.Set("authorization", "Bearer "+token)
	return md, nil
}

// accept answers a request with a WebSocket, or refuses it.
func (g *Gateway) accept(w http.ResponseWriter, r *http.Request) (*webLink, error) {
	l := &webLink{}
	l.conn = &webconn.Conn{Keepalive: g.cfg.Keepalive, Ping: l.ping}
	// The origin was checked. Clients compress content that is worth it.
	opts := &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled}
	h := &hijacked{ResponseWriter: w, conn: l.conn}
	var err error
	if l.accepted, err = websocket.Accept(h, r, opts); err != nil {
		return nil, err
	}
	l.ws = webconn.NewSocket(webconn.Config{Conn: l.conn, Early: h.early, Close: l.accepted.CloseNow, Server: true, Buffers: &g.buffers}, maxOpen)
	return l, nil
}

// hijacked makes a WebSocket use a webconn in place of the connection that it is made for.
type hijacked struct {
	http.ResponseWriter
	conn *webconn.Conn
	// early is what the client sent before the answer.
	early []byte
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	limitBuffer(conn)
	h.conn.Conn = conn
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	h.early = bytes.Clone(early)
	return h.conn, bufio.NewReadWriter(bufio.NewReaderSize(h.conn, 16), bufio.NewWriterSize(h.conn, 16)), nil // the Socket reads and writes without them
}

// limitBuffer bounds what the system buffers for a client, if the connection can do that.
func limitBuffer(conn net.Conn) {
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	if c, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = c.SetWriteBuffer(sendBuffer)
	}
}

// webLink is the session.Link of a WebSocket. Each message of the session is one of the WebSocket.
type webLink struct {
	ws   *webconn.Socket
	conn *webconn.Conn
	// requests decodes what Recv receives.
	requests requestDecoder
	// accepted is the library's side of the handshake. The library closes the connection when nothing refers to it.
	accepted *websocket.Conn
	// left says that the client closed the connection normally, said that the client got the reason of the end.
	left, said atomic.Bool

	// users are the goroutines that may still read or write.
	users users
}

var _ session.Link = (*webLink)(nil)

// opened lifts the bounds of the first message. Only the receiving goroutine calls it.
func (l *webLink) opened() {
	l.conn.Known()
	l.ws.SetLimit(session.MaxMessage)
}

// ping asks for a sign of life, which Read waits for.
func (l *webLink) ping() {
	if !l.users.enter() {
		return
	}
	go func() {
		defer l.users.leave()
		_ = l.ws.Ping() // Read fails without an answer
	}()
}

// Recv implements session.Link. WebSocket has no half-close: a client that closes gets no replies.
func (l *webLink) Recv() (*ctxfsv1.SessionRequest, error) {
	message, _, err := l.ws.Receive()
	switch {
	case errors.Is(err, webconn.ErrText):
		return nil, refused(fserr.EINVAL, webconn.ErrText, "send binary messages, one SessionRequest each")
	case errors.Is(err, webconn.ErrTooLarge):
		limit := session.MaxMessage
		if l.conn.IsStranger() {
			limit = maxOpen
		}
		return nil, refused(fserr.EFBIG, webconn.ErrTooLarge, fmt.Sprintf("a message has at most %d bytes, and 256 KiB of content; write ranges on a handle", limit))
	case err != nil:
		return nil, l.gone(err)
	}
	m, err := l.requests.decode(message)
	if err != nil {
		return nil, refused(fserr.EINVAL, errEncoding, "send one SessionRequest as protobuf in each message")
	}
	return m, nil
}

func refused(code fserr.Code, why error, hint string) error {
	return &fserr.Error{Code: code, Detail: "the WebSocket message is refused: " + why.Error(), Hint: hint, Err: why}
}

// gone returns why nothing more can be received. It is never io.EOF, after which replies would be sent.
func (l *webLink) gone(err error) error {
	if closed, ok := errors.AsType[*webconn.CloseError](err); ok && closed.InPeace() {
		l.left.Store(true)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && l.conn.IsStranger() {
		return fserrpb.WithCode(&fserr.Error{Code: fserr.EACCES, Detail: "open did not come in time", Hint: "send it at once"}, codes.Unauthenticated)
	}
	if errors.Is(err, webconn.ErrSilent) {
		return fmt.Errorf("%w: %w", context.Canceled, webconn.ErrSilent)
	}
	return context.Canceled
}

// Send implements session.Link.
func (l *webLink) Send(m *ctxfsv1.SessionResponse, h *budget.Hold) error {
	defer h.Release()
	if isLast(m) {
		l.said.Store(true)
	}
	size := responseSize(m)
	if size < largeData {
		return l.ws.Send(size, func(b []byte) ([]byte, error) {
			e := responseEncoder{last: b}
			err := e.response(m)
			return e.last, err
		})
	}
	var e responseEncoder
	if err := e.response(m); err != nil {
		return err
	}
	return l.ws.SendParts(append(e.parts, e.last))
}

// isLast reports whether m, or the last message that travels with it, ends the session.
func isLast(m *ctxfsv1.SessionResponse) bool {
	if also := m.GetAlso(); len(also) > 0 {
		m = also[len(also)-1]
	}
	return m.GetClosing() != nil
}

// end sends the client the reason, unless it got one, closes the connection, and waits for the goroutines that use it.
func (l *webLink) end(why error) {
	l.users.close()
	cut := time.AfterFunc(closeTime, func() { _ = l.conn.Close() })
	defer cut.Stop()
	if why != nil && fserrpb.CodeOf(fserrpb.ToStatus(why)) != codes.Canceled && !l.said.Load() {
		_ = l.Send(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Closing{ // the client may be gone
			Closing: &ctxfsv1.SessionClosing{Error: fserrpb.ToSession(why)},
		}}, nil)
	}
	code, reason := closeStatus(why)
	l.ws.CloseWith(int(code), reason)
	l.users.end()
}

// closeStatus returns the close code and reason for the end of a session.
func closeStatus(why error) (websocket.StatusCode, string) {
	if why == nil {
		return websocket.StatusNormalClosure, ""
	}
	reason := status.Convert(fserrpb.ToStatus(why)).Message()
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	switch {
	case errors.Is(why, webconn.ErrSilent):
		return websocket.StatusTryAgainLater, webconn.ErrSilent.Error()
	case errors.Is(why, webconn.ErrText):
		return websocket.StatusUnsupportedData, reason
	case errors.Is(why, errEncoding):
		return websocket.StatusInvalidFramePayloadData, reason
	case errors.Is(why, webconn.ErrTooLarge):
		return websocket.StatusMessageTooBig, reason
	}
	switch fserrpb.CodeOf(fserrpb.ToStatus(why)) {
	case codes.Canceled:
		return websocket.StatusNormalClosure, ""
	case codes.Unauthenticated, codes.PermissionDenied:
		return websocket.StatusPolicyViolation, reason
	case codes.Unavailable:
		return websocket.StatusGoingAway, reason
	case codes.InvalidArgument:
		return websocket.StatusProtocolError, reason
	case codes.ResourceExhausted:
		return websocket.StatusTryAgainLater, reason
	}
	return websocket.StatusInternalError, reason
}
