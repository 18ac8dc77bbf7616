package stand

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of /proc's times: USER_HZ, 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time, of user and system, of this process, of children that it waited for, and of the processes named with their children.
func CPU(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			return 0, fmt.Errorf("read the processor time: %w", err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for _, pid := range pids {
		t, err := used(pid)
		if err != nil {
			return 0, fmt.Errorf("read the processor time: %w", err)
		}
		sum += t
	}
	return sum, nil
}

// used is the processor time of one process with its children, to 10 ms: utime and stime, fields 14 and 15 of proc(5)'s stat. The children are
// those of the main thread, which is the one that forks in nginx.
func used(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var ticks int64
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	for _, i := range []int{11, 12} {
		if len(fields) <= i {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	sum := time.Duration(ticks) * tick
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid)) // a kernel may lack it
	for _, f := range strings.Fields(string(children)) {
		child, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		t, err := used(child)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// Resident is a process's memory in bytes (RSS).
func Resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	return resident * int64(os.Getpagesize()), nil
}
