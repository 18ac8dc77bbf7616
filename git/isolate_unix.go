//go:build unix

package git

import (
	"os/exec"
	"syscall"
)

// isolate puts git into a session of its own: git and ssh have no terminal to ask for a
// password, and the processes that git started are killed with it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
