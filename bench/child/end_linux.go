package child

import "syscall"

// endWithParent has the kernel end the child should this process be killed. It counts from
// the end of the thread that started it; Go ends none but those that a goroutine locked.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
