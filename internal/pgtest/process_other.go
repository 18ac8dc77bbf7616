//go:build !linux

package pgtest

import (
	"bytes"
	"os/exec"
	"syscall"
)

// process is a postmaster. Its children notice when it ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd, make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// stop kills it and returns what it wrote.
func (p *process) stop(log *bytes.Buffer) string {
	p.kill()
	return log.String()
}

func ordinary() *syscall.SysProcAttr { return nil }

func giveAway(string) error { return nil }
