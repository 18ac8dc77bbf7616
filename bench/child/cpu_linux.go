package child

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

// CPU is the processor time, of user and system, of this process, of children that it
// waited for, and of the processes named with their children.
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
		t, err := Used(pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// Used is the processor time of one process with its children, to 10 ms.
func Used(pid int) (time.Duration, error) {
	sum, err := processTime(pid)
	if err != nil {
		return 0, err
	}
	for _, c := range children(pid) {
		t, err := Used(c)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// processTime reads utime and stime, fields 14 and 15 of proc(5)'s stat.
func processTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0, fmt.Errorf("read the processor time: /proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+system) * tick, err
}

// children are those of the main thread, which is the one that forks in nginx.
func children(pid int) []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var out []int
	for _, f := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
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
