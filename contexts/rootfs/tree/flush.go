package tree

import (
	"errors"
	"path"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
)

// Flush flushes files, and the names and attributes of directories, some at a time, where the system can do that. It flushes
// the whole file system instead where that is quick (durable.Whole). "" is the top of the tree. It follows no link. It skips links, missing paths, and what this process may not read.
func Flush(r Tree, paths []string) error {
	if done, err := FlushWhole(r, paths); done || err != nil {
		return err
	}
	return durable.Each(paths, func(p string) error { return unlessHidden(flushOne(r, p)) })
}

// FlushWhole flushes the file system of a tree if that is quick, and all the paths are on it. It reports whether it did.
func FlushWhole(r Tree, paths []string) (done bool, err error) {
	if !durable.Quick(len(paths)) {
		return false, nil
	}
	one, err := onOneFileSystem(r, paths)
	if !one || err != nil {
		return false, nil // the flush of each path says what is wrong
	}
	top, err := openDir(r, "")
	if err != nil {
		return false, nil
	}
	err = top.WithFD(func(fd int) error {
		done, err = durable.Whole(fd, len(paths))
		return err
	})
	if fserr.CodeOf(err) == fserr.EOPNOTSUPP {
		done, err = false, nil
	}
	return done, errors.Join(err, top.Close())
}

// onOneFileSystem reports whether no path is on a file system that is mounted in the tree.
func onOneFileSystem(r Tree, paths []string) (bool, error) {
	top, err := r.Lstat("/")
	if err != nil {
		return false, err
	}
	all := map[string]bool{}
	for _, p := range paths {
		all[p], all[path.Dir(p)] = true, true
	}
	for p := range all {
		st, err := r.Lstat("/" + p)
		if err == nil && st.Dev != top.Dev {
			return false, nil
		}
		if err = unlessHidden(err); err != nil {
			return false, err
		}
	}
	return true, nil
}

// FlushBelow flushes a directory and all that is below it, in the manner of Flush if it is not large.
func FlushBelow(r Tree, dir string) error {
	top, err := openDir(r, dir)
	if err != nil {
		return unlessHidden(err)
	}
	return unlessHidden(errors.Join(Ignoring(top.WithFD(syncBelow), fserr.EOPNOTSUPP), top.Close()))
}

func unlessHidden(err error) error {
	return Ignoring(err, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP, fserr.EACCES)
}

func openDir(r Tree, dir string) (node.Node, error) { return parentOf(r, path.Join(dir, "name")) }

func flushOne(r Tree, p string) error {
	if dir, err := openDir(r, p); fserr.CodeOf(err) != fserr.ENOTDIR {
		if err == nil {
			err = errors.Join(Ignoring(dir.WithFD(syncFD), fserr.EOPNOTSUPP), dir.Close())
		}
		return err
	}
	parent, err := parentOf(r, p)
	if err != nil {
		return err
	}
	f, err := parent.OpenFile(path.Base(p), node.O_RDONLY, 0)
	if err == nil {
		err = errors.Join(syncFile(f), f.Close())
	}
	return errors.Join(err, parent.Close())
}
