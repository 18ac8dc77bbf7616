package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The gRPC addresses answer sessions over WebSocket too: a client's small calls take less
// time by them than by gRPC's own streams, and a WebSocket needs less memory. What a
// connection is for shows in its first bytes: an HTTP/1.1 request, or HTTP/2's preface.

// headSize is how much tells HTTP/2's preface, which begins with PRI, from a request, in bytes.
const headSize = 4

var prefaceHead = []byte("PRI ")

// handshakes are the connections that have not said what they are for. gRPC's server waits
// for them when it stops, and would do so for as long as they may be silent.
type handshakes struct {
	mu    sync.Mutex
	conns map[*acceptedConn]struct{}
	ended bool
}

func newHandshakes() *handshakes { return &handshakes{conns: map[*acceptedConn]struct{}{}} }

func (h *handshakes) add(c *acceptedConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		c.interrupt()
		return
	}
	h.conns[c] = struct{}{}
}

func (h *handshakes) remove(c *acceptedConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// end ends them all, and those to come.
func (h *handshakes) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for c := range h.conns {
		c.interrupt()
	}
}

// sharedListener gives gRPC connections that it can be relieved of.
type sharedListener struct {
	net.Listener
	handshakes *handshakes
}

// Accept implements net.Listener.
func (l sharedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &acceptedConn{Conn: conn, handshakes: l.handshakes}, nil
}

// acceptedConn is a connection as gRPC's server knows it.
type acceptedConn struct {
	net.Conn
	handshakes *handshakes
	// handed says that the connection serves HTTP now.
	handed atomic.Bool
}

// SetDeadline implements net.Conn. gRPC sets one before its handshake, and lifts it after
// that; by then HTTP may have set another.
func (c *acceptedConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.handshakes.remove(c)
	}
	if c.handed.Load() {
		return nil
	}
	err := c.Conn.SetDeadline(t)
	if !t.IsZero() {
		c.handshakes.add(c)
	}
	return err
}

// Close implements net.Conn.
func (c *acceptedConn) Close() error {
	c.handshakes.remove(c)
	return c.Conn.Close()
}

// interrupt ends a Read that waits.
func (c *acceptedConn) interrupt() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// sharedConn is a connection whose first bytes were looked at; it tells when it is closed.
type sharedConn struct {
	net.Conn
	info *connInfo
	// head is what was looked at and not read yet.
	head  []byte
	ended func()
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
		return n, nil
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *sharedConn) Close() error {
	defer c.ended()
	return c.Conn.Close()
}

// CloseWrite half-closes, as net.TCPConn's does.
func (c *sharedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

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

type sharedConnKey struct{}

// withSharedConn is the http.Server's ConnContext.
func withSharedConn(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*sharedConn); ok {
		return context.WithValue(ctx, sharedConnKey{}, c.info)
	}
	return ctx
}

// sharedConnOf returns the connection of a request that came by a gRPC address; nil of another.
func sharedConnOf(ctx context.Context) *connInfo {
	info, _ := ctx.Value(sharedConnKey{}).(*connInfo)
	return info
}
