package background

import "golang.org/x/sys/unix"

const (
	// lower is by how much lowerPriority raises the nice value. Beside another busy thread, such a thread gets about a tenth
	// of a processor: enough to release soon what it holds.
	lower = 10
	// mostNice is the lowest priority there is (setpriority(2)).
	mostNice = 19
)

// lowerPriority lowers the calling thread's priority. Where a filter of system calls forbids it, it keeps that which it has.
func lowerPriority() {
	knob, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	// The system call returns 20 minus the nice value.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-knob+lower, mostNice))
}
