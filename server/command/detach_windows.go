package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownSession gives a process no console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// keepSignals: no command outlives the server.
func keepSignals() []os.Signal { return nil }
