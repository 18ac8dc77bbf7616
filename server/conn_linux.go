package server

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/moby/sys/userns"
	"google.golang.org/grpc/mem"
)

func inUserNamespace() bool { return userns.RunningInUserNS() }

// pooledConn is a sharedConn without TLS. gRPC takes a buffer only once there is something to read, so an idle connection holds none.
// gRPC does that for the connections of package net, and for those with a method ReadOnReady (internal/transport/readyreader). A gRPC
// without that would call Read.
type pooledConn struct {
	*sharedConn
	raw syscall.RawConn
	// read is called by raw. Its arguments and results are in the fields below.
	read func(fd uintptr) (done bool)
	pool mem.BufferPool
	size int
	buf  *[]byte
	n    int
	err  error
}

// pooled returns the connection that gRPC reads.
func pooled(conn *sharedConn) net.Conn {
	raw := conn.Socket()
	if raw == nil {
		return conn
	}
	c := &pooledConn{sharedConn: conn, raw: raw}
	c.read = func(fd uintptr) bool {
		c.buf = c.pool.Get(c.size)
		c.n, c.err = syscall.Read(int(fd), *c.buf)
		for errors.Is(c.err, syscall.EINTR) {
			c.n, c.err = syscall.Read(int(fd), *c.buf)
		}
		if c.err != nil || c.n == 0 {
			c.pool.Put(c.buf)
			c.buf = nil
		}
		return !errors.Is(c.err, syscall.EAGAIN)
	}
	return c
}

// ReadOnReady waits until there is something to read, takes a buffer of size bytes from the pool, and reads into it. The caller returns
// the buffer to the pool.
func (c *pooledConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if len(c.head) > 0 {
		buf := pool.Get(size)
		n, err := c.Read(*buf)
		return buf, n, err
	}
	c.info.accepted.pace()
	c.pool, c.size = pool, size
	err := c.raw.Read(c.read)
	buf := c.buf
	c.buf, c.pool = nil, nil
	switch {
	case err != nil:
		if buf != nil {
			pool.Put(buf)
		}
		return nil, 0, err
	case c.err != nil:
		return nil, 0, &net.OpError{Op: "read", Net: "conn", Err: c.err}
	case c.n == 0:
		return nil, 0, io.EOF
	}
	return buf, c.n, nil
}
