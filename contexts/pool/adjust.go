package pool

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/xattr"
)

// Adjust applies d to folder, a copy of the one layer, so that it becomes one of the other, whose tree is
// given: content, modes, ns times, links and xattrs are then as if it had been copied whole. Both are the server's own
// and nobody else's yet. After an error the folder is of no use.
func Adjust(ctx context.Context, d Difference, tree, folder string, owner *rootfs.Owner) error {
	from, err := rootfs.Open(tree, rootfs.Options{})
	if err != nil {
		return fmt.Errorf("open the layer: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := rootfs.Open(folder, rootfs.Options{Owner: owner, AllowChown: owner != nil})
	if err != nil {
		return fmt.Errorf("open the copy: %w", err)
	}
	defer func() { _ = to.Close() }()
	for _, p := range d.Removed {
		if _, err := to.RemoveAll(ctx, p); err != nil {
			return fserr.Wrap(err, "remove", "/"+p, "")
		}
	}
	if err := d.attributes(from, to, tree, folder); err != nil {
		return err
	}
	report, err := rootfs.CopyTree(ctx, from, ".", to, ".", rootfs.CopyOptions{
		Overwrite: true, PreserveTimestamps: true, PreserveLinks: true, PreserveXattrs: true,
		Skip: func(rel string, _ rootfs.Entry) bool { return !d.touches(path.Clean(rel)) },
	})
	if err != nil {
		return &fserr.Error{Op: "copy", Code: fserr.CodeOf(err), Err: err}
	}
	if len(report.Unstable) > 0 || report.Special > 0 {
		return &fserr.Error{Op: "copy", Code: fserr.EIO, Detail: "the layer changed while it was copied"}
	}
	return nil
}

func (d *Difference) touches(p string) bool {
	_, dir := d.Dirs[p]
	return dir || d.Copied[p]
}

// attributes gives the directories that stay, and the top, their modes and xattrs; the copy that follows sets their times.
func (d *Difference) attributes(from, to rootfs.Root, tree, folder string) error {
	st, err := from.Stat("/")
	if err != nil {
		return fserr.Wrap(err, "stat", "/", "")
	}
	modes := map[string]uint32{".": st.Perm()}
	for p, e := range d.Dirs {
		modes[p] = e.Mode &^ 0o6000 // setuid and setgid are not copied
	}
	for p, mode := range modes {
		if err := to.Chmod(p, mode); err != nil {
			return fserr.Wrap(err, "chmod", "/"+p, "")
		}
		name := filepath.FromSlash(p)
		if err := xattr.ReplaceUser(filepath.Join(tree, name), filepath.Join(folder, name)); err != nil {
			return fserr.Wrap(err, "setxattr", "/"+p, "")
		}
	}
	return nil
}
