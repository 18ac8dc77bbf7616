package rootfs

import (
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor owns a file descriptor number. Close waits for nobody: the number
// is released when the last use ends, so it can never be reused under a caller.
type descriptor struct {
	fd int
	// state counts the users; closed is added once.
	state atomic.Int64
}

const closed = 1 << 62

// acquire returns the number, which stays open until release; after close it is
// os.ErrClosed (EBADF).
func (d *descriptor) acquire() (fd int, err error) {
	for {
		state := d.state.Load()
		if state >= closed {
			return -1, os.ErrClosed
		}
		if d.state.CompareAndSwap(state, state+1) {
			return d.fd, nil
		}
	}
}

func (d *descriptor) release() {
	if d.state.Add(-1) == closed {
		closeFD(d.fd)
	}
}

// use calls fn between acquire and release.
func (d *descriptor) use(fn func(fd int) error) error {
	fd, err := d.acquire()
	if err != nil {
		return err
	}
	defer d.release()
	return fn(fd)
}

func (d *descriptor) close() error {
	for !d.state.CompareAndSwap(0, closed) {
		state := d.state.Load()
		if state >= closed {
			return os.ErrClosed
		}
		if state > 0 && d.state.CompareAndSwap(state, state+closed) {
			return nil // the last user closes it
		}
	}
	// On Linux the number is gone whatever close returns; the error may tell of
	// a write that failed late (EIO, ENOSPC, EDQUOT).
	if err := unix.Close(d.fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}

// closeFD closes a descriptor through which nothing was written.
func closeFD(fd int) { _ = unix.Close(fd) }

// uninterrupted calls fn again while a signal interrupts it.
func uninterrupted(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

// openAt is openat(2) of one component, or ".", that is never followed.
func openAt(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = uninterrupted(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// procFD is the name under which a system call that takes no descriptor finds fd.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// readlinkFD reads the target of a link held by an O_PATH descriptor; EINVAL
// when it is no link.
func readlinkFD(fd int) (string, error) {
	target, err := readlinkAt(fd, "")
	if err == unix.ENOENT {
		err = unix.EINVAL
	}
	return target, err
}

func readlinkAt(dir int, name string) (string, error) {
	buf := make([]byte, MaxPath+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
