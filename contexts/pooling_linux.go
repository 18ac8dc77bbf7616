package contexts

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// lowerPriority makes everything else on the machine go before the calling goroutine, which keeps
// its thread to the end, and takes it along.
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

// sharesExtents tells whether files in dir can share their extents (btrfs, XFS).
func sharesExtents(dir string) bool {
	from, err := os.CreateTemp(dir, "extents-")
	if err != nil {
		return false
	}
	defer func() { _ = from.Close(); _ = os.Remove(from.Name()) }()
	to, err := os.CreateTemp(dir, "extents-")
	if err != nil {
		return false
	}
	defer func() { _ = to.Close(); _ = os.Remove(to.Name()) }()
	if _, err := from.Write(make([]byte, blockSize)); err != nil {
		return false
	}
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}
