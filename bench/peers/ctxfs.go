package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/ctxfs/ctxfs/bench/stand"
	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/server"
)

// Ctxfs is a server of its own, with a panel. Its context's folder is what all peers serve.
type Ctxfs struct {
	*stand.Process
	Host  *client.Client
	Panel *client.Panel
	// Folder is that of the panel's context.
	Folder      string
	socket, tcp string
}

// StartCtxfs starts the server as a user does, with everything on: confinement, checks of rights, limits and metrics. It builds the program if
// Options.Ctxfs names none. The folder becomes the environment's root.
func (e *Env) StartCtxfs(ctx context.Context) error {
	program, err := filepath.Abs(e.Options.Ctxfs)
	if e.Options.Ctxfs == "" {
		program = filepath.Join(e.Scratch, "ctxfs")
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/ctxfs")
		cmd.Dir, cmd.Env = filepath.Join(e.Source, ".."), append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build ctxfs: %w\n%s", err, out)
		}
	}
	workspace := filepath.Join(e.Scratch, "w")
	if err == nil {
		err = os.Mkdir(workspace, 0o755)
	}
	if err != nil {
		return err
	}
	ready := filepath.Join(workspace, "ready")
	p, err := e.Start(workspace, program, "serve", "--workspace", workspace, "--ready-file", ready, "--exit-on-stdin-close",
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn")
	if err != nil {
		return err
	}
	if err := p.Await(ctx, func() error { return exists(ready) }); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(workspace, ".contexts", ".ctxfs", "server.json"))
	if err != nil {
		return fmt.Errorf("read the server's addresses: %w", err)
	}
	var record struct {
		Socket    string
		Addresses []string
	}
	if err := json.Unmarshal(b, &record); err != nil || len(record.Addresses) < 2 {
		return fmt.Errorf("server.json names no TCP address: %s", b)
	}
	return e.open(ctx, &Ctxfs{Process: p, socket: "unix://" + record.Socket, tcp: record.Addresses[1]})
}

// StartMeasured starts a server with a gateway that answers Memory.
func (e *Env) StartMeasured(ctx context.Context) error {
	workspace := filepath.Join(e.Scratch, "w")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return err
	}
	p, err := e.Start(e.Scratch, e.Self, "peer", "ctxfs", "-", workspace)
	if err != nil {
		return err
	}
	address, err := p.Line(ctx, readyPrefix)
	if err != nil {
		return err
	}
	return e.open(ctx, &Ctxfs{Process: p, socket: address})
}

// open opens the panel.
func (e *Env) open(ctx context.Context, c *Ctxfs) (err error) {
	if c.Host, err = client.Dial(ctx, client.WithAddress(c.socket)); err != nil {
		return err
	}
	e.ends = append(e.ends, func() error { _ = c.Host.Close(); return nil })
	if c.Panel, err = c.Host.OpenPanel(ctx, "panels/bench"); err != nil {
		return err
	}
	info, err := c.Host.Info(ctx, c.Panel.ContextID())
	c.Folder, e.Root, e.Ctxfs = info.GetFolder(), info.GetFolder(), c
	return err
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// Memory is a server's own account, after a collection.
type Memory struct {
	// Heap is the bytes of live objects, Stacks those of goroutines.
	Heap, Stacks int64
	Goroutines   int
	// Resident is what the system counts.
	Resident int64
}

// memoryPrefix begins what the server's process answers to a line.
const memoryPrefix = "memory "

// Memory asks the server of StartMeasured.
func (c *Ctxfs) Memory(ctx context.Context) (m Memory, err error) {
	line, err := c.Ask(ctx, "memory", memoryPrefix)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return m, err
	}
	m.Resident, err = stand.Resident(c.PID())
	return m, err
}

// serveCtxfs is the process of StartMeasured.
func serveCtxfs(workspace string) error {
	return stand.Serve(context.Background(), func(cfg *server.Config) {
		cfg.Workspace, cfg.Gateway = workspace, "127.0.0.1:0"
	}, func(s stand.Server) error {
		fmt.Println(readyPrefix + s.Address)
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			runtime.GC()
			runtime.GC() // the first collection only moves pools' content to where the second takes it
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b, err := json.Marshal(Memory{Heap: int64(m.HeapAlloc), Stacks: int64(m.StackInuse), Goroutines: runtime.NumGoroutine()})
			if err != nil {
				return err
			}
			fmt.Printf("%s%s\n", memoryPrefix, b)
		}
		return lines.Err()
	})
}

// Peers are the panel's Go client over each of the addresses: one connection, however many operations at a time.
func (c *Ctxfs) Peers() (out []*Peer) {
	token, _ := c.Panel.Token()
	for _, p := range [][3]string{{"ctxfs", "unix socket", c.socket}, {"ctxfs-tcp", "TCP", c.tcp}} {
		out = append(out, &Peer{Name: p[0], What: "ctxfs, Go client, " + p[1], Role: Product, PIDs: []int{c.PID()}, Dial: func(ctx context.Context, _ int) (*Conn, error) {
			cl, err := client.Dial(ctx, client.WithAddress(p[2]), client.WithToken(token))
			if err != nil {
				return nil, err
			}
			return ctxfsConn(cl.FS(), cl.Close), nil
		}})
	}
	return out
}

func ctxfsConn(f *client.FS, end func() error) *Conn {
	return &Conn{
		Close: end,
		Stat:  func(_ int, name string) error { return only(f.Stat(name)) },
		StatAll: func(names []string) error {
			for _, a := range f.LstatAll(names) {
				if a.Err != nil {
					return a.Err
				}
			}
			return nil
		},
		Read:   func(_ int, name string) ([]byte, error) { return f.ReadFile(name) },
		Write:  func(_ int, name string, data []byte) error { return f.WriteFile(name, data, 0o644) },
		Remove: func(_ int, name string) error { return f.Unlink(name) },
		List:   func(_ int, dir string) (int, []string, error) { return listed(f.ReadDir(dir)) },
		Tree: func(dir string) (int, error) {
			entries, err := f.List(dir, client.ListOptions{Recursive: true, Stats: true})
			return len(entries), err
		},
		Grep: func(dir, text string) (int, error) {
			files := map[string]struct{}{}
			_, err := f.Grep(client.GrepOptions{Path: dir, Pattern: text, Fixed: true}, func(found client.GrepFile) error {
				files[found.Path] = struct{}{}
				return nil
			})
			return len(files), err
		},
		ReadLarge: func(name string) (int64, error) {
			r, err := f.ReadStream(name, client.ReadOptions{})
			if err != nil {
				return 0, err
			}
			defer r.Close()
			return drain(r, nil)
		},
		WriteLarge: func(name string, size int64) error {
			w, err := f.WriteStream(name, client.WriteOptions{Perm: 0o644})
			if err != nil {
				return err
			}
			if _, err := io.Copy(w, source(size)); err != nil {
				w.Abort()
				return err
			}
			return w.Close()
		},
	}
}
