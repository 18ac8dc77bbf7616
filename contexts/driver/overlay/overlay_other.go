//go:build !linux

package overlay

import (
	"context"
	"errors"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// errLinux says why nothing works here.
var errLinux = errors.New("overlay driver: it needs Linux")

func onlyLinux(op string) error {
	return &fserr.Error{
		Op: op, Code: fserr.EOPNOTSUPP, Detail: "contexts of the overlay driver can be used on Linux only",
		Hint: "serve the workspace on Linux; the context's files are kept",
	}
}

// Prepare implements driver.Driver; it refuses.
func (d *Driver) Prepare(context.Context, string, string, func(driver.Progress)) error {
	return onlyLinux("prepare")
}

// Duplicate implements driver.Driver: it refuses.
func (*Driver) Duplicate(context.Context, string, string, func(func(context.Context) error) error) ([]string, error) {
	return nil, onlyLinux("duplicate")
}

// Check implements driver.Driver; it refuses.
func (d *Driver) Check(context.Context, string) error { return errLinux }

// Mount implements driver.Mounter; it refuses.
func (d *Driver) Mount(context.Context, driver.Place) error { return onlyLinux("mount") }

// Unmount implements driver.Mounter: nothing is ever mounted.
func (d *Driver) Unmount(context.Context, string, bool) error { return nil }

// Lost implements driver.Mounter: nothing can be told here.
func (d *Driver) Lost(string) bool { return false }

// Accept implements driver.Mounter; it refuses.
func (d *Driver) Accept(context.Context, string) error { return onlyLinux("accept") }

// View implements driver.Mounter; it refuses.
func (d *Driver) View(context.Context, string, string) (rootfs.Root, error) {
	return nil, onlyLinux("review")
}

// Mounts implements driver.Mounter: there are none.
func (d *Driver) Mounts(string) ([]string, error) { return nil, nil }

// LeftChecks implements driver.Mounter: nothing is ever left.
func (d *Driver) LeftChecks(string) ([]string, error) { return nil, nil }

// RemoveCheck implements driver.Mounter; it refuses.
func (d *Driver) RemoveCheck(context.Context, string, string) error { return onlyLinux("rm") }

// Hidden says why mounts would not be seen by everyone.
func Hidden() string { return "it needs Linux" }

// Changed implements driver.Mounter; it refuses.
func (d *Driver) Changed(context.Context, string) ([]string, error) { return nil, onlyLinux("review") }

// Small implements driver.Sharer: nothing is shared here.
func (d *Driver) Small(context.Context, string) bool { return true }

// Sharable implements driver.Sharer; it refuses.
func (d *Driver) Sharable(context.Context, driver.Place) error { return onlyLinux("fork") }

// NewPart implements driver.Sharer; it refuses.
func (d *Driver) NewPart(context.Context, driver.Place) (string, error) { return "", onlyLinux("fork") }

// Freeze implements driver.Sharer; it refuses.
func (d *Driver) Freeze(context.Context, driver.Place, string) error { return onlyLinux("fork") }

// OnPart implements driver.Sharer; it refuses.
func (d *Driver) OnPart(string, string) error { return onlyLinux("fork") }
