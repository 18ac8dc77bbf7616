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
	"runtime"

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
	cfg.Workspace, cfg.HandlesPerPanel, cfg.HandlesTotal = workspace, 2*handles, 2*handles
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
