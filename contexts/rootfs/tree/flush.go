package tree

import (
	"errors"
	"path"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
)

// Flush flushes files, and the names and attributes of directories, some at a time, where the system can do that. It flushes nothing else, and
// waits for no other program. "" is the top of the tree. It follows no link. It skips links, missing paths, and what this process may not read.
func Flush(r Tree, paths []string) error {
	return durable.Each(paths, func(p string) error { return unlessHidden(flushOne(r, p)) })
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
