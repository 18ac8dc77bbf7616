package overlay

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
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
	wanted := map[string]bool{}
	groups, err := linkGroups(ctx, root)
	for _, names := range groups {
		for _, name := range names {
			want(wanted, name)
		}
	}
	return wanted, err
}

// linkGroups finds the files that have several names below root.
func linkGroups(ctx context.Context, root rootfs.Root) ([][]string, error) {
	type file struct{ dev, ino uint64 }
	names := map[file][]string{}
	err := root.Walk(ctx, ".", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		if err == nil && e.Type == rootfs.TypeFile && e.Stat.Nlink > 1 {
			id := file{e.Stat.Dev, e.Stat.Ino}
			names[id] = append(names[id], rel)
		}
		return err
	})
	var groups [][]string
	for _, group := range names {
		if len(group) > 1 {
			groups = append(groups, group)
		}
	}
	return groups, err
}

// join gives files that were copied up by one of their names in the layer their other names in the upper directory. The kernel's index held these
// together, by inodes that a copied state does not have. What is behind a directory that the context renamed, or in a part, may come apart.
func (d *Driver) join(ctx context.Context, p driver.Place) (err error) {
	indexed, err := d.indexed(p.State)
	if parts, partsErr := d.PartsOf(p.State); err != nil || len(indexed) == 0 || len(parts) > 0 {
		return errors.Join(err, partsErr)
	}
	layer, err := rootfs.Open(p.Layer, rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = layer.Close() }() // it was only read
	groups, err := linkGroups(ctx, layer)
	if err != nil || len(groups) == 0 {
		return err
	}
	upper, err := rootfs.Open(filepath.Join(p.State, upperName), rootfs.Options{AllowChown: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upper.Close()) }()
	for _, names := range groups {
		from := slices.IndexFunc(names, func(name string) bool {
			st, err := upper.Lstat(name)
			return err == nil && st.Type() == rootfs.TypeFile && indexed[st.Ino]
		})
		if from < 0 {
			continue
		}
		for _, name := range names {
			if err := d.joinName(ctx, p, layer, upper, names[from], name); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexed returns the inodes of the files in a state's index.
func (d *Driver) indexed(state string) (map[uint64]bool, error) {
	entries, err := os.ReadDir(filepath.Join(state, indexName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	inodes := map[uint64]bool{}
	for _, e := range entries {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(state, indexName, e.Name()), &st); err != nil {
			return nil, err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			inodes[st.Ino] = true
		}
	}
	return inodes, nil
}

// joinName links a file of the upper directory to a name that shows the layer's file.
func (d *Driver) joinName(ctx context.Context, p driver.Place, layer, upper rootfs.Root, from, name string) error {
	if _, err := upper.Lstat(name); fserr.CodeOf(err) != fserr.ENOENT {
		return tree.Ignoring(err, fserr.ENOTDIR) // it is there, or is deleted
	}
	var missing []string
	there := "."
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		st, err := upper.Lstat(dir)
		switch {
		case fserr.CodeOf(err) == fserr.ENOENT:
			missing = append(missing, dir)
			continue
		case err != nil:
			return err
		case !st.IsDir() || d.isApart(filepath.Join(p.State, upperName, dir)):
			return nil
		}
		if there == "." {
			there = dir
		}
	}
	was, err := upper.Lstat(there)
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(missing) {
		_, err := tree.Copy(ctx, layer, dir, upper, dir, tree.CopyOptions{
			Skip: func(rel string, _ rootfs.Entry) bool { return path.Clean(rel) != "." }, PreserveTimestamps: true, PreserveXattrs: true, PreserveOwner: true,
		})
		if err != nil {
			return err
		}
	}
	if err := upper.Link(from, name); err != nil {
		return err
	}
	for _, dir := range missing { // as if the names had been there
		st, err := layer.Lstat(dir)
		if err == nil {
			err = upper.Utimes(dir, st.AtimeNs, st.MtimeNs, false)
		}
		if err != nil {
			return err
		}
	}
	return upper.Utimes(there, was.AtimeNs, was.MtimeNs, false)
}

// isApart reports whether a directory of the upper directory shows nothing of the one that the layer has at its path.
func (d *Driver) isApart(dir string) bool {
	for _, mark := range []string{"opaque", "redirect"} {
		if _, err := unix.Lgetxattr(dir, xattrs+mark, nil); err == nil {
			return true
		}
	}
	return false
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
