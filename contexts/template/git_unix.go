//go:build unix

package template

import (
	"os/exec"
	"syscall"
)

// isolate puts git into a session of its own: without a terminal that it or ssh
// could ask for a password, and so that what it started is stopped with it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
