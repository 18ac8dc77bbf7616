package overlay

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/xattr"
)

// Prepare implements driver.Driver. Nothing is copied but the attributes of the root, which overlayfs takes
// from the upper directory, and in a user namespace the files that have several names.
func (d *Driver) Prepare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	if err := ctx.Err(); err != nil {
		return &fserr.Error{Op: "prepare", Code: fserr.CodeOf(err), Err: err}
	}
	upper := filepath.Join(dst, upperName)
	for _, dir := range []string{upper, filepath.Join(dst, workName)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return stateError("prepare", err)
		}
	}
	var err error
	if src == "" {
		err = d.startEmpty(dst, upper)
	} else {
		err = d.likeLayer(ctx, src, dst)
	}
	if err == nil {
		err = d.markKept(dst)
	}
	if err != nil {
		return stateError("prepare", err)
	}
	if progress != nil {
		progress(driver.Progress{})
	}
	return nil
}

func (d *Driver) startEmpty(dst, upper string) error {
	if err := os.Mkdir(filepath.Join(dst, lowerName), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(upper, 0o755); err != nil {
		return err
	}
	if o := d.opts.Owner; o != nil {
		return os.Lchown(upper, o.UID, o.GID)
	}
	return nil
}

// likeRoot gives upper the owner, mode, xattrs and times of src.
func likeRoot(src, upper string) error {
	var st unix.Stat_t
	if err := unix.Lstat(src, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	if err := os.Lchown(upper, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := xattr.CopyUser(src, upper); err != nil {
		return err
	}
	if err := unix.Chmod(upper, st.Mode&0o7777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, upper, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
