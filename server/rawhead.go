package server

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/ctxfs/ctxfs/fserr"
)

// A proxy and a server may disagree where a request ends that has both Content-Length and Transfer-Encoding (RFC 9112, 6.1).
// net/http drops Content-Length from such a request, so the server looks for it in the bytes as they came.

const (
	// maxHead bounds a request's head, in bytes: MaxHeaderBytes and what net/http allows besides.
	maxHead = maxHeaderBytes + 4<<10
	// readAhead is how much net/http may have read of what follows, in bytes.
	readAhead = 4 << 10
)

// rawTail holds the end of what was read from an HTTP connection: at least the head of the present request.
type rawTail struct {
	mu   sync.Mutex
	tail []byte
	over bool
}

// add appends what was read.
func (r *rawTail) add(p []byte) {
	const most = maxHead + readAhead
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	p = p[max(0, len(p)-most):]
	if drop := len(r.tail) + len(p) - most; drop > len(r.tail)/2 {
		r.tail = append(r.tail[:0], r.tail[drop:]...)
	}
	r.tail = append(r.tail, p...)
}

// shrink follows the connection's state: an idle one may have read ahead, one that was hijacked is no longer HTTP's.
func (r *rawTail) shrink(state http.ConnState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch state {
	case http.StateIdle:
		r.tail = bytes.Clone(r.tail[max(0, len(r.tail)-readAhead):])
	case http.StateHijacked, http.StateClosed:
		r.tail, r.over = nil, true
	}
}

// hasLength reports whether the head of a request had a Content-Length when it came. found is false when the tail does not hold
// the head. Text in a body that looks like the same head counts as one.
func (r *rawTail) hasLength(req *http.Request) (has, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := []byte(req.Method + " " + req.RequestURI + " " + req.Proto)
	for rest := r.tail; ; found = true {
		i := bytes.Index(rest, line)
		if i < 0 {
			return false, found
		}
		rest = rest[i+len(line):]
		for field := range bytes.Lines(rest[min(len(rest), bytes.IndexByte(rest, '\n')+1):]) {
			name, _, isField := bytes.Cut(field, []byte(":"))
			if !isField {
				break // the empty line
			}
			if bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
				return true, true
			}
		}
	}
}

// rawListener gives the HTTP address connections that keep the end of what was read.
type rawListener struct{ net.Listener }

// Accept implements net.Listener.
func (l rawListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &rawConn{Conn: conn}, nil
}

type rawConn struct {
	net.Conn
	raw rawTail
}

// Read implements net.Conn.
func (c *rawConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.raw.add(p[:n])
	return n, err
}

// CloseWrite half-closes, as net.TCPConn's does.
func (c *rawConn) CloseWrite() error { return closeWrite(c.Conn) }

// NetConn returns the connection below, as that of tls.Conn does.
func (c *rawConn) NetConn() net.Conn { return c.Conn }

// rawTailOf returns what is kept of an HTTP connection, nil of another.
func rawTailOf(conn net.Conn) *rawTail {
	switch c := conn.(type) {
	case *rawConn:
		return &c.raw
	case *sharedConn:
		return c.raw
	}
	return nil
}

type rawTailKey struct{}

// followState is the http.Server's ConnState.
func followState(conn net.Conn, state http.ConnState) {
	if r := rawTailOf(conn); r != nil {
		r.shrink(state)
	}
}

// oneLength refuses a body that has two lengths, and has the connection closed then. The connection is also closed after a
// request whose head is not in the tail.
func oneLength(w http.ResponseWriter, r *http.Request) error {
	raw, ok := r.Context().Value(rawTailKey{}).(*rawTail)
	if !ok || len(r.TransferEncoding) == 0 {
		return nil
	}
	has, found := raw.hasLength(r)
	if has || !found {
		w.Header().Set("Connection", "close")
	}
	if !has {
		return nil
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: "Content-Length and Transfer-Encoding in one request", Hint: "send one of them"}
}

func withRawTail(ctx context.Context, conn net.Conn) context.Context {
	if raw := rawTailOf(conn); raw != nil {
		return context.WithValue(ctx, rawTailKey{}, raw)
	}
	return ctx
}
