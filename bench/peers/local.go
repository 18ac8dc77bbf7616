package peers

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Local is plain calls of package os: the limit of everything.
type Local struct{}

// Name implements Family.
func (*Local) Name() string { return "local" }

// Close implements Family.
func (*Local) Close() error { return nil }

// Start implements Family.
func (*Local) Start(_ context.Context, env Env) ([]*Peer, error) {
	return []*Peer{{
		Name: "local", What: "plain system calls, no server", Role: Limit,
		Dial: func(_ context.Context, n int) (Conn, error) {
			return &localConn{root: env.Root, buf: make([]byte, bulkChunk)}, nil
		},
	}}, nil
}

type localConn struct {
	root string
	buf  []byte
}

func (c *localConn) path(name string) string { return filepath.Join(c.root, filepath.FromSlash(name)) }

// Close implements Conn.
func (c *localConn) Close() error { return nil }

// Stat implements Stater.
func (c *localConn) Stat(_ int, name string) error {
	_, err := os.Stat(c.path(name))
	return err
}

// ReadFile implements FileReader.
func (c *localConn) ReadFile(_ int, name string) ([]byte, error) { return os.ReadFile(c.path(name)) }

// WriteFile implements FileWriter.
func (c *localConn) WriteFile(_ int, name string, data []byte) error {
	return os.WriteFile(c.path(name), data, 0o644)
}

// Remove implements Remover.
func (c *localConn) Remove(_ int, name string) error { return os.Remove(c.path(name)) }

// List implements Lister.
func (c *localConn) List(_ int, dir string) (int, []string, error) {
	entries, err := os.ReadDir(c.path(dir))
	var dirs []string
	for _, e := range entries {
		if _, err := e.Info(); err != nil {
			return 0, nil, err
		}
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return len(entries), dirs, err
}

// ReadStream implements StreamReader.
func (c *localConn) ReadStream(name string) (int64, error) {
	f, err := os.Open(c.path(name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return drain(struct{ io.Reader }{f}, c.buf)
}

// WriteStream implements StreamWriter.
func (c *localConn) WriteStream(name string, size int64) error {
	f, err := os.Create(c.path(name))
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{source(size)}, c.buf)
	return errors.Join(err, f.Close())
}
