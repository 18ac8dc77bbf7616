package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	// writeStep is what must be taken within a keepalive, in bytes.
	writeStep = 64 << 10
	// blocked is how long a write takes at least that waited for the client, and not for the system's buffer.
	blocked = 20 * time.Millisecond
	// sendBuffer is what the system holds of what is sent, in bytes: as much as it likes would
	// keep a ping from a slow client for minutes.
	sendBuffer = 256 << 10
)

// webConn is the connection below a WebSocket. It ends one whose client is silent, or takes
// nothing of what is sent: neither needs a timer or a goroutine while all is well.
type webConn struct {
	net.Conn
	keepalive time.Duration
	// ping asks the client for a sign of life, without waiting.
	ping func()
	// stranger is set until the first message has come, whose deadline awaitOpen sets.
	stranger bool
	// writing counts the writes under way; took is when the client last took what a write waited for, in ns since the epoch.
	writing atomic.Int32
	took    atomic.Int64
}

// Read implements net.Conn. A client that says nothing for a keepalive is asked, and has a
// third of that to answer. Nobody reads while too much is under way: then silence says nothing.
func (c *webConn) Read(p []byte) (int, error) {
	if c.stranger {
		return c.Conn.Read(p) // a deadline set here would undo an interrupt
	}
	n, err := c.readBy(p, time.Now().Add(c.keepalive))
	for errors.Is(err, os.ErrDeadlineExceeded) {
		c.ping()
		n, err = c.readBy(p, time.Now().Add(c.keepalive/3))
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.isSlow() {
			return n, errSilent
		}
	}
	return n, err
}

// isSlow tells that the client's answer may be late because it has much to read before our
// question. Its writes have a deadline of their own.
func (c *webConn) isSlow() bool {
	return c.writing.Load() > 0 || time.Since(time.Unix(0, c.took.Load())) < c.keepalive
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

// awaitOpen sets until when the first message must come.
func (c *webConn) awaitOpen(deadline time.Time) error {
	c.stranger = true
	return c.SetReadDeadline(deadline)
}

// interrupt ends the wait for the first message, one that has not begun as well.
func (c *webConn) interrupt() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// Write implements net.Conn. A slow client may take long, one that takes nothing may not.
func (c *webConn) Write(p []byte) (n int, err error) {
	c.writing.Add(1)
	defer c.writing.Add(-1)
	for len(p) > 0 && err == nil {
		part := p[:min(len(p), writeStep)]
		var done int
		done, err = c.writeStep(part)
		n += done
		p = p[len(part):]
	}
	if err != nil {
		_ = c.Close() // so that the reader ends too
	}
	return n, err
}

func (c *webConn) writeStep(p []byte) (int, error) {
	begun := time.Now()
	if err := c.SetWriteDeadline(begun.Add(c.keepalive)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if now := time.Now(); err == nil && now.Sub(begun) > blocked {
		c.took.Store(now.UnixNano())
	}
	return n, err
}

// hijacked lets a WebSocket take webConn in the place of the connection that it is made for.
type hijacked struct {
	http.ResponseWriter
	conn *webConn
}

// limitBuffer bounds what the system holds for a client; one that refuses serves as well.
func limitBuffer(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetWriteBuffer(sendBuffer)
	}
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	limitBuffer(conn)
	h.conn.Conn = conn
	rw.Writer.Reset(h.conn)
	return h.conn, rw, nil
}
