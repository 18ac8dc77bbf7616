package peers

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ctxfs/ctxfs/bench/child"
	"github.com/ctxfs/ctxfs/client"
)

// panelID is the panel whose folder is measured.
const panelID = "panels/bench"

// Ctxfs is a server of its own as a user starts it, with everything on: confinement, checks
// of rights, limits and metrics. Its context's folder is what all peers serve.
type Ctxfs struct {
	// Earlier is set for the server of an earlier version, which serves a folder of its own.
	Earlier bool
	process *child.Process
	socket  string
	tcp     string
	host    *client.Client
	panel   *client.Panel
}

// Program is the server that is measured: the one that was named, else one that is built in dir. source is the folder of bench's source.
func Program(ctx context.Context, named, source, dir string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	program := filepath.Join(dir, "ctxfs")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/ctxfs")
	cmd.Dir = filepath.Join(source, "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ctxfs: %w\n%s", err, out)
	}
	return program, nil
}

// Name implements Family.
func (c *Ctxfs) Name() string {
	if c.Earlier {
		return "ctxfs-before"
	}
	return "ctxfs"
}

// Launch starts the server on an empty workspace, opens the panel, and returns its folder.
func (c *Ctxfs) Launch(ctx context.Context, program, workspace string, flags ...string) (folder string, err error) {
	ready := filepath.Join(workspace, "ready")
	args := append([]string{"serve", "--workspace", workspace, "--ready-file", ready, "--exit-on-stdin-close",
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn"}, flags...)
	if c.process, err = child.Start(workspace, program, args...); err != nil {
		return "", err
	}
	if err := c.process.Await(ctx, func() error { return readable(ready) }); err != nil {
		return "", err
	}
	record, err := readRecord(workspace)
	if err != nil {
		return "", err
	}
	c.socket, c.tcp = "unix://"+record.Socket, record.Addresses[1]
	if c.host, err = client.Dial(ctx, client.WithAddress(c.socket)); err != nil {
		return "", err
	}
	if c.panel, err = c.host.OpenPanel(ctx, panelID); err != nil {
		return "", err
	}
	info, err := c.host.Info(ctx, c.panel.ContextID())
	if err != nil {
		return "", err
	}
	if info.GetFolder() == "" {
		return "", fmt.Errorf("the server did not tell the folder of %s", c.panel.ContextID())
	}
	return info.GetFolder(), nil
}

// Start implements Family; Launch comes first.
func (c *Ctxfs) Start(context.Context, Env) ([]*Peer, error) {
	token, _ := c.panel.Token()
	pids, what := []int{c.process.PID()}, "ctxfs"
	if c.Earlier {
		what = "the earlier ctxfs of --before"
	}
	return []*Peer{
		{Name: c.Name(), What: what + ", Go client, unix socket", Role: Product, PIDs: pids, Dial: func(ctx context.Context, _ int) (Conn, error) {
			return dialCtxfs(ctx, c.socket, token)
		}},
		{Name: c.Name() + "-tcp", What: what + ", Go client, TCP", Role: Product, PIDs: pids, Dial: func(ctx context.Context, _ int) (Conn, error) {
			return dialCtxfs(ctx, c.tcp, token)
		}},
	}, nil
}

// PID is the server's.
func (c *Ctxfs) PID() int { return c.process.PID() }

// Host is the connection by which the panel was opened.
func (c *Ctxfs) Host() *client.Client { return c.host }

// Address is the unix socket's.
func (c *Ctxfs) Address() string { return c.socket }

// Close implements Family.
func (c *Ctxfs) Close() error {
	if c.host != nil {
		_ = c.host.Close()
	}
	if c.process == nil {
		return nil
	}
	return c.process.Stop()
}

// dialCtxfs is a panel: one connection, however many operations at a time.
func dialCtxfs(ctx context.Context, address, token string) (Conn, error) {
	cl, err := client.Dial(ctx, client.WithAddress(address), client.WithToken(token))
	if err != nil {
		return nil, err
	}
	return &ctxfsConn{client: cl, fs: cl.FS()}, nil
}

type ctxfsConn struct {
	client *client.Client
	fs     *client.FS
}

// Close implements Conn.
func (c *ctxfsConn) Close() error { return c.client.Close() }

// Stat implements Stater.
func (c *ctxfsConn) Stat(_ int, name string) error {
	_, err := c.fs.Stat(name)
	return err
}

// StatAll implements ManyStater.
func (c *ctxfsConn) StatAll(names []string) error {
	for _, a := range c.fs.LstatAll(names) {
		if a.Err != nil {
			return a.Err
		}
	}
	return nil
}

// ReadFile implements FileReader.
func (c *ctxfsConn) ReadFile(_ int, name string) ([]byte, error) { return c.fs.ReadFile(name) }

// WriteFile implements FileWriter.
func (c *ctxfsConn) WriteFile(_ int, name string, data []byte) error {
	return c.fs.WriteFile(name, data, 0o644)
}

// Remove implements Remover.
func (c *ctxfsConn) Remove(_ int, name string) error { return c.fs.Unlink(name) }

// List implements Lister.
func (c *ctxfsConn) List(_ int, dir string) (int, []string, error) {
	entries, err := c.fs.ReadDir(dir)
	return len(entries), dirNames(entries), err
}

// ListTree implements TreeLister.
func (c *ctxfsConn) ListTree(dir string) (int, error) {
	entries, err := c.fs.List(dir, client.ListOptions{Recursive: true, Stats: true})
	return len(entries), err
}

// Grep implements Grepper.
func (c *ctxfsConn) Grep(dir, text string) (int, error) {
	files := map[string]struct{}{}
	_, err := c.fs.Grep(client.GrepOptions{Path: dir, Pattern: text, Fixed: true}, func(f client.GrepFile) error {
		files[f.Path] = struct{}{}
		return nil
	})
	return len(files), err
}

// ReadStream implements StreamReader.
func (c *ctxfsConn) ReadStream(name string) (int64, error) {
	r, err := c.fs.ReadStream(name, client.ReadOptions{})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return drain(r, nil)
}

// WriteStream implements StreamWriter.
func (c *ctxfsConn) WriteStream(name string, size int64) error {
	w, err := c.fs.WriteStream(name, client.WriteOptions{Perm: 0o644})
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, source(size)); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

func dirNames(entries []fs.DirEntry) []string {
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}
