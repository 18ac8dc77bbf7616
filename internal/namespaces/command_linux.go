package namespaces

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// self is this program, also when its file was replaced or removed.
const self = "/proc/self/exe"

// Command is this program again, with arguments, in namespaces of its own. The caller sets its standard files and
// starts it, within Start or Run of this package.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(withoutMarker(os.Environ()), Marker+"="+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: allCapabilities(),
		// A server whose parent was killed stops as if it was asked to.
		Pdeathsig: syscall.SIGTERM,
	}
	return cmd
}

func withoutMarker(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, Marker+"=") })
}

func allCapabilities() []uintptr {
	var all []uintptr
	for c := range lastCapability() + 1 {
		all = append(all, c)
	}
	return all
}

// StartError says that the system does not let this process have namespaces, and why.
type StartError struct {
	// Why names the setting that refuses, as far as it can be told.
	Why string
	// Err is what starting the process gave.
	Err error
}

// Error returns Why.
func (e *StartError) Error() string { return e.Why }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Start starts a Command; an error is a *StartError when the namespaces are what could not be had. The calling
// goroutine must be locked to its thread until the process has ended: the kernel takes the thread for its parent.
func Start(cmd *exec.Cmd) error {
	err := cmd.Start()
	if err == nil {
		return nil
	}
	if why := readSettings().refusal(err); why != "" {
		return &StartError{Why: why, Err: err}
	}
	return fmt.Errorf("start again in namespaces: %w", err)
}
