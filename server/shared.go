package server

import (
	"bytes"
	"io"
	"net"
	"syscall"

	"github.com/ctxfs/ctxfs/gateway"
)

// The gRPC addresses also answer HTTP: over WebSocket a client's small calls take less time than over gRPC's own streams, and a
// connection needs less memory. The first bytes of a connection show its protocol: an HTTP/1.1 request, or HTTP/2's preface.

// headSize is how many bytes distinguish HTTP/2's preface, which begins with PRI, from a request.
const headSize = 4

var prefaceHead = []byte("PRI ")

// sharedConn is a connection to a gRPC address whose first bytes were read to learn its protocol.
type sharedConn struct {
	net.Conn
	info *connInfo
	// head has the bytes that were read ahead.
	head []byte
	// ended is called when the connection is closed.
	ended func()
}

// look reads the first bytes, and reports whether the connection speaks HTTP/1.1.
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
	c.info.accepted.pace()
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *sharedConn) Close() error {
	defer c.ended()
	return c.Conn.Close()
}

// CloseWrite half-closes, as net.TCPConn's does.
func (c *sharedConn) CloseWrite() error { return gateway.CloseWrite(c.Conn) }

// NetConn returns the connection below, as that of tls.Conn does.
func (c *sharedConn) NetConn() net.Conn { return c.Conn }

// Socket returns the connection's socket, to read from or write to directly; nil when it speaks TLS.
func (c *sharedConn) Socket() syscall.RawConn { return socketOf(c.Conn) }

func socketOf(conn net.Conn) syscall.RawConn {
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
