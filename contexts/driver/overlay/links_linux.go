package overlay

import (
	"context"
	"path"
	"path/filepath"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// copyLinked copies those files of a layer that have several names, with all names, into a new upper directory. There
// the names stay one file. Without index, a write through one name would copy the file for that name alone, and
// the other names would still show the layer's file.
func (d *Driver) copyLinked(ctx context.Context, src, dst string) error {
	from, err := rootfs.Open(src, rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	wanted, err := d.linkedIn(ctx, src, from)
	if err != nil || len(wanted) == 0 {
		return err
	}
	to, err := rootfs.Open(dst, rootfs.Options{AllowChown: true})
	if err != nil {
		return err
	}
	_, err = tree.Copy(ctx, from, ".", to, upperName, tree.CopyOptions{
		Skip:               func(rel string, _ rootfs.Entry) bool { rel = path.Clean(rel); return rel != "." && !wanted[rel] },
		PreserveTimestamps: true, PreserveLinks: true, PreserveXattrs: true,
	})
	if e := to.Close(); err == nil {
		err = e
	}
	return err
}

// linkedIn is linkedNames of a layer, or of the upper directory of a part. It walks each once.
func (d *Driver) linkedIn(ctx context.Context, dir string, root rootfs.Root) (map[string]bool, error) {
	st, err := root.Lstat("/")
	if err != nil {
		return nil, err
	}
	return d.linked.of(layerID{dir, st.Dev, st.Ino}, func() (map[string]bool, error) { return linkedNames(ctx, root) })
}

// linkedNames finds the names of files that have several below root, and the directories that lead to them.
func linkedNames(ctx context.Context, root rootfs.Root) (map[string]bool, error) {
	type file struct{ dev, ino uint64 }
	first, wanted := map[file]string{}, map[string]bool{}
	err := root.Walk(ctx, ".", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		if err != nil || e.Type != rootfs.TypeFile || e.Stat.Nlink < 2 {
			return err
		}
		id := file{e.Stat.Dev, e.Stat.Ino}
		if first[id] == "" {
			first[id] = rel
			return nil
		}
		want(wanted, first[id])
		want(wanted, rel)
		return nil
	})
	return wanted, err
}

// want adds a name, and the directories above it.
func want(wanted map[string]bool, rel string) {
	for ; rel != "." && !wanted[rel]; rel = path.Dir(rel) {
		wanted[rel] = true
	}
}

// sweep removes what a crash left of a directory that was being renamed, which is in the upper directory alone.
func (d *Driver) sweep(ctx context.Context, p driver.Place) error {
	if !d.mode.userns {
		return nil
	}
	root, err := rootfs.Open(filepath.Join(p.State, upperName), rootfs.Options{})
	if err != nil {
		return stateError("mount", err)
	}
	n, err := tree.Sweep(ctx, root)
	if n > 0 {
		d.opts.Log.Sugar().Infow("what a crash left of a rename was removed", "folder", p.Folder, "entries", n)
	}
	if e := root.Close(); err == nil {
		err = e
	}
	if err != nil {
		return stateError("mount", err)
	}
	return nil
}

// likeLayer gives the upper directory what it must hold from the start: linked files where links would not hold
// otherwise, then the root's own attributes.
func (d *Driver) likeLayer(ctx context.Context, src, dst string) error {
	if d.mode.userns {
		if err := d.copyLinked(ctx, src, dst); err != nil {
			return err
		}
	}
	return likeRoot(src, filepath.Join(dst, upperName))
}
