package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// startLocal is plain calls of package os: the limit of everything.
func startLocal(_ context.Context, e *Env) ([]*Peer, error) {
	path := func(name string) string { return filepath.Join(e.Root, filepath.FromSlash(name)) }
	return []*Peer{{Name: "local", What: "plain system calls, no server", Role: Limit, Dial: func(context.Context, int) (*Conn, error) {
		buf := make([]byte, bulkChunk)
		return &Conn{
			Close:  func() error { return nil },
			Stat:   func(_ int, name string) error { return only(os.Stat(path(name))) },
			Read:   func(_ int, name string) ([]byte, error) { return os.ReadFile(path(name)) },
			Write:  func(_ int, name string, data []byte) error { return os.WriteFile(path(name), data, 0o644) },
			Remove: func(_ int, name string) error { return os.Remove(path(name)) },
			List: func(_ int, dir string) (int, []string, error) {
				entries, err := os.ReadDir(path(dir))
				for _, e := range entries {
					if _, err := e.Info(); err != nil {
						return 0, nil, err
					}
				}
				return listed(entries, err)
			},
			ReadLarge: func(name string) (int64, error) {
				f, err := os.Open(path(name))
				if err != nil {
					return 0, err
				}
				defer f.Close()
				return drain(struct{ io.Reader }{f}, buf)
			},
			WriteLarge: func(name string, size int64) error {
				f, err := os.Create(path(name))
				if err != nil {
					return err
				}
				_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{source(size)}, buf)
				return errors.Join(err, f.Close())
			},
		}, nil
	}}}, nil
}

// startRipgrep is rg run on the folder itself, without a server: what a search is held against. Ignore files and hidden names do not matter,
// since ctxfs searches all.
func startRipgrep(_ context.Context, e *Env) ([]*Peer, error) {
	program, err := exec.LookPath("rg")
	if err != nil {
		return nil, &MissingError{What: "rg (Debian: ripgrep)"}
	}
	grep := func(dir, text string) (int, error) {
		out, err := exec.CommandContext(context.Background(), program, "--no-config", "-uu", "-n", "-F", "-e", text, filepath.Join(e.Root, dir)).Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return 0, fmt.Errorf("rg: %w: %s", err, exit.Stderr)
		}
		files := map[string]struct{}{}
		for line := range bytes.Lines(out) {
			name, _, _ := bytes.Cut(line, []byte{':'})
			files[string(name)] = struct{}{}
		}
		return len(files), err
	}
	return []*Peer{{Name: "ripgrep", What: "rg on the folder, no server", Role: Limit, Dial: func(context.Context, int) (*Conn, error) {
		return &Conn{Grep: grep, Close: func() error { return nil }}, nil
	}}}, nil
}
