package server

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// writeStep is what must be taken within a keepalive, in bytes.
const writeStep = 64 << 10

// webConn is the connection below a WebSocket. It ends one whose client is silent, or takes
// nothing of what is sent: neither needs a timer or a goroutine while all is well.
type webConn struct {
	net.Conn
	keepalive time.Duration
	// ping asks the client for a sign of life, without waiting.
	ping func()
	// openBy is until when the first message must come; zero once it has.
	openBy time.Time
	// writing counts the writes that wait for the client.
	writing atomic.Int32
}

// Read implements net.Conn. A client that says nothing for a keepalive is asked, and has a
// third of that to answer. Nobody reads while too much is under way: then silence says nothing.
func (c *webConn) Read(p []byte) (int, error) {
	if !c.openBy.IsZero() {
		return c.readBy(p, c.openBy)
	}
	n, err := c.readBy(p, time.Now().Add(c.keepalive))
	for errors.Is(err, os.ErrDeadlineExceeded) {
		c.ping()
		n, err = c.readBy(p, time.Now().Add(c.keepalive/3))
		if errors.Is(err, os.ErrDeadlineExceeded) && c.writing.Load() == 0 { // a write has its own deadline
			return n, errSilent
		}
	}
	return n, err
}

func (c *webConn) readBy(p []byte, deadline time.Time) (int, error) {
	if err := c.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		return n, nil // the error comes again
	}
	return n, err
}

// interrupt ends a Read that waits for the first message.
func (c *webConn) interrupt() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// Write implements net.Conn. A slow client may take long, one that takes nothing may not.
func (c *webConn) Write(p []byte) (n int, err error) {
	c.writing.Add(1)
	defer c.writing.Add(-1)
	for len(p) > 0 && err == nil {
		part := p[:min(len(p), writeStep)]
		if err = c.SetWriteDeadline(time.Now().Add(c.keepalive)); err == nil {
			var took int
			took, err = c.Conn.Write(part)
			n += took
		}
		p = p[len(part):]
	}
	if err != nil {
		_ = c.Close() // so that the reader ends too
	}
	return n, err
}

// hijacked lets a WebSocket take webConn in the place of the connection that it is made for.
type hijacked struct {
	http.ResponseWriter
	conn *webConn
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn.Conn = conn
	rw.Writer.Reset(h.conn)
	return h.conn, rw, nil
}
