package namespaces

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Enter must be the first call of the second process. It lays the
// capabilities aside in all threads and removes the mark. In a program built with cgo, Go cannot reach
// all threads: the capabilities stay in use, and Enter returns false. The process can then open its user's files whatever their modes.
func Enter() (aside bool, err error) {
	if err := os.Unsetenv(Marker); err != nil {
		return false, err
	}
	caps, err := own()
	if err != nil {
		return false, err
	}
	err = everyThread(lowered(caps))
	switch {
	case errors.Is(err, unix.ENOTSUP):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lay capabilities aside: %w", err)
	}
	return true, nil
}

// everyThread sets capabilities, and takes away what programs that are started would inherit.
func everyThread(caps [2]unix.CapUserData) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	_, _, errno = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&caps[0])), 0) //nolint:gosec // the kernel reads them
	if errno != 0 {
		return errno
	}
	return nil
}

// own returns the capabilities of this thread.
func own() (caps [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return caps, fmt.Errorf("read capabilities: %w", err)
	}
	return caps, nil
}

func lowered(caps [2]unix.CapUserData) [2]unix.CapUserData {
	for i := range caps {
		caps[i].Effective, caps[i].Inheritable = 0, 0
	}
	return caps
}

// WithCapabilities calls do with every capability that the process may use; do must not start goroutines that
// need them. Outside the namespaces that changes nothing.
func WithCapabilities(do func() error) (err error) {
	caps, err := own()
	if err != nil {
		return err
	}
	raised := caps
	for i := range raised {
		raised[i].Effective = raised[i].Permitted
	}
	if raised == caps {
		return do()
	}
	runtime.LockOSThread()
	if err := set(raised); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { // also when do panics: the caller may recover, and the goroutine continue
		if back := set(caps); back != nil {
			err = errors.Join(err, back) // the thread stays locked, and ends with its goroutine
			return
		}
		runtime.UnlockOSThread()
	}()
	return do()
}

func set(caps [2]unix.CapUserData) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("take up capabilities: %w", err)
	}
	return nil
}

// lastCapability is the highest that the kernel knows (capabilities(7)).
func lastCapability() uintptr {
	data, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if n, convErr := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 8); err == nil && convErr == nil {
		return uintptr(n)
	}
	return unix.CAP_LAST_CAP
}
