// Package child runs the servers that are measured, each as a process of its own, and
// says what they cost. It owns every process it starts: Stop ends it and waits.
package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTime is how long a process may take to end after it was asked to, readyTime how long it may take to start.
const (
	stopTime  = 10 * time.Second
	readyTime = 20 * time.Second
)

// Process is a running child. Its standard input stays open until Stop, so that one that
// watches it ends with this process, however that ends.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *tail
	done   chan struct{}
	err    error
	once   sync.Once
}

// Start runs a program.
func Start(dir, program string, args ...string) (*Process, error) {
	p := &Process{stderr: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(program, args...) //nolint:noctx // Stop ends it, gently at first
	p.cmd.Dir, p.cmd.Stderr, p.cmd.SysProcAttr = dir, p.stderr, endWithParent()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	// A pipe of our own: that of StdoutPipe would be closed under its reader by Wait.
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p.cmd.Stdout = in
	p.stdin, p.stdout = stdin, bufio.NewReader(out)
	err = p.cmd.Start()
	_ = in.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), out.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		_ = out.Close()
		close(p.done)
	}()
	return p, nil
}

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Line returns what follows prefix in the first line of standard output that begins with
// it: how a server says where it listens.
func (p *Process) Line(ctx context.Context, prefix string) (string, error) {
	type answer struct {
		line string
		err  error
	}
	found := make(chan answer, 1)
	go func() {
		for {
			line, err := p.stdout.ReadString('\n')
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				found <- answer{line: strings.TrimSpace(rest)}
				return
			}
			if err != nil {
				found <- answer{err: err}
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	select {
	case a := <-found:
		if a.err != nil {
			select { // what it wrote to standard error has arrived by then
			case <-p.done:
			case <-ctx.Done():
			}
			return "", fmt.Errorf("%s ended before it was ready: %s", p.cmd.Path, p.stderr)
		}
		return a.line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s was not ready: %w: %s", p.cmd.Path, ctx.Err(), p.stderr)
	}
}

// Ask writes a line to standard input and returns the rest of the line that answers it, as
// Line does.
func (p *Process) Ask(ctx context.Context, question, prefix string) (string, error) {
	if _, err := io.WriteString(p.stdin, question+"\n"); err != nil {
		return "", fmt.Errorf("ask %s: %w: %s", p.cmd.Path, err, p.stderr)
	}
	return p.Line(ctx, prefix)
}

// Await calls ready until it succeeds, the process ends, or the time is over.
func (p *Process) Await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %s", p.cmd.Path, p.stderr)
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready: %w: %s", p.cmd.Path, err, p.stderr)
		case <-tick.C:
		}
	}
}

// Stop asks the process to end, kills it when it does not, and waits.
func (p *Process) Stop() error {
	var err error
	p.once.Do(func() {
		select {
		case <-p.done:
			err = fmt.Errorf("%s ended by itself: %w: %s", p.cmd.Path, p.err, p.stderr)
			return
		default:
		}
		_ = p.stdin.Close()
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(stopTime)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
			err = fmt.Errorf("%s did not end in %s and was killed", p.cmd.Path, stopTime)
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	})
	return err
}

// tail keeps the last of what was written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	t.buf = t.buf[max(0, len(t.buf)-tailSize):]
	return len(b), nil
}

// String is what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
