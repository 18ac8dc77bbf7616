package overlay

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// View implements driver.Mounter. The mount is in no directory: the kernel removes it with its last descriptor, also when the process is killed.
// It has no upper directory, so that the kernel writes nothing to the state.
func (d *Driver) View(ctx context.Context, layer, state string) (rootfs.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, &fserr.Error{Op: "mount", Code: fserr.CodeOf(err), Err: err}
	}
	if err := d.mode.fits(readFacts()); err != nil {
		return nil, err
	}
	dirs, err := d.openDirs(driver.Place{Layer: layer, State: state})
	if err != nil {
		return nil, err
	}
	defer dirs.close()
	if d.Lost(state) {
		return nil, lostError("mount")
	}
	mnt := -1
	err = namespaces.WithCapabilities(func() (err error) {
		mnt, err = d.createView(dirs)
		return err
	})
	if err != nil {
		return nil, mountError(err)
	}
	defer closeFD(mnt) // the root keeps the mount
	return rootfs.OpenAt(mnt, rootfs.Options{})
}

// createView makes a mount that shows the upper directory above the lower ones, and can only be read.
func (d *Driver) createView(dirs *dirs) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, &kernelError{call: "fsopen", err: err}
	}
	defer closeFD(fs)
	if err := d.configureView(fs, dirs); err != nil {
		return -1, said(fs, "fsconfig", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, said(fs, "mount", err)
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return -1, said(fs, "fsmount", err)
	}
	return mnt, nil
}

func (d *Driver) configureView(fs int, dirs *dirs) error {
	option := [2]string{"redirect_dir", "follow"} // directories of the layer were renamed
	if d.mode.userns {
		option = [2]string{"userxattr", ""}
	}
	if err := setOption(fs, option); err != nil {
		return err
	}
	return d.setLowers(fs, append([]int{dirs.upper}, dirs.lowers...))
}
