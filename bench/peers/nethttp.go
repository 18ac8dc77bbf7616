package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// NetHTTP is a file server of net/http: http.ServeContent for content and, by HEAD, for
// attributes; PUT, DELETE, and a listing as JSON.
type NetHTTP struct{ goServer }

// Name implements Family.
func (*NetHTTP) Name() string { return "net-http" }

// Start implements Family.
func (h *NetHTTP) Start(ctx context.Context, env Env) ([]*Peer, error) {
	if err := h.start(ctx, env, "http"); err != nil {
		return nil, err
	}
	return []*Peer{{
		Name: "net-http", What: "net/http with ServeContent, PUT and DELETE, TCP", PIDs: h.pids(),
		Dial: func(_ context.Context, n int) (Conn, error) { return newHTTPConn("http://"+h.tcp+"/", "", n), nil },
	}}, nil
}

// FileServer is http.FileServer, which Go programs use for static files.
type FileServer struct{ goServer }

// Name implements Family.
func (*FileServer) Name() string { return "http.FileServer" }

// Start implements Family.
func (f *FileServer) Start(ctx context.Context, env Env) ([]*Peer, error) {
	if err := f.start(ctx, env, "fileserver"); err != nil {
		return nil, err
	}
	return []*Peer{{
		Name: f.Name(), What: "net/http with http.FileServer, TCP", PIDs: f.pids(),
		Dial: func(_ context.Context, n int) (Conn, error) { return newHTTPConn("http://"+f.tcp+"/", "/", n), nil },
	}}, nil
}

// Address returns where it listens.
func (f *FileServer) Address() string { return f.tcp }

// httpConn keeps one connection alive for each worker.
type httpConn struct {
	base string
	// slash ends the address of a directory.
	slash   string
	client  *http.Client
	buffers []*bytes.Buffer
	large   []byte
}

func newHTTPConn(base, slash string, workers int) *httpConn {
	d := net.Dialer{Timeout: dialTime}
	c := &httpConn{base: base, slash: slash, large: make([]byte, bulkChunk), client: &http.Client{Transport: &http.Transport{
		DialContext: d.DialContext, MaxIdleConns: workers, MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers,
		DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
	}}}
	for range workers {
		c.buffers = append(c.buffers, &bytes.Buffer{})
	}
	return c
}

// Close implements Conn.
func (c *httpConn) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// do sends a request and hands its body to use, which reads it to the end.
func (c *httpConn) do(method, name string, body io.Reader, size int64, use func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(context.Background(), method, c.base+name, body)
	if err != nil {
		return err
	}
	req.ContentLength = size
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s", method, name, resp.Status)
	}
	return use(resp.Body)
}

func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// Stat implements Stater.
func (c *httpConn) Stat(_ int, name string) error {
	return c.do(http.MethodHead, name, nil, 0, discard)
}

// ReadFile implements FileReader.
func (c *httpConn) ReadFile(worker int, name string) ([]byte, error) {
	b := c.buffers[worker]
	b.Reset()
	err := c.do(http.MethodGet, name, nil, 0, func(r io.Reader) error {
		_, err := b.ReadFrom(r)
		return err
	})
	return b.Bytes(), err
}

// WriteFile implements FileWriter.
func (c *httpConn) WriteFile(_ int, name string, data []byte) error {
	return c.do(http.MethodPut, name, bytes.NewReader(data), int64(len(data)), discard)
}

// Remove implements Remover.
func (c *httpConn) Remove(_ int, name string) error {
	return c.do(http.MethodDelete, name, nil, 0, discard)
}

// List implements Lister. Its clients get names, types, times and sizes.
func (c *httpConn) List(_ int, dir string) (int, []string, error) {
	var entries []struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		MTime string `json:"mtime"`
		Size  int64  `json:"size"`
	}
	err := c.do(http.MethodGet, strings.TrimSuffix(dir, "/")+c.slash, nil, 0, func(r io.Reader) error {
		if err := json.NewDecoder(r).Decode(&entries); err != nil {
			return err
		}
		return discard(r)
	})
	var dirs []string
	for _, e := range entries {
		if e.Type == "directory" {
			dirs = append(dirs, e.Name)
		}
	}
	return len(entries), dirs, err
}

// ReadStream implements StreamReader.
func (c *httpConn) ReadStream(name string) (n int64, err error) {
	err = c.do(http.MethodGet, name, nil, 0, func(r io.Reader) error {
		n, err = drain(r, c.large)
		return err
	})
	return n, err
}

// WriteStream implements StreamWriter.
func (c *httpConn) WriteStream(name string, size int64) error {
	return c.do(http.MethodPut, name, source(size), size, discard)
}
