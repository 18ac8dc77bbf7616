//go:build unix

package command

import "syscall"

// ownSession keeps the terminal's signals, also that of its end, from a process.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
