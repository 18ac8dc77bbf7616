package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
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

// webDialer opens WebSockets at the address that the gRPC connection is to.
type webDialer struct {
	target target
	// tls is nil for plain text.
	tls     *tls.Config
	buffers *webconn.Buffers
}

// dial opens a WebSocket, which closes when ctx ends.
func (d *webDialer) dial(ctx context.Context, panel string) (*webLink, error) {
	l := &webLink{buffers: d.buffers}
	l.conn = &webconn.Conn{Keepalive: keepalive, Ping: l.ping}
	transport := &http.Transport{TLSClientConfig: d.tls, DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		if path, ok := d.target.socket(); ok {
			network, addr = "unix", path
		}
		l.conn.Conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return l.conn, err
	}}
	url, header := "ws://localhost/v1/session", http.Header{}
	if _, ok := d.target.socket(); !ok {
		url = strings.Replace(url, "localhost", d.target.address, 1)
	}
	if d.tls != nil {
		url = strings.Replace(url, "ws:", "wss:", 1)
	}
	if !d.target.local() {
		transport.Proxy = http.ProxyFromEnvironment
	}
	if panel != "" {
		header.Set(panelKey, panel)
	}
	ws, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(maxMessage)
	l.ws = ws
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
