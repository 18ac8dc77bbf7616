package pool

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/xattr"
)

// Adjust applies d to folder, a copy of the old layer, so that it becomes a copy of the new layer, whose tree is given.
// Content, modes, ns times, links and xattrs are then as in a full copy. Both directories belong to the server, and no other
// program writes to them. After an error the folder is of no use.
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
	st, err := from.Stat("/")
	if err != nil {
		return fserr.Wrap(err, "stat", "/", "")
	}
	stay := d.stay(st.Perm())
	if err := stay.open(to); err != nil {
		return err
	}
	for _, p := range d.Removed {
		if _, err := to.RemoveAll(ctx, p); err != nil {
			return fserr.Wrap(err, "remove", "/"+p, "")
		}
	}
	if err := stay.xattrs(tree, folder); err != nil {
		return err
	}
	if err := d.copy(ctx, from, to); err != nil {
		return err
	}
	return stay.close(to)
}

// copy makes what is new or has changed.
func (d *Difference) copy(ctx context.Context, from, to rootfs.Root) error {
	report, err := tree.Copy(ctx, from, ".", to, ".", tree.CopyOptions{
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

// staying are the directories that stay, parents first, with their final modes.
type staying []stayingDir

type stayingDir struct {
	path string
	mode uint32
}

// stay lists the directories that stay, and the top.
func (d *Difference) stay(top uint32) staying {
	s := staying{{".", top}}
	for _, p := range slices.Sorted(maps.Keys(d.Dirs)) {
		s = append(s, stayingDir{p, d.Dirs[p].Mode &^ 0o6000}) // setuid and setgid are not copied
	}
	return s
}

// open gives the owner all rights to the directories, so that a server that is not root can change their content.
func (s staying) open(to rootfs.Root) error {
	for _, d := range s {
		if err := to.Chmod(d.path, d.mode|0o700); err != nil {
			return fserr.Wrap(err, "chmod", "/"+d.path, "")
		}
	}
	return nil
}

// close gives the directories their modes; the copy gave them their times.
func (s staying) close(to rootfs.Root) error {
	for _, d := range slices.Backward(s) {
		if err := to.Chmod(d.path, d.mode); err != nil {
			return fserr.Wrap(err, "chmod", "/"+d.path, "")
		}
	}
	return nil
}

func (s staying) xattrs(tree, folder string) error {
	for _, d := range s {
		name := filepath.FromSlash(d.path)
		if err := xattr.ReplaceUser(filepath.Join(tree, name), filepath.Join(folder, name)); err != nil {
			return fserr.Wrap(err, "setxattr", "/"+d.path, "")
		}
	}
	return nil
}
