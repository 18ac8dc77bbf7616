package copyfs

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/xattr"
)

// fileKey tells which names are one file.
type fileKey struct{ dev, ino uint64 }

// item is an entry of the layer.
type item struct {
	rel  string
	stat rootfs.Stat
}

// settle compares the copy with its source and sets right what differs.
func (d *Driver) settle(ctx context.Context, src, dst string) error {
	from, err := rootfs.Open(src, rootfs.Options{})
	if err != nil {
		return fmt.Errorf("open the layer: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := rootfs.Open(dst, rootfs.Options{AllowChown: d.opts.Owner != nil})
	if err != nil {
		return fmt.Errorf("open the copy: %w", err)
	}
	defer func() { _ = to.Close() }()
	s := &settler{src: src, dst: dst, from: from, to: to, owner: d.opts.Owner, first: map[fileKey]string{}}
	err = from.Walk(ctx, ".", rootfs.WalkOptions{Stats: true}, s.visit)
	if err != nil {
		return fmt.Errorf("compare the copy with the layer: %w", err)
	}
	return s.finishDirs()
}

type settler struct {
	src, dst string
	from, to rootfs.Root
	owner    *rootfs.Owner
	// first has the first name of each file with several.
	first map[fileKey]string
	dirs  []item
}

func (s *settler) visit(rel string, e rootfs.Entry, err error) error {
	if err != nil {
		return err
	}
	it := item{rel: rel, stat: *e.Stat}
	if e.Type == rootfs.TypeDirectory {
		s.dirs = append(s.dirs, it)
		return nil
	}
	if e.Type == rootfs.TypeFile && it.stat.Nlink > 1 {
		key := fileKey{it.stat.Dev, it.stat.Ino}
		if name, ok := s.first[key]; ok {
			return s.relink(name, rel)
		}
		s.first[key] = rel
	}
	return s.same(it)
}

func (s *settler) relink(first, rel string) error {
	if err := s.to.Unlink(rel); err != nil {
		return fserr.Wrap(err, "unlink", "/"+rel, "")
	}
	return fserr.Wrap(s.to.Link(first, rel), "link", "/"+first, "/"+rel)
}

// finishDirs goes last, deepest first, since everything before changes the directories' times.
func (s *settler) finishDirs() error {
	for i := len(s.dirs) - 1; i >= 0; i-- {
		if err := s.same(s.dirs[i]); err != nil {
			return err
		}
	}
	st, err := s.from.Stat("/")
	if err != nil {
		return fserr.Wrap(err, "stat", "/", "")
	}
	return s.same(item{rel: "/", stat: st})
}

// same gives the copy of it the owner, mode and times of it, where they differ.
func (s *settler) same(it item) error {
	if err := s.sameXattrs(it); err != nil {
		return err
	}
	got, err := s.to.Lstat(it.rel)
	if err != nil {
		return fserr.Wrap(err, "lstat", "/"+it.rel, "")
	}
	if got.Type() != it.stat.Type() || (got.Type() == rootfs.TypeFile && got.Size != it.stat.Size) {
		return &fserr.Error{Op: "copy", Path: "/" + it.rel, Code: fserr.EIO, Detail: "the copy differs from the layer"}
	}
	if o := s.owner; o != nil && (int64(got.UID) != int64(o.UID) || int64(got.GID) != int64(o.GID)) {
		if err := s.to.Chown(it.rel, int64(o.UID), int64(o.GID), false); err != nil {
			return fserr.Wrap(err, "chown", "/"+it.rel, "")
		}
	}
	if got.Type() != rootfs.TypeSymlink && got.Perm() != it.stat.Perm() {
		if err := s.to.Chmod(it.rel, it.stat.Perm()); err != nil {
			return fserr.Wrap(err, "chmod", "/"+it.rel, "")
		}
	}
	if got.MtimeNs != it.stat.MtimeNs {
		return fserr.Wrap(s.to.Utimes(it.rel, it.stat.AtimeNs, it.stat.MtimeNs, false), "utimes", "/"+it.rel, "")
	}
	return nil
}

// sameXattrs goes by name: both trees are the server's own, and nobody else is in them yet.
func (s *settler) sameXattrs(it item) error {
	if t := it.stat.Type(); t != rootfs.TypeFile && t != rootfs.TypeDirectory {
		return nil
	}
	err := xattr.CopyUser(filepath.Join(s.src, filepath.FromSlash(it.rel)), filepath.Join(s.dst, filepath.FromSlash(it.rel)))
	return fserr.Wrap(err, "setxattr", "/"+it.rel, "")
}
