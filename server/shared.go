package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
)

// The gRPC addresses answer sessions over WebSocket too: a client's small calls take less
// time by them than by gRPC's own streams, and a WebSocket needs less memory. What a
// connection is for shows in its first bytes: an HTTP/1.1 request, or HTTP/2's preface.

// headSize is how much tells HTTP/2's preface, which begins with PRI, from a request, in bytes.
const headSize = 4

var prefaceHead = []byte("PRI ")

// sharedConn is a connection whose first bytes were looked at; it tells when it is closed.
type sharedConn struct {
	net.Conn
	info *connInfo
	// head is what was looked at and not read yet.
	head  []byte
	ended func()
	// raw is nil for gRPC.
	raw *rawTail
}

// look reads how the connection begins, and tells whether that is HTTP/1.1.
func (c *sharedConn) look() (isWeb bool, err error) {
	c.head = make([]byte, headSize)
	if _, err := io.ReadFull(c.Conn, c.head); err != nil {
		return false, err
	}
	return !bytes.Equal(c.head, prefaceHead), nil
}

// Read implements net.Conn.
func (c *sharedConn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		c.seen(p[:n])
		return n, nil
	}
	c.info.accepted.pace()
	n, err := c.Conn.Read(p)
	c.seen(p[:n])
	return n, err
}

func (c *sharedConn) seen(p []byte) {
	if c.raw != nil {
		c.raw.add(p)
	}
}

// Close implements net.Conn.
func (c *sharedConn) Close() error {
	defer c.ended()
	return c.Conn.Close()
}

// CloseWrite half-closes, as net.TCPConn's does.
func (c *sharedConn) CloseWrite() error { return closeWrite(c.Conn) }

// NetConn returns the connection below, as that of tls.Conn does.
func (c *sharedConn) NetConn() net.Conn { return c.Conn }

// handedConns is a listener of the connections that gRPC's listeners hand over.
type handedConns struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newHandedConns() *handedConns {
	h := &handedConns{conns: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// hand gives a connection to who accepts, or closes it when nobody does any more.
func (h *handedConns) hand(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (h *handedConns) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handedConns) Close() error {
	h.close()
	return nil
}

// Addr implements net.Listener.
func (h *handedConns) Addr() net.Addr { return &net.UnixAddr{Name: "grpc", Net: "unix"} }

type (
	sharedConnKey   struct{}
	acceptedConnKey struct{}
)

// withConn is the http.Server's ConnContext. It keeps what is known of the connection in its requests' context.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	ctx = withRawTail(ctx, conn)
	for {
		switch c := conn.(type) {
		case *sharedConn:
			return context.WithValue(ctx, sharedConnKey{}, c.info)
		case *acceptedConn:
			return context.WithValue(ctx, acceptedConnKey{}, c)
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return ctx
		}
	}
}

// sharedConnOf returns the connection of a request that came by a gRPC address; nil of another.
func sharedConnOf(ctx context.Context) *connInfo {
	info, _ := ctx.Value(sharedConnKey{}).(*connInfo)
	return info
}

// acceptedConnOf returns the connection of a request to the HTTP address; nil of another.
func acceptedConnOf(ctx context.Context) *acceptedConn {
	c, _ := ctx.Value(acceptedConnKey{}).(*acceptedConn)
	return c
}
