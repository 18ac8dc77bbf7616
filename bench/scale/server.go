// Package scale shows that cost grows in proportion to the work: memory and processor time
// of panels with sessions and of open handles, time of large directories and files. The
// server runs in a process of its own and reports its heap on request.
package scale

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ctxfs/ctxfs/bench/child"
	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/server"
)

const (
	// readyPrefix and memoryPrefix begin what the server's process answers.
	readyPrefix, memoryPrefix = "ready ", "memory "
	// ask has it answer with its memory.
	ask = "memory"
)

// Memory is a server's own account, after a collection.
type Memory struct {
	// Heap is the bytes of live objects, Stacks those of goroutines.
	Heap, Stacks int64
	Goroutines   int
}

// Serve is the server's process: it serves workspace, and answers each line on standard
// input with its memory, until that ends.
func Serve(workspace string) error {
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.HandlesPerPanel, cfg.HandlesTotal, cfg.Gateway = workspace, 2*handles, 2*handles, "127.0.0.1:0"
	s, err := server.New(context.Background(), cfg, server.Deps{Version: "0.0.0-scale"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	fmt.Println(readyPrefix + s.Info().Addresses.Target())
	err = answer(os.Stdin, os.Stdout)
	stop()
	return errors.Join(err, <-served)
}

func answer(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		b, err := json.Marshal(memory())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s%s\n", memoryPrefix, b); err != nil {
			return err
		}
	}
	return lines.Err()
}

// memory collects twice: the first collection only moves pools' content to where the second takes it.
func memory() Memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Memory{Heap: int64(m.HeapAlloc), Stacks: int64(m.StackInuse), Goroutines: runtime.NumGoroutine()}
}

// Server is a server in a process of its own, with a panel. Start starts it; Close ends it, also when Start failed half-way.
type Server struct {
	process *child.Process
	host    *client.Client
	address string
	folder  string
}

// Start starts the server. self is this program, which must call Serve for "peer scale - WORKSPACE"; scratch is for its files.
func (s *Server) Start(ctx context.Context, self, scratch string) (p *client.Panel, err error) {
	workspace := filepath.Join(scratch, "w")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return nil, err
	}
	if s.process, err = child.Start(scratch, self, "peer", "scale", "-", workspace); err != nil {
		return nil, err
	}
	if s.address, err = s.process.Line(ctx, readyPrefix); err != nil {
		return nil, err
	}
	if s.host, err = client.Dial(ctx, client.WithAddress(s.address)); err != nil {
		return nil, err
	}
	if p, err = s.host.OpenPanel(ctx, "panels/scale"); err != nil {
		return nil, err
	}
	info, err := s.host.Info(ctx, p.ContextID())
	s.folder = info.GetFolder()
	return p, err
}

// Host returns the connection of the host that opened the panel.
func (s *Server) Host() *client.Client { return s.host }

// Folder returns the folder of the panel's context.
func (s *Server) Folder() string { return s.folder }

// PID returns the process's ID.
func (s *Server) PID() int { return s.process.PID() }

// Close ends the process.
func (s *Server) Close() error {
	if s.host != nil {
		_ = s.host.Close()
	}
	if s.process == nil {
		return nil
	}
	return s.process.Stop()
}

// Memory returns the server's account of itself, and the system's.
func (s *Server) Memory(ctx context.Context) (m Memory, resident int64, err error) {
	line, err := s.process.Ask(ctx, ask, memoryPrefix)
	if err != nil {
		return m, 0, err
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return m, 0, err
	}
	resident, err = child.Resident(s.process.PID())
	return m, resident, err
}
