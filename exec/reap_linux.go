package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// identityOf returns the identity of a process; none if there is no such process.
func identityOf(pid int) (identity, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, err
	}
	// proc_pid_stat(5): field 22, the 20th after the name, which may contain anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return identity{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, err
}

// end kills the process, if it still exists, and waits until it has ended.
func (i identity) end(ctx context.Context) error {
	if i.PID <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(i.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread has the number now
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing is written through it
	// The descriptor keeps the process of that number apart from later ones: now it can be compared.
	if now, err := identityOf(i.PID); err != nil || now != i {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Second/time.Millisecond))
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}
