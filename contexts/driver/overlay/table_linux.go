package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/moby/sys/userns"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// kind says whose a mount is.
type kind int

const (
	// foreign was mounted by somebody else.
	foreign kind = iota
	// ours is of the context that is asked about.
	ours
	// stale is of another context, one that was deleted.
	stale
)

func (d *Driver) kindOf(m *mountinfo.Info, source string) kind {
	switch {
	case m.FSType != "overlay" || m.Root != "/" || !strings.HasPrefix(m.Source, d.mode.source):
		return foreign
	case m.Source == source:
		return ours
	}
	return stale
}

// heal looks at what is mounted at folder, and reports whether the context is. Mounts
// of contexts of the past go, and so does a second one of this context.
func (d *Driver) heal(ctx context.Context, folder, source string) (there bool, err error) {
	for {
		stack, err := mountsAt(folder)
		if err != nil || len(stack) == 0 {
			return false, err
		}
		for _, m := range stack {
			if d.kindOf(m, source) == foreign {
				return false, foreignError(m.FSType)
			}
		}
		if len(stack) == 1 && d.kindOf(stack[0], source) == ours {
			return true, nil
		}
		d.opts.Log.Sugar().Warnw("a mount of the past is removed", "folder", folder, "source", stack[0].Source, "mounts", len(stack))
		if err := d.unmount(ctx, folder, d.kindOf(stack[0], source) == stale); err != nil {
			return false, err
		}
	}
}

func foreignError(fstype string) error {
	return &fserr.Error{
		Op: "mount", Code: fserr.EBUSY, Detail: "something else (" + fstype + ") is mounted at its folder",
		Hint: "unmount it; the context's files are kept",
	}
}

// statxWants is what mountsAt needs: Linux 5.8.
const statxWants = unix.STATX_TYPE | unix.STATX_MNT_ID

// mountsAt lists the mounts at folder, the uppermost first. If there is none, as at a first access,
// it costs one system call, however many mounts there are elsewhere.
func mountsAt(folder string) ([]*mountinfo.Info, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, folder, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statxWants, &st)
	switch {
	case err != nil:
		return nil, stateError("statx", err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil, stateError("statx", unix.ENOTDIR)
	case st.Mask&unix.STATX_MNT_ID == 0 || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return nil, mountError(&kernelError{call: "statx", err: unix.ENOSYS})
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return nil, nil
	}
	table, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, stateError("mountinfo", err)
	}
	stack := stackOf(table, int(st.Mnt_id))
	if len(stack) == 0 {
		return nil, foreignError("unknown")
	}
	return stack, nil
}

// stackOf follows the uppermost mount of a place to those below it at the same place.
func stackOf(table []*mountinfo.Info, top int) []*mountinfo.Info {
	byID := make(map[int]*mountinfo.Info, len(table))
	for _, m := range table {
		byID[m.ID] = m
	}
	var stack []*mountinfo.Info
	for m := byID[top]; m != nil && (len(stack) == 0 || m.Mountpoint == stack[0].Mountpoint); m = byID[m.Parent] {
		stack = append(stack, m)
		delete(byID, m.ID) // "/" can be its own parent
	}
	return stack
}

// Unmount implements driver.Mounter.
func (d *Driver) Unmount(ctx context.Context, folder string, lazily bool) error {
	for {
		if _, err := os.Lstat(folder); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		stack, err := mountsAt(folder)
		if err != nil || len(stack) == 0 {
			return err
		}
		if d.kindOf(stack[0], "") == foreign {
			return foreignError(stack[0].FSType)
		}
		if err := d.unmount(ctx, folder, lazily); err != nil {
			return err
		}
	}
}

// unmount takes the uppermost mount away; one in use only lazily, after busyTime. A sandbox that starts uses it for a moment, and so does a child
// of this process, which has copies of its descriptors until it executes its program.
func (d *Driver) unmount(ctx context.Context, folder string, lazily bool) error {
	try := func() (int, error) { return 0, detach(folder, 0) }
	_, err := try()
	if errors.Is(err, unix.EBUSY) && lazily {
		_, err = whenFree(ctx, try)
	}
	if errors.Is(err, unix.EBUSY) && lazily {
		d.opts.Log.Sugar().Warnw("a mount that is in use is hidden from everybody but its users", "folder", folder)
		err = detach(folder, unix.MNT_DETACH)
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return &fserr.Error{Op: "umount", Code: fserr.EBUSY, Detail: "it is in use", Hint: "end the programs that have files open or work in it", Err: err}
	case err != nil:
		return stateError("umount", err)
	}
	return nil
}

func detach(folder string, flags int) error {
	return namespaces.WithCapabilities(func() error { return unix.Unmount(folder, unix.UMOUNT_NOFOLLOW|flags) })
}

// Mounts implements driver.Mounter. What a driver of the other mode mounted it does not see.
func (d *Driver) Mounts(dir string) ([]string, error) {
	if d.mode.userns != userns.RunningInUserNS() {
		return nil, nil // namespaces inherit mounts that they cannot end
	}
	table, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("overlay"))
	if err != nil {
		return nil, stateError("mountinfo", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	var names []string
	for _, m := range table {
		if filepath.Dir(m.Mountpoint) == dir && d.kindOf(m, "") != foreign {
			names = append(names, filepath.Base(m.Mountpoint))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
