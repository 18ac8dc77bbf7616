package stand

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a process may take to start, and to end after it was asked to.
const patience = time.Minute

// Process is a running child. Its standard input stays open until Stop, so that one that watches it ends with this process, however that ends.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *tail
	done   chan struct{}
	err    error
	once   sync.Once
}

// Start runs a program. The kernel ends it should this process be killed.
func Start(dir, program string, args ...string) (*Process, error) {
	p := &Process{stderr: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(program, args...) //nolint:noctx // Stop ends it, gently at first
	p.cmd.Dir, p.cmd.Stderr, p.cmd.SysProcAttr = dir, p.stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	// A pipe of our own: that of StdoutPipe would be closed under its reader by Wait.
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p.cmd.Stdout, p.stdin, p.stdout = in, stdin, bufio.NewReader(out)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that started the child ends (prctl(2)); this one ends here
		err := p.cmd.Start()
		_ = in.Close()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		_ = out.Close()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), out.Close())
	}
	return p, nil
}

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Line returns what follows prefix in the first line of standard output that begins with it: how a server says where it listens.
func (p *Process) Line(ctx context.Context, prefix string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for {
			line, err := p.stdout.ReadString('\n')
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				found <- strings.TrimSpace(rest)
				return
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case line, ok := <-found:
		if ok {
			return line, nil
		}
		select { // what it wrote to standard error has arrived by then
		case <-p.done:
		case <-ctx.Done():
		}
		return "", p.failed("ended before it was ready", p.err)
	case <-ctx.Done():
		return "", p.failed("was not ready", ctx.Err())
	}
}

// Ask writes a line to standard input and returns the rest of the line that answers it, as Line does.
func (p *Process) Ask(ctx context.Context, question, prefix string) (string, error) {
	if _, err := io.WriteString(p.stdin, question+"\n"); err != nil {
		return "", p.failed("takes no question", err)
	}
	return p.Line(ctx, prefix)
}

// Await calls ready until it succeeds, the process ends, or the time is over.
func (p *Process) Await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
			return p.failed("ended before it was ready", p.err)
		case <-ctx.Done():
			return p.failed("was not ready", err)
		case <-tick.C:
		}
	}
}

// failed is an error with what the process said.
func (p *Process) failed(what string, err error) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s %s: %w: %s", p.cmd.Path, what, err, p.stderr)
}

// Stop asks the process to end, kills it when it does not, and waits. A nil process has ended.
func (p *Process) Stop() (err error) {
	if p == nil {
		return nil
	}
	p.once.Do(func() {
		select {
		case <-p.done:
			err = p.failed("ended by itself", p.err)
			return
		default:
		}
		_ = p.stdin.Close()
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
			err = fmt.Errorf("%s did not end in %s and was killed", p.cmd.Path, patience)
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

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	t.buf = t.buf[max(0, len(t.buf)-2<<10):]
	return len(b), nil
}

// String is what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
