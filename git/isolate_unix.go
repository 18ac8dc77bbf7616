//go:build unix

package git

import (
	"os"
	"os/exec"
	"syscall"
)

// isolate puts git into a session of its own: git and ssh have no terminal to ask for a
// password, and the processes that git started are killed with it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// isOurs reports whether this process's user owns a file.
func isOurs(name string) bool {
	st, err := os.Stat(name)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}

// isProgram reports whether git runs a file as a hook.
func isProgram(st os.FileInfo) bool { return st.Mode()&0o111 != 0 }
