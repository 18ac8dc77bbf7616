package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// StartNetHTTP is http.FileServer of net/http, which Go programs use for static files.
func StartNetHTTP(ctx context.Context, e *Env) ([]*Peer, error) {
	s, err := e.goServer(ctx, "http")
	if err != nil {
		return nil, err
	}
	return []*Peer{{Name: "net-http", What: "net/http with FileServer, TCP", Role: Rival, Address: s.tcp, PIDs: s.pids, Dial: func(_ context.Context, n int) (*Conn, error) {
		c := httpConn("http://"+s.tcp+"/", n)
		c.Write, c.Remove, c.List, c.WriteLarge = nil, nil, nil, nil
		return c, nil
	}}}, nil
}

func serveHTTP(ls []net.Listener, dir string) error {
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: dialTime}
	return serveAll(ls, server.Serve)
}

// httpConn keeps one connection alive for each worker. The server has WebDAV's PUT and DELETE, and listings as JSON.
func httpConn(base string, workers int) *Conn {
	client := &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, MaxIdleConns: workers, MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers,
		DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
	}}
	buffers, large := make([]bytes.Buffer, workers), make([]byte, bulkChunk)
	// do sends a request and hands its body to use, which reads it to the end.
	do := func(method, name string, body io.Reader, size int64, use func(io.Reader) error) error {
		req, err := http.NewRequestWithContext(context.Background(), method, base+name, body)
		if err != nil {
			return err
		}
		req.ContentLength = size
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= http.StatusMultipleChoices {
			return fmt.Errorf("%s %s: %s", method, name, resp.Status)
		}
		return use(resp.Body)
	}
	discard := func(r io.Reader) error { return only(io.Copy(io.Discard, r)) }
	return &Conn{
		Close: func() error { client.CloseIdleConnections(); return nil },
		Stat:  func(_ int, name string) error { return do(http.MethodHead, name, nil, 0, discard) },
		Read: func(worker int, name string) ([]byte, error) {
			b := &buffers[worker]
			b.Reset()
			err := do(http.MethodGet, name, nil, 0, func(r io.Reader) error { return only(b.ReadFrom(r)) })
			return b.Bytes(), err
		},
		Write: func(_ int, name string, data []byte) error {
			return do(http.MethodPut, name, bytes.NewReader(data), int64(len(data)), discard)
		},
		Remove: func(_ int, name string) error { return do(http.MethodDelete, name, nil, 0, discard) },
		List: func(_ int, dir string) (n int, dirs []string, err error) {
			var entries []struct {
				Name, Type, MTime string
				Size              int64
			}
			err = do(http.MethodGet, dir+"/", nil, 0, func(r io.Reader) error {
				if err := json.NewDecoder(r).Decode(&entries); err != nil {
					return err
				}
				return discard(r)
			})
			for _, e := range entries {
				if e.Type == "directory" {
					dirs = append(dirs, e.Name)
				}
			}
			return len(entries), dirs, err
		},
		ReadLarge: func(name string) (n int64, err error) {
			err = do(http.MethodGet, name, nil, 0, func(r io.Reader) error {
				n, err = drain(r, large)
				return err
			})
			return n, err
		},
		WriteLarge: func(name string, size int64) error { return do(http.MethodPut, name, source(size), size, discard) },
	}
}
