package rootfs

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// at calls fn with the place of path.
func (r *linuxRoot) at(path string, creating bool, fn func(p place) error) error {
	p, err := r.place(path, creating)
	if err != nil {
		return err
	}
	defer p.close()
	return fn(p)
}

// Mkdir makes one directory.
func (r *linuxRoot) Mkdir(path string, mode uint32) error {
	return failed(r.mkdir(path, mode), "mkdir", path)
}

func (r *linuxRoot) mkdir(path string, mode uint32) error {
	return r.at(path, true, func(p place) error {
		if !p.plain() {
			return unix.EEXIST
		}
		return r.mkdirAt(p.dir, p.base, mode)
	})
}

// mkdirAt makes the directory name in dir, with exactly mode and the owner of the options.
func (r *linuxRoot) mkdirAt(dir int, name string, mode uint32) error {
	if r.barred(name) {
		return node.ErrBarred
	}
	began := time.Now()
	if err := r.naming(func() error { return unix.Mkdirat(dir, name, mode&0o1777) }); err != nil {
		return err
	}
	return r.adoptAt(dir, name, began, func(st Stat, fd int) error {
		if !st.IsDir() || st.Mode&0o1777&^mode != 0 {
			return nil
		}
		return r.adopt(fd, mode)
	})
}

// clockGrain is how much a birth time may be behind the clock: file systems use the time of the last tick.
const clockGrain = 20 * time.Millisecond

// adoptAt calls adopt with an O_PATH descriptor of what this process just made at name. It checks owner and birth time, and ignores what
// another process has put there since.
func (r *linuxRoot) adoptAt(dir int, name string, began time.Time, adopt func(st Stat, fd int) error) error {
	fd, err := node.OpenAt(dir, name, unix.O_PATH, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer node.CloseFD(fd)
	st, err := node.StatFD(fd)
	if err != nil || int(st.UID) != unix.Geteuid() || st.BirthtimeNs < began.Add(-clockGrain).UnixNano() {
		return err
	}
	return adopt(st, fd)
}

// MkdirAll makes path and its missing parents.
func (r *linuxRoot) MkdirAll(path string, mode uint32) (first string, err error) {
	if err := node.CheckPath(path); err != nil {
		return "", failed(err, "mkdir", path)
	}
	// Usually the whole path exists.
	if st, err := r.Stat(path); err == nil && st.IsDir() {
		return "", nil
	}
	whole := strings.TrimRight(path, "/")
	for at := 0; at < len(whole); {
		next := strings.IndexByte(whole[at:], '/')
		end := at + next
		if next < 0 {
			end = len(whole)
		}
		if end > at {
			made, err := r.ensure(whole[:end], end == len(whole), mode)
			if err != nil {
				return first, failed(err, "mkdir", path)
			}
			if first == "" {
				first = made
			}
		}
		at = end + 1
	}
	return first, nil
}

// ensure makes the directory path unless it exists, and returns the virtual path of what it made.
func (r *linuxRoot) ensure(path string, last bool, mode uint32) (made string, err error) {
	err = r.mkdir(path, mode)
	if err == nil {
		return r.Realpath(path)
	}
	if fserr.CodeOf(err) != fserr.EEXIST {
		return "", err
	}
	st, serr := r.Stat(path)
	switch {
	case serr == nil && st.IsDir():
		return "", nil
	case serr != nil:
		return "", serr
	case last:
		return "", unix.EEXIST
	}
	return "", unix.ENOTDIR
}

// Symlink stores target as a link at path.
func (r *linuxRoot) Symlink(target, path string) error {
	err := r.at(path, true, func(p place) error {
		if err := newName(p); err != nil {
			return err
		}
		return r.symlinkAt(target, p.dir, p.base)
	})
	return failed(err, "symlink", path)
}

func (r *linuxRoot) symlinkAt(target string, dir int, name string) error {
	if r.barred(name) {
		return node.ErrBarred
	}
	began := time.Now()
	if err := r.naming(func() error { return unix.Symlinkat(target, dir, name) }); err != nil || r.opts.Owner == nil {
		return err
	}
	return r.adoptAt(dir, name, began, func(st Stat, fd int) error {
		if st.Type() != TypeSymlink {
			return nil
		}
		return unix.Fchownat(fd, "", r.opts.Owner.UID, r.opts.Owner.GID, unix.AT_EMPTY_PATH)
	})
}

// newName refuses, as Linux does, a place where only a directory can be created.
func newName(p place) error {
	if !p.plain() {
		return unix.EEXIST
	}
	if !p.slash {
		return nil
	}
	if _, err := node.StatAt(p.dir, p.base); err != nil {
		return err
	}
	return unix.EEXIST
}

// Link makes newpath another name of oldpath. It checks in Linux's order: missing files, then an existing new name, then a directory.
func (r *linuxRoot) Link(oldpath, newpath string) error {
	err := r.at(oldpath, false, func(from place) error {
		dir, err := linkSource(from)
		if from.slash {
			dir, err = r.isDirectory(oldpath)
		}
		if err != nil {
			return err
		}
		return r.at(newpath, true, func(to place) error { return r.linkAt(from, to, dir) })
	})
	return fserr.Wrap(err, "link", oldpath, newpath)
}

func (r *linuxRoot) linkAt(from, to place, dir bool) error {
	if err := newName(to); err != nil {
		return err
	}
	if !dir {
		return r.naming(func() error { return unix.Linkat(from.dir, from.base, to.dir, to.base, 0) })
	}
	if _, err := node.StatAt(to.dir, to.base); err == nil {
		return unix.EEXIST
	}
	return unix.EPERM
}

// linkSource reports whether p is a directory.
func linkSource(p place) (bool, error) {
	if !p.plain() {
		return true, nil
	}
	st, err := node.StatAt(p.dir, p.base)
	return st.IsDir(), err
}

// isDirectory follows path, which ends in a slash. It fails with ENOTDIR if that is not a directory.
func (r *linuxRoot) isDirectory(path string) (bool, error) {
	st, err := r.Stat(path)
	return st.IsDir(), err
}

// two calls fn with the places of an existing and of a new name.
func (r *linuxRoot) two(oldpath, newpath string, fn func(from, to place) error) error {
	return r.at(oldpath, false, func(from place) error {
		return r.at(newpath, true, func(to place) error { return fn(from, to) })
	})
}

// Rename moves oldpath to newpath.
func (r *linuxRoot) Rename(oldpath, newpath string) error {
	return fserr.Wrap(r.two(oldpath, newpath, r.renameAt), "rename", oldpath, newpath)
}

func (r *linuxRoot) renameAt(from, to place) error {
	if !from.plain() || !to.plain() {
		return unix.EBUSY
	}
	if from.slash || to.slash {
		st, err := node.StatAt(from.dir, from.base)
		if err != nil {
			return err
		}
		if !st.IsDir() {
			return unix.ENOTDIR
		}
	}
	err := r.naming(func() error { return unix.Renameat(from.dir, from.base, to.dir, to.base) })
	if err == unix.EXDEV {
		return r.moveDir(from, to)
	}
	return err
}

// Unlink removes a name of a file or link.
func (r *linuxRoot) Unlink(path string) error {
	err := r.at(path, false, func(p place) error {
		if !p.plain() {
			return unix.EISDIR
		}
		if p.slash {
			return slashUnlink(p)
		}
		return r.permitted(func() error { return unlinkAt(p.dir, p.base) })
	})
	return failed(err, "unlink", path)
}

// unlinkAt is unlinkat(2) with EISDIR for a directory on every file system.
func unlinkAt(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.EPERM {
		if st, serr := node.StatAt(dir, name); serr == nil && st.IsDir() {
			return unix.EISDIR
		}
	}
	return err
}

func slashUnlink(p place) error {
	st, err := node.StatAt(p.dir, p.base)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return unix.EISDIR
	}
	return unix.ENOTDIR
}

// Rmdir removes an empty directory.
func (r *linuxRoot) Rmdir(path string) error {
	err := r.at(path, false, func(p place) error {
		switch p.base {
		case "":
			return unix.EBUSY
		case ".":
			return unix.EINVAL
		case "..":
			return unix.ENOTEMPTY
		}
		return r.permitted(func() error { return unix.Unlinkat(p.dir, p.base, unix.AT_REMOVEDIR) })
	})
	return failed(err, "rmdir", path)
}

// unsupported reports whether err means that a system call, or a flag of it, does not exist here.
func unsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EISDIR)
}
