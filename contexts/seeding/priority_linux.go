package seeding

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lowerPriority gives the calling goroutine a thread of its own with the lowest priority. The thread ends with the goroutine.
func lowerPriority() {
	runtime.LockOSThread()
	const (
		lowest      = 19
		whoProcess  = 1       // IOPRIO_WHO_PROCESS, a thread
		ioClassIdle = 3 << 13 // IOPRIO_CLASS_IDLE
	)
	tid := unix.Gettid()
	_ = unix.Setpriority(unix.PRIO_PROCESS, tid, lowest)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(tid), ioClassIdle) // a kernel without it has one class for all
}
