package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice"
)

// takenConns is the listener of the connections that were passed to Take.
type takenConns struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newTakenConns() *takenConns {
	t := &takenConns{conns: make(chan net.Conn), closed: make(chan struct{})}
	t.close = sync.OnceFunc(func() { close(t.closed) })
	return t
}

func (t *takenConns) take(conn net.Conn) {
	select {
	case t.conns <- conn:
	case <-t.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (t *takenConns) Accept() (net.Conn, error) {
	select {
	case conn := <-t.conns:
		return conn, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *takenConns) Close() error {
	t.close()
	return nil
}

// Addr implements net.Listener.
func (t *takenConns) Addr() net.Addr { return &net.UnixAddr{Name: "grpc", Net: "unix"} }

// tailListener wraps the connections that it accepts in a tailConn.
type tailListener struct{ net.Listener }

// Accept implements net.Listener.
func (l tailListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tailConn{Conn: conn}, nil
}

// tailConn is a connection that serves HTTP. It keeps the tail of what was read, and sends files.
type tailConn struct {
	net.Conn
	tail rawTail
	// held is what was written since hold; nil if nothing is held.
	held *[]byte
}

// smallBuffers has buffers for content of up to smallContent bytes and its head.
var smallBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, smallContent+smallHead)
	return &b
}}

// hold collects what is written until release, which sends it at once: net/http writes a head and a body in parts, and each would wake
// the client. Only the handler of the connection's request may call it.
func (c *tailConn) hold() { c.held = smallBuffers.Get().(*[]byte) } //nolint:forcetypeassert // nothing else is in it

// release sends what was held.
func (c *tailConn) release() error {
	held := c.held
	c.held = nil
	_, err := c.Conn.Write(*held)
	*held = (*held)[:0]
	smallBuffers.Put(held)
	return err
}

// Write implements net.Conn.
func (c *tailConn) Write(p []byte) (int, error) {
	if c.held == nil {
		return c.Conn.Write(p)
	}
	*c.held = append(*c.held, p...)
	return len(p), nil
}

// Read implements net.Conn.
func (c *tailConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tail.add(p[:n])
	return n, err
}

// steadyPart is a large part of content. ReadFrom calls extend for each contentPart that the client has received, so that a slow client
// has as much time as for parts of that size.
type steadyPart struct {
	*fsservice.Part
	extend func() error
}

// ReadFrom implements io.ReaderFrom: the kernel copies content to a connection without TLS.
func (c *tailConn) ReadFrom(src io.Reader) (int64, error) {
	part, ok := src.(*fsservice.Part)
	extend := func() error { return nil }
	if steady, is := src.(*steadyPart); is {
		part, extend, ok = steady.Part, steady.extend, true
	}
	plain, hasSocket := c.Conn.(interface{ Socket() syscall.RawConn })
	if !ok || !hasSocket || !part.Sends() {
		return io.Copy(c.Conn, src)
	}
	socket := plain.Socket()
	if socket == nil {
		return io.Copy(c.Conn, src)
	}
	var err error
	before, extended := part.Left, part.Left
	waiting := socket.Write(func(fd uintptr) bool {
		err = part.SendTo(fd)
		if !errors.Is(err, syscall.EAGAIN) {
			return true
		}
		if extended-part.Left < contentPart {
			return false
		}
		extended = part.Left
		if ended := extend(); ended != nil {
			err = ended
			return true
		}
		return false
	})
	if before == part.Left && cannotSend(err) {
		return io.Copy(c.Conn, src)
	}
	return before - part.Left, errors.Join(waiting, err)
}

// cannotSend reports whether sendfile(2) does not work for a file, which must be read instead.
func cannotSend(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP)
}

// CloseWrite half-closes, as net.TCPConn's does.
func (c *tailConn) CloseWrite() error { return CloseWrite(c.Conn) }

// NetConn returns the connection below, as that of tls.Conn does.
func (c *tailConn) NetConn() net.Conn { return c.Conn }

// CloseWrite half-closes a connection of a type that can.
func CloseWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// A proxy and a server may disagree where a request ends that has both Content-Length and Transfer-Encoding (RFC 9112, 6.1).
// net/http removes Content-Length from such a request, so the gateway looks for it in the bytes that were read.

const (
	// maxHead bounds a request's head, in bytes: MaxHeaderBytes and what net/http allows in addition.
	maxHead = MaxHeaderBytes + 4<<10
	// readAhead is how much net/http may have read after the head, in bytes.
	readAhead = 4 << 10
)

// rawTail has the end of what was read from an HTTP connection: at least the head of the present request.
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

// shrink follows the connection's state. An idle connection may have read ahead. One that was hijacked no longer speaks HTTP.
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

// hasLength reports whether the head of a request had a Content-Length when it came. found is false when the tail does not have the
// head. Text in a body that looks like the same head counts as one.
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

// followState is the http.Server's ConnState.
func followState(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*tailConn); ok {
		c.tail.shrink(state)
	}
}

type tailKey struct{}

// connContext is the http.Server's ConnContext.
func (g *Gateway) connContext(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*tailConn); ok {
		ctx = context.WithValue(ctx, tailKey{}, c)
	}
	return g.cfg.Calls.ConnContext(ctx, conn)
}

// oneLength refuses a body that has two lengths, and closes its connection. It also closes the connection after a request whose head
// is not in the tail.
func oneLength(w http.ResponseWriter, r *http.Request) error {
	conn, ok := r.Context().Value(tailKey{}).(*tailConn)
	if !ok || len(r.TransferEncoding) == 0 {
		return nil
	}
	has, found := conn.tail.hasLength(r)
	if has || !found {
		w.Header().Set("Connection", "close")
	}
	if !has {
		return nil
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: "Content-Length and Transfer-Encoding in one request", Hint: "send one of them"}
}
