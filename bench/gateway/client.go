package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/bench/peers"
)

// target is where a server listens, and the name by which it is asked.
type target struct{ address, host string }

// targetOf returns the target of a site of the host form. Its name resolves to this machine in browsers, and not everywhere else.
func targetOf(site string) (target, error) {
	u, err := url.Parse(site)
	if err != nil {
		return target{}, err
	}
	return target{net.JoinHostPort("127.0.0.1", u.Port()), u.Host}, nil
}

// dial opens a connection for each worker.
func (t target) dial(ctx context.Context, workers int) (peers.Conn, error) {
	v := &visitor{}
	for range workers {
		conn, err := t.connect(ctx)
		if err != nil {
			return nil, errors.Join(err, v.Close())
		}
		v.conns = append(v.conns, conn)
	}
	return v, nil
}

func (t target) connect(ctx context.Context) (*wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, host: t.host, in: bufio.NewReaderSize(conn, 64<<10), scratch: make([]byte, 1<<20)}, nil
}

// visitor has the connections of one server's client.
type visitor struct{ conns []*wire }

// Close implements peers.Conn.
func (v *visitor) Close() (err error) {
	for _, c := range v.conns {
		err = errors.Join(err, c.conn.Close())
	}
	return err
}

// wire is a connection that speaks as little HTTP as the servers need: a client such as net/http's takes longer than the servers do, and
// would hide what differs between them.
type wire struct {
	conn    net.Conn
	host    string
	in      *bufio.Reader
	out     []byte
	body    bytes.Buffer
	scratch []byte
}

// ask requests a path without its first slash, and returns the body of the response. It must be read to its end.
func (w *wire) ask(name, accept string) (io.Reader, error) {
	w.out = fmt.Appendf(w.out[:0], "GET /%s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nUser-Agent: bench\r\n\r\n", name, w.host, accept)
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, err
	}
	length, chunked := int64(-1), false
	for first := true; ; first = false {
		b, err := w.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line := strings.TrimRight(string(b), "\r\n")
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case first && !strings.HasPrefix(line, "HTTP/1.1 200 "):
			return nil, fmt.Errorf("GET /%s: %s", name, line)
		case strings.EqualFold(key, "Content-Length"):
			if length, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, err
			}
		case strings.EqualFold(key, "Transfer-Encoding"):
			chunked = true
		case line == "" && chunked:
			return &chunks{httputil.NewChunkedReader(w.in), w.in}, nil
		case line == "" && length < 0:
			return nil, fmt.Errorf("GET /%s: the response has no length", name)
		case line == "":
			return io.LimitReader(w.in, length), nil
		}
	}
}

// chunks is a body in chunks, which ends with an empty line.
type chunks struct {
	io.Reader
	in *bufio.Reader
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if _, end := c.in.ReadSlice('\n'); end != nil {
			return n, end
		}
	}
	return n, err
}

// fetch returns a whole body, which is valid until the next call.
func (w *wire) fetch(name string) ([]byte, error) {
	body, err := w.ask(name, "*/*")
	if err != nil {
		return nil, err
	}
	w.body.Reset()
	_, err = w.body.ReadFrom(body)
	return w.body.Bytes(), err
}

// drain returns the length of a body.
func (w *wire) drain(name string) (int64, error) {
	body, err := w.ask(name, "*/*")
	if err != nil {
		return 0, err
	}
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, w.scratch)
}
