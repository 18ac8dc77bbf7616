package command

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// ownSession gives a process no console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}
