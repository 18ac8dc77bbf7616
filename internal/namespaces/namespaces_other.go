//go:build !linux

package namespaces

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// errLinux says why nothing works here.
var errLinux = errors.New("user namespaces need Linux")

// Enter lays capabilities aside; there are none here.
func Enter() (aside bool, err error) { return true, os.Unsetenv(Marker) }

// WithCapabilities calls do.
func WithCapabilities(do func() error) error { return do() }

// Command is this program again; it cannot be started in namespaces here.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, os.Args[0], args...)
}

// StartError says that the system does not let this process have namespaces, and why.
type StartError struct {
	// Why names what refuses.
	Why string
	// Err is the cause.
	Err error
}

// Error returns Why.
func (e *StartError) Error() string { return e.Why }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Start refuses.
func Start(*exec.Cmd) error { return &StartError{Why: errLinux.Error(), Err: errLinux} }
