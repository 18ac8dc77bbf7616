package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/webconn"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxWebMessage and maxWebOpen bound a message, and the first one, in bytes.
	maxWebMessage = maxSessionRequest
	maxWebOpen    = 16 << 10
	// maxWebReason is what a WebSocket's close carries, in bytes.
	maxWebReason = 123
	// closeTime is how long a client may take to answer that the connection is closed.
	closeTime = 400 * time.Millisecond
)

// webLink is a session's fsservice.Link over a WebSocket: one message each.
type webLink struct {
	ws   *webconn.Socket
	conn *webconn.Conn
	// requests decodes what Recv receives.
	requests requestDecoder
	// accepted is the library's WebSocket, which made the handshake. Its finalizer closes the connection, so the link refers to it.
	accepted *websocket.Conn
	// left is set when the client closed the connection in peace, said when it was told why it is closed.
	left, said atomic.Bool

	// users counts the goroutines that may still read or write.
	users users
}

// opened lifts the bounds of the first message. Whoever receives calls it.
func (l *webLink) opened() {
	l.conn.Known()
	l.ws.SetLimit(maxWebMessage)
}

// ping asks for a sign of life; Read waits for it.
func (l *webLink) ping() {
	if !l.users.enter() {
		return
	}
	go func() {
		defer l.users.leave()
		_ = l.ws.Ping() // its failure is the reader's silence
	}()
}

// Recv implements fsservice.Link. WebSocket has no half-close: a client that closes receives no more replies.
func (l *webLink) Recv() (*ctxfsv1.SessionRequest, error) {
	message, _, err := l.ws.Receive()
	switch {
	case errors.Is(err, webconn.ErrText):
		return nil, refused(fserr.EINVAL, webconn.ErrText, "send binary messages, one SessionRequest each")
	case errors.Is(err, webconn.ErrTooLarge):
		limit := maxWebMessage
		if l.conn.IsStranger() {
			limit = maxWebOpen
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

// gone returns why no more can be received. It is never io.EOF, after which replies would be sent.
func (l *webLink) gone(err error) error {
	if closed, ok := errors.AsType[*webconn.CloseError](err); ok && closed.InPeace() {
		l.left.Store(true)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && l.conn.IsStranger() {
		return unauthenticated(&fserr.Error{Code: fserr.EACCES, Detail: "open did not come in time", Hint: "send it at once"})
	}
	if errors.Is(err, webconn.ErrSilent) {
		return fmt.Errorf("%w: %w", context.Canceled, webconn.ErrSilent)
	}
	return context.Canceled
}

// Send implements fsservice.Link.
func (l *webLink) Send(m *ctxfsv1.SessionResponse, h *budget.Hold) error {
	defer h.Release()
	if isLast(m) {
		l.said.Store(true)
	}
	return l.ws.Send(responseSize(m), func(b []byte) ([]byte, error) {
		b, err := appendResponse(b, m)
		if err != nil {
			return nil, fmt.Errorf("encode a message of a session: %w", err)
		}
		return b, nil
	})
}

// isLast reports whether m, or the last message that travels with it, ends the session.
func isLast(m *ctxfsv1.SessionResponse) bool {
	if also := m.GetAlso(); len(also) > 0 {
		m = also[len(also)-1]
	}
	return m.GetClosing() != nil
}

// end reports the reason to the client unless a message did, closes the connection, and waits for the goroutines that use it.
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

// closeStatus is what a WebSocket's close says of the end of a session.
func closeStatus(why error) (websocket.StatusCode, string) {
	if why == nil {
		return websocket.StatusNormalClosure, ""
	}
	reason := status.Convert(fserrpb.ToStatus(why)).Message()
	if len(reason) > maxWebReason {
		reason = strings.ToValidUTF8(reason[:maxWebReason], "")
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
