package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/bench/child"
)

// jsonConns is how many connections share the work at a concurrency above it.
const jsonConns = 4

// jsonInFlight is how many pieces of a large file are under way.
const jsonInFlight = 8

// JSONWS is a file service in Node that speaks JSON over WebSocket, with content in base64:
// what panels use today. Its source is in node/.
type JSONWS struct {
	process *child.Process
	// address is where it listens, once it does.
	address string
}

// Name implements Family.
func (*JSONWS) Name() string { return "json-ws" }

// Start implements Family.
func (j *JSONWS) Start(ctx context.Context, env Env) ([]*Peer, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, &MissingError{What: "node (Debian: nodejs)"}
	}
	dir := filepath.Join(env.Source, "peers", "node")
	if readable(filepath.Join(dir, "node_modules", "ws")) != nil {
		return nil, &MissingError{What: "the package ws: npm install --prefix bench/peers/node, which make bench does"}
	}
	if j.process, err = child.Start(dir, node, "json-server.mjs", env.Root); err != nil {
		return nil, err
	}
	if j.address, err = j.process.Line(ctx, readyPrefix); err != nil {
		return nil, err
	}
	return []*Peer{{
		Name: "json-ws", What: "JSON over WebSocket with base64, Node and ws, TCP", PIDs: []int{j.process.PID()},
		Dial: func(ctx context.Context, n int) (Conn, error) { return dialJSON(ctx, "ws://"+j.address, n) },
	}}, nil
}

// Close implements Family.
func (j *JSONWS) Close() error {
	if j.process == nil {
		return nil
	}
	return j.process.Stop()
}

type jsonConn struct{ sockets []*jsonSocket }

func dialJSON(ctx context.Context, url string, workers int) (Conn, error) {
	c := &jsonConn{}
	for range min(workers, jsonConns) {
		s, err := dialJSONSocket(ctx, url)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.sockets = append(c.sockets, s)
	}
	return c, nil
}

// Close implements Conn.
func (c *jsonConn) Close() error {
	var errs []error
	for _, s := range c.sockets {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

func (c *jsonConn) call(worker int, req jsonRequest) (*jsonReply, error) {
	r, err := c.sockets[worker%len(c.sockets)].call(req)
	if err != nil {
		return nil, err
	}
	if r.Error != "" {
		return nil, fmt.Errorf("%s %s: %s", req.Op, req.Name, r.Error)
	}
	return r, nil
}

// Stat implements Stater.
func (c *jsonConn) Stat(worker int, name string) error {
	_, err := c.call(worker, jsonRequest{Op: "stat", Name: name})
	return err
}

// ReadFile implements FileReader.
func (c *jsonConn) ReadFile(worker int, name string) ([]byte, error) {
	r, err := c.call(worker, jsonRequest{Op: "readFile", Name: name})
	if err != nil {
		return nil, err
	}
	return r.Data, nil
}

// WriteFile implements FileWriter.
func (c *jsonConn) WriteFile(worker int, name string, data []byte) error {
	_, err := c.call(worker, jsonRequest{Op: "writeFile", Name: name, Data: data})
	return err
}

// Remove implements Remover.
func (c *jsonConn) Remove(worker int, name string) error {
	_, err := c.call(worker, jsonRequest{Op: "remove", Name: name})
	return err
}

// List implements Lister.
func (c *jsonConn) List(worker int, dir string) (int, []string, error) {
	r, err := c.call(worker, jsonRequest{Op: "readdir", Name: dir})
	if err != nil {
		return 0, nil, err
	}
	var dirs []string
	for _, e := range r.Entries {
		if e.Directory {
			dirs = append(dirs, e.Name)
		}
	}
	return len(r.Entries), dirs, nil
}

// ReadStream implements StreamReader by reads on a handle, several under way.
func (c *jsonConn) ReadStream(name string) (int64, error) {
	attributes, err := c.call(0, jsonRequest{Op: "stat", Name: name})
	if err != nil {
		return 0, err
	}
	err = c.pieces(name, "r", attributes.Size, func(fd int, off, n int64) error {
		r, err := c.call(0, jsonRequest{Op: "read", FD: fd, Offset: off, Length: n})
		if err == nil && int64(len(r.Data)) != n {
			return io.ErrUnexpectedEOF
		}
		return err
	})
	return attributes.Size, err
}

// WriteStream implements StreamWriter by writes on a handle, several under way.
func (c *jsonConn) WriteStream(name string, size int64) error {
	piece := make([]byte, bulkChunk)
	return c.pieces(name, "w", size, func(fd int, off, n int64) error {
		_, err := c.call(0, jsonRequest{Op: "write", FD: fd, Offset: off, Data: piece[:n]})
		return err
	})
}

func (c *jsonConn) pieces(name, flags string, size int64, do func(fd int, off, n int64) error) error {
	opened, err := c.call(0, jsonRequest{Op: "open", Name: name, Flags: flags})
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(jsonInFlight)
	for off := int64(0); off < size; off += bulkChunk {
		g.Go(func() error { return do(opened.FD, off, min(bulkChunk, size-off)) })
	}
	err = g.Wait()
	_, closing := c.call(0, jsonRequest{Op: "close", FD: opened.FD})
	return errors.Join(err, closing)
}
