//go:build unix

package command

import (
	"os"
	"syscall"
)

// ownSession keeps the terminal's signals, also that of its end, from a process.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// keepSignals ask a server to stop and to leave commands running ('ctxfs stop --keep-commands').
func keepSignals() []os.Signal { return []os.Signal{syscall.SIGUSR1} }
