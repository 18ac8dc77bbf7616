package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/webconn"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// keepalive is how long a server may be silent before it is asked for a sign of life.
const keepalive = 30 * time.Second

// silence is how long a server may be silent in the middle of content, or take none of it: as
// long as a ping and its answer may take elsewhere.
const silence = keepalive + keepalive/3

// webDialer makes HTTP connections to the address that the gRPC connection is to: WebSockets
// for sessions, and others for content.
type webDialer struct {
	target target
	// tls is nil for plain text.
	tls     *tls.Config
	buffers *webconn.Buffers
	// bulk has the connections for content.
	bulk *http.Transport
	// base ends with the client, and with it all that goes by bulk.
	base context.Context //nolint:containedctx // of all requests together
	stop context.CancelFunc
	// noContent says that the server sends none by HTTP.
	noContent atomic.Bool
}

func newWebDialer(t target, tls *tls.Config) *webDialer {
	d := &webDialer{target: t, tls: tls, buffers: new(webconn.Buffers)}
	d.bulk = d.newTransport(func(conn net.Conn) net.Conn { return &bulkConn{conn} })
	d.base, d.stop = context.WithCancel(context.Background())
	return d
}

// close ends all that goes by bulk.
func (d *webDialer) close() {
	d.stop()
	d.bulk.CloseIdleConnections()
}

// bulkConn ends when the server takes nothing for as long as it may be silent.
type bulkConn struct{ net.Conn }

// Write implements net.Conn.
func (c *bulkConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// dial opens a WebSocket, which closes when ctx ends.
func (d *webDialer) dial(ctx context.Context, panel string) (*webLink, error) {
	l := &webLink{buffers: d.buffers}
	l.conn = &webconn.Conn{Keepalive: keepalive, Ping: l.ping}
	var unanswered error
	transport := d.newTransport(func(conn net.Conn) net.Conn {
		l.conn.Conn = conn
		unanswered = l.conn.AwaitFirst(time.Now().Add(beginTimeout)) // there is nobody to ping yet
		return l.conn
	})
	transport.DisableKeepAlives = true // a connection that did not become a WebSocket is of no use
	header := http.Header{}
	if panel != "" {
		header.Set(panelKey, panel)
	}
	ws, resp, err := websocket.Dial(ctx, d.url("/v1/session"), &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err = errors.Join(err, unanswered); err != nil {
		return nil, err
	}
	ws.SetReadLimit(maxMessage)
	l.ws = ws
	l.conn.Known()
	context.AfterFunc(ctx, l.close)
	return l, nil
}

// webLink is a session's stream over a WebSocket.
type webLink struct {
	ws      *websocket.Conn
	conn    *webconn.Conn
	buffers *webconn.Buffers
}

// ping asks for a sign of life; the connection waits for it.
func (l *webLink) ping() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), keepalive/3)
		defer cancel()
		_ = l.ws.Ping(ctx) // its failure is the reader's silence
	}()
}

// SendMsg implements sessionStream.
func (l *webLink) SendMsg(m any) error {
	buf := l.buffers.Get()
	defer l.buffers.Put(buf)
	var data []byte
	switch m := m.(type) {
	case *together:
		if data = (*m)[0]; len(*m) > 1 {
			buf.Grow(m.size())
			data = m.join(buf.AvailableBuffer())
		}
	case proto.Message:
		var err error
		if data, err = proto.Marshal(m); err != nil {
			return err
		}
	}
	return l.conn.Send(l.ws, l.buffers, data)
}

// RecvMsg implements sessionStream.
func (l *webLink) RecvMsg(m any) error {
	_, r, err := l.ws.Reader(context.Background())
	if err != nil {
		return linkError(err)
	}
	buf := l.buffers.Get()
	defer l.buffers.Put(buf)
	if _, err := buf.ReadFrom(r); err != nil {
		return linkError(err)
	}
	response, ok := m.(*ctxfsv1.SessionResponse)
	if !ok {
		return status.Errorf(codes.Internal, "a session receives no %T", m)
	}
	if err := proto.Unmarshal(buf.Bytes(), response); err != nil {
		return status.Error(codes.Internal, "a message of the session: "+err.Error())
	}
	return nil
}

// linkError says why no more can be received.
func linkError(err error) error {
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		return io.EOF
	}
	return status.Error(codes.Unavailable, "the connection to the server was lost: "+err.Error())
}

// close ends the connection at once: what the session had to say was said.
func (l *webLink) close() { _ = l.ws.CloseNow() }
