package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/internal/webconn"
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
	l := &webLink{}
	l.conn = &webconn.Conn{Keepalive: keepalive, Ping: func() { go func() { _ = l.ws.Ping() }() }} // its failure is the reader's silence
	var unanswered error
	transport := d.newTransport(func(conn net.Conn) net.Conn {
		l.conn.Conn = conn
		unanswered = l.conn.AwaitFirst(time.Now().Add(beginTimeout)) // there is no WebSocket to ping yet
		return l.conn
	})
	transport.DisableKeepAlives = true // a connection that did not become a WebSocket is of no use
	conn, err := upgrade(ctx, transport, d.url("/v1/session"), panel)
	if err == nil {
		err = unanswered
	}
	if err != nil {
		return nil, err // the transport may still dial, for a call that has ended
	}
	l.ws = webconn.NewSocket(webconn.Config{Conn: conn, Close: conn.Close, Buffers: d.buffers}, maxMessage)
	l.encode = func(b []byte) ([]byte, error) { return l.batch.join(b), nil }
	l.conn.Known()
	context.AfterFunc(ctx, l.close)
	return l, nil
}

// upgrade asks a server for a WebSocket, and returns the connection below it.
func upgrade(ctx context.Context, transport *http.Transport, url, panel string) (io.ReadWriteCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	key := base64.StdEncoding.EncodeToString([]byte(rand.Text()[:16]))
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", key)
	if panel != "" {
		r.Header.Set(panelKey, panel)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != webconn.AcceptKey(key) {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the server opens no WebSocket: %s", resp.Status)
	}
	return conn, nil
}

// webLink is a session's link over a WebSocket.
type webLink struct {
	ws *webconn.Socket
	// conn is the connection below, also below TLS.
	conn *webconn.Conn
	// encode encodes batch, which is being sent.
	encode func(b []byte) ([]byte, error)
	batch  together
}

// send implements sessionLink.
func (l *webLink) send(t together) error {
	l.batch = t
	return l.ws.Send(t.size(), l.encode)
}

// receive implements sessionLink.
func (l *webLink) receive() (message []byte, owned bool, err error) {
	message, owned, err = l.ws.Receive()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return message, owned, err
	}
	if _, closed := errors.AsType[*webconn.CloseError](err); closed {
		return nil, false, io.EOF
	}
	return nil, false, status.Error(codes.Unavailable, "the connection to the server was lost: "+err.Error())
}

func (*webLink) interruptible() bool { return true }
func (l *webLink) interrupt()        { l.conn.Interrupt() }

// close ends the connection at once: what the session had to say was said.
func (l *webLink) close() { _ = l.ws.CloseNow() }
