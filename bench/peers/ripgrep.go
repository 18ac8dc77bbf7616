package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Ripgrep is rg run on the folder itself, without a server: what a search is held against.
type Ripgrep struct{}

// Name implements Family.
func (*Ripgrep) Name() string { return "ripgrep" }

// Close implements Family.
func (*Ripgrep) Close() error { return nil }

// Start implements Family.
func (*Ripgrep) Start(_ context.Context, env Env) ([]*Peer, error) {
	program, err := exec.LookPath("rg")
	if err != nil {
		return nil, &MissingError{What: "rg (Debian: ripgrep)"}
	}
	return []*Peer{{
		Name: "ripgrep", What: "rg on the folder, no server", Role: Limit,
		Dial: func(context.Context, int) (Conn, error) { return &rgConn{program: program, root: env.Root}, nil },
	}}, nil
}

type rgConn struct{ program, root string }

// Close implements Conn.
func (*rgConn) Close() error { return nil }

// Grep implements Grepper. Ignore files and hidden names do not matter: ctxfs searches all.
func (c *rgConn) Grep(dir, text string) (int, error) {
	cmd := exec.CommandContext(context.Background(), c.program, "--no-config", "-uu", "-n", "-F", "-e", text, filepath.Join(c.root, dir))
	out, err := cmd.Output()
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
