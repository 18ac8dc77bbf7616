// Package webconn is the connection below a session's WebSocket, at either end: it ends
// one whose other end is silent, or takes nothing of what is sent, and sends a message
// by one write. It needs no timer and no goroutine while all is well.
package webconn

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// writeStep is what must be taken within a keepalive, in bytes.
	writeStep = 64 << 10
	// blocked is how long a write takes at least that waited for the other end, and not for the system's buffer.
	blocked = 20 * time.Millisecond
	// keepBuffer is the size up to which a buffer is kept for others, in bytes.
	keepBuffer = 512 << 10
	// minCorked is less than a WebSocket's own buffer holds, with a frame's header; maxCorked
	// the size from which a write more costs less than a copy. Both in bytes.
	minCorked, maxCorked = 4<<10 - 16, 160 << 10
)

// ErrSilent ends a connection whose other end did not answer a ping in time.
var ErrSilent = errors.New("the other end did not answer a ping in time")

// Conn is the connection below a WebSocket.
type Conn struct {
	net.Conn
	// Keepalive is how long the other end may be silent, or take nothing, before it is asked,
	// or cut off. It has a third of that to answer.
	Keepalive time.Duration
	// Ping asks the other end for a sign of life, without waiting.
	Ping func()

	// stranger is set from AwaitFirst until Known.
	stranger bool
	// writing counts the writes under way; took is when the other end last took what a write waited for, in ns since the epoch.
	writing atomic.Int32
	took    atomic.Int64

	mu sync.Mutex
	// corked holds what is written until uncork; nil when it goes out at once.
	corked *bytes.Buffer
}

// AwaitFirst sets until when the first message must come. Whoever reads calls it, and Known.
func (c *Conn) AwaitFirst(deadline time.Time) error {
	c.stranger = true
	return c.SetReadDeadline(deadline)
}

// Known lifts the bound of the first message, which has come.
func (c *Conn) Known() { c.stranger = false }

// IsStranger tells whether the first message has yet to come.
func (c *Conn) IsStranger() bool { return c.stranger }

// Interrupt ends the wait for the first message, one that has not begun as well.
func (c *Conn) Interrupt() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// Read implements net.Conn. Who says nothing for a keepalive is asked. When nobody reads,
// because too much is under way, silence says nothing.
func (c *Conn) Read(p []byte) (int, error) {
	if c.stranger {
		return c.Conn.Read(p) // a deadline set here would undo an Interrupt
	}
	n, err := c.readBy(p, time.Now().Add(c.Keepalive))
	for errors.Is(err, os.ErrDeadlineExceeded) {
		c.Ping()
		n, err = c.readBy(p, time.Now().Add(c.Keepalive/3))
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.isSlow() {
			return n, ErrSilent
		}
	}
	return n, err
}

// isSlow tells that the answer may be late because there is much to read before our
// question. Writes have a deadline of their own.
func (c *Conn) isSlow() bool {
	return c.writing.Load() > 0 || time.Since(time.Unix(0, c.took.Load())) < c.Keepalive
}

func (c *Conn) readBy(p []byte, deadline time.Time) (int, error) {
	if err := c.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		return n, nil // the error comes again
	}
	return n, err
}

// Send sends a binary message by ws, which is a WebSocket over c. One that is larger than
// the WebSocket's own buffer, and not so large that copying costs more, is one write all the same.
func (c *Conn) Send(ws *websocket.Conn, buffers *Buffers, message []byte) error {
	if len(message) < minCorked || len(message) > maxCorked {
		return ws.Write(context.Background(), websocket.MessageBinary, message)
	}
	buf := buffers.Get()
	defer buffers.Put(buf)
	c.cork(buf)
	err := ws.Write(context.Background(), websocket.MessageBinary, message)
	return errors.Join(err, c.uncork())
}

// cork keeps in b what is written until uncork.
func (c *Conn) cork(b *bytes.Buffer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = b
}

func (c *Conn) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.corked
	c.corked = nil
	_, err := c.write(b.Bytes())
	return err
}

// Write implements net.Conn. A slow other end may take long, one that takes nothing may not.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.corked != nil {
		return c.corked.Write(p)
	}
	return c.write(p)
}

func (c *Conn) write(p []byte) (n int, err error) {
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

func (c *Conn) writeStep(p []byte) (int, error) {
	begun := time.Now()
	if err := c.SetWriteDeadline(begun.Add(c.Keepalive)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if now := time.Now(); err == nil && now.Sub(begun) > blocked {
		c.took.Store(now.UnixNano())
	}
	return n, err
}

// Buffers holds what messages are read into and written from; idle sessions have none.
// The zero Buffers is ready.
type Buffers struct{ pool sync.Pool }

// Get returns an empty buffer.
func (p *Buffers) Get() *bytes.Buffer {
	if b, ok := p.pool.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

// Put takes back a buffer that nobody uses any more.
func (p *Buffers) Put(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		b.Reset()
		p.pool.Put(b)
	}
}
