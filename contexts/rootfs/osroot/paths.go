package osroot

import (
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

func (r *Root) Stat(path string) (node.Stat, error) { return r.stat(path, true) }

func (r *Root) Lstat(path string) (node.Stat, error) { return r.stat(path, false) }

func (r *Root) stat(path string, follow bool) (st node.Stat, err error) {
	err = r.existing(path, follow, func(p position) (err error) {
		st, err = p.dir.Lstat(p.base)
		return err
	})
	return st, err
}

func (r *Root) Statfs(path string) (st node.Statfs, err error) {
	err = r.existing(path, true, func(p position) (err error) {
		st, err = osStatfs(p.dir)
		return err
	})
	return st, err
}

func (r *Root) Access(path string, mode uint32) error {
	if mode > 7 {
		return osError(fserr.EINVAL)
	}
	return r.existing(path, true, func(p position) error { return osAccess(p.dir, p.name(), mode) })
}

func (r *Root) Realpath(path string) (resolved string, err error) {
	err = r.existing(path, true, func(p position) error {
		resolved = p.virtual()
		return nil
	})
	return resolved, err
}

// virtual returns the position's path from the root, by the names walked through.
func (p position) virtual() string {
	return filepath.ToSlash(filepath.Join(string(filepath.Separator), p.dir.rel, p.base))
}

func (r *Root) Readlink(path string) (target string, err error) {
	err = r.existing(path, false, func(p position) (err error) {
		if !p.isLink() {
			return fserr.EINVAL
		}
		target, err = p.dir.Readlink(p.base)
		return err
	})
	return target, err
}

func (r *Root) Chmod(path string, mode uint32) error {
	return r.existing(path, true, func(p position) error { return p.dir.Chmod(p.base, mode) })
}

func (r *Root) Chown(path string, uid, gid int64, follow bool) error {
	return r.existing(path, follow, func(p position) error { return p.dir.Chown(p.base, uid, gid) })
}

func (r *Root) Utimes(path string, atimeNs, mtimeNs int64, follow bool) error {
	return r.existing(path, follow, func(p position) error { return p.dir.Utimes(p.base, atimeNs, mtimeNs) })
}

// Lookups begins a run of questions.
func (r *Root) Lookups() node.Lookups { return lookups{r} }

// lookups keeps nothing open.
type lookups struct{ *Root }

// Close does nothing. The root stays open.
func (lookups) Close() {}

func (r *Root) Mkdir(path string, mode uint32) error {
	return r.at(path, walkMode{name: true, create: true}, func(p position) error {
		if p.exists() {
			return fserr.EEXIST
		}
		return p.dir.Mkdir(p.base, mode)
	})
}

func (r *Root) MkdirAll(path string, mode uint32) (first string, err error) {
	if err := node.CheckPath(path); err != nil {
		return "", osError(err)
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for i := range parts {
		made, err := r.ensureDir(strings.Join(parts[:i+1], "/"), i == len(parts)-1, mode)
		if err != nil {
			return first, err
		}
		if first == "" {
			first = made
		}
	}
	return first, nil
}

// ensureDir makes the directory path unless it exists, and returns the virtual path of what it made.
func (r *Root) ensureDir(path string, last bool, mode uint32) (made string, err error) {
	st, err := r.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return "", nil
	case err == nil && last:
		return "", osError(fserr.EEXIST)
	case err == nil:
		return "", osError(fserr.ENOTDIR)
	case fserr.CodeOf(err) != fserr.ENOENT:
		return "", err
	}
	err = r.at(path, walkMode{name: true, create: true}, func(p position) error {
		made = p.virtual()
		return p.dir.Mkdir(p.base, mode)
	})
	if fserr.CodeOf(err) != fserr.EEXIST {
		return made, err
	}
	// Another process made it, or it is a dangling link (ENOENT, as in Node).
	st, serr := r.Stat(path)
	switch {
	case serr == nil && st.IsDir():
		return "", nil
	case serr != nil:
		return "", serr
	}
	return "", err
}

func (r *Root) Symlink(target, path string) error {
	if err := node.CheckPath(target); err != nil {
		return osError(err)
	}
	return r.at(path, walkMode{name: true, create: true}, func(p position) error {
		if err := p.freeName(); err != nil {
			return err
		}
		return p.dir.Symlink(target, p.base)
	})
}

// freeName checks that a file or link can be created at p.
func (p position) freeName() error {
	if p.exists() {
		return fserr.EEXIST
	}
	if p.slash {
		return fserr.ENOENT
	}
	return nil
}

func (r *Root) Link(oldpath, newpath string) error {
	return r.at(oldpath, walkMode{name: true}, func(from position) error {
		if err := from.linkable(); err != nil {
			return err
		}
		return r.at(newpath, walkMode{name: true, create: true}, func(to position) error {
			if err := to.freeName(); err != nil {
				return err
			}
			if from.isDir() {
				return fserr.EPERM
			}
			return osLink(from.dir, from.base, to.dir, to.base)
		})
	})
}

// linkable checks that p can get another name. As on Linux, a missing file is reported before an error of the new name.
func (p position) linkable() error {
	switch {
	case !p.exists():
		return fserr.ENOENT
	case p.slash && !p.isDir():
		return fserr.ENOTDIR
	}
	return nil
}

func (r *Root) Rename(oldpath, newpath string) error {
	return r.at(oldpath, walkMode{name: true}, func(from position) error {
		return r.at(newpath, walkMode{name: true, create: true}, func(to position) error { return rename(from, to) })
	})
}

func rename(from, to position) error {
	if from.base == "" || to.base == "" {
		return fserr.EBUSY
	}
	if err := from.missing(); err != nil {
		return err
	}
	if (from.slash || to.slash) && !from.isDir() {
		return fserr.ENOTDIR
	}
	return osRename(from.dir, from.base, to.dir, to.base)
}

func (r *Root) Unlink(path string) error {
	return r.at(path, walkMode{name: true}, func(p position) error {
		switch {
		case !p.exists():
			return fserr.ENOENT
		case p.isDir():
			return fserr.EISDIR
		case p.slash:
			return fserr.ENOTDIR
		}
		return osUnlink(p.dir, p.base)
	})
}

func (r *Root) Rmdir(path string) error {
	return r.at(path, walkMode{name: true}, func(p position) error {
		switch {
		case p.dot == "/" && p.base == "":
			return fserr.EBUSY
		case p.base == "" && p.dot == ".":
			return fserr.EINVAL
		case p.base == "":
			return fserr.ENOTEMPTY
		}
		return osRmdir(p.dir, p.base)
	})
}
