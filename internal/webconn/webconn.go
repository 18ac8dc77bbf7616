// Package webconn is a session's WebSocket, at either end: Socket its frames, Conn the connection below. Conn closes a connection whose
// other end is silent, or takes nothing of what is sent. It needs no timer and no goroutine while all is well.
package webconn

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writeStep is what must be taken within a keepalive, in bytes.
	writeStep = 64 << 10
	// blocked is how long a write takes at least that waited for the other end, and not for the system's buffer.
	blocked = 20 * time.Millisecond
	// keepBuffer is the size up to which a buffer is kept for others, in bytes.
	keepBuffer = 512 << 10
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
	// readArmed says that reads have a deadline: one that passes while all is well is set anew. writeArmed is when writes got theirs.
	readArmed  bool
	writeArmed time.Time
	// interrupted is set by Interrupt until Read has reported it.
	interrupted atomic.Bool
	// writing counts the writes under way; took is when the other end last took what a write waited for, in ns since the epoch.
	writing atomic.Int32
	took    atomic.Int64
}

// AwaitFirst sets the deadline of the first message. The goroutine that reads calls it, and Known.
func (c *Conn) AwaitFirst(deadline time.Time) error {
	c.stranger, c.readArmed = true, true
	return c.SetReadDeadline(deadline)
}

// Known lifts the deadline of the first message, which has come.
func (c *Conn) Known() { c.stranger = false }

// IsStranger reports whether the first message has yet to come.
func (c *Conn) IsStranger() bool { return c.stranger }

// Interrupt makes Read fail with os.ErrDeadlineExceeded, once: the one that runs, or the next. Nothing that came is lost.
func (c *Conn) Interrupt() {
	c.interrupted.Store(true)
	_ = c.SetReadDeadline(time.Unix(1, 0))
}

// Read implements net.Conn. It pings an end that sends nothing for a keepalive, and fails with ErrSilent when the ping gets no
// answer. The time between two reads does not count.
func (c *Conn) Read(p []byte) (int, error) {
	if c.stranger {
		return c.Conn.Read(p) // a deadline set here would undo an Interrupt
	}
	until, asked := time.Now().Add(c.Keepalive), false
	for {
		if c.readArmed {
			n, err := c.Conn.Read(p)
			if n > 0 {
				return n, nil // the error comes again
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return 0, err
			}
		}
		if c.interrupted.Swap(false) {
			return 0, os.ErrDeadlineExceeded
		}
		if !time.Now().Before(until) {
			if asked && !c.isSlow() {
				return 0, ErrSilent
			}
			c.Ping()
			until, asked = time.Now().Add(c.Keepalive/3), true
		}
		if err := c.SetReadDeadline(until); err != nil {
			return 0, err
		}
		c.readArmed = true
		if c.interrupted.Swap(false) { // or the new deadline would undo it
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// isSlow reports whether the answer may be late because the other end has much to read before the ping. Writes have a deadline of
// their own.
func (c *Conn) isSlow() bool {
	return c.writing.Load() > 0 || time.Since(time.Unix(0, c.took.Load())) < c.Keepalive
}

// Write implements net.Conn. A slow other end may take long, one that takes nothing may not.
func (c *Conn) Write(p []byte) (n int, err error) {
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
	if begun.Sub(c.writeArmed) > c.Keepalive/8 { // not for each write; one that passes ends TLS
		if err := c.SetWriteDeadline(begun.Add(c.Keepalive)); err != nil {
			return 0, err
		}
		c.writeArmed = begun
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

// Put takes back a buffer that is no longer used.
func (p *Buffers) Put(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		b.Reset()
		p.pool.Put(b)
	}
}
