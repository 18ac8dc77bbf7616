package rootfs

import (
	"crypto/rand"
	"os"

	"github.com/ctxfs/ctxfs/fserr"
)

// osAtomic is a file under a reserved name until it is committed.
type osAtomic struct {
	*osFile
	pos       osPos
	temp      string
	exclusive bool
	done      bool
}

// CreateAtomic implements Opener. Commit closes the file.
func (r *osRoot) CreateAtomic(path string, mode uint32, exclusive bool) (AtomicFile, error) {
	pos, err := r.walk(path, walkMode{follow: !exclusive, create: true})
	if err != nil {
		return nil, osError(err)
	}
	f, err := pos.createAtomic(mode, exclusive)
	if err != nil {
		_ = pos.dir.Close()
		return nil, osError(err)
	}
	return f, nil
}

func (p osPos) createAtomic(mode uint32, exclusive bool) (AtomicFile, error) {
	switch {
	case p.slash && !p.exists():
		return nil, fserr.EISDIR
	case exclusive && p.exists():
		return nil, fserr.EEXIST
	case p.isDir():
		return nil, fserr.EISDIR
	case p.exists() && !p.info.Mode().IsRegular():
		return nil, fserr.EOPNOTSUPP
	}
	a := &osAtomic{pos: p, temp: ReservedPrefix + rand.Text(), exclusive: exclusive}
	f, err := p.dir.dir.OpenFile(a.temp, osOpenFlags(O_RDWR|O_CREAT|O_EXCL), 0o600)
	if err != nil {
		return nil, err
	}
	a.osFile = newOSFile(f, p.dir.root.opts, O_RDWR, false)
	if err := settle(f, a.opts, mode); err != nil {
		_ = a.Abort()
		return nil, err
	}
	return a, nil
}

// Commit implements AtomicFile.
func (a *osAtomic) Commit(sync bool) error {
	if a.done {
		return osError(fserr.EBADF)
	}
	err := a.keepOld()
	if err == nil && sync {
		err = a.f.Sync()
	}
	// Closed first, since Windows does not rename what is open.
	if cerr := a.f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = a.publish()
	}
	return osError(a.finish(err))
}

// keepOld gives the new file the mode, owner and xattrs of the one it replaces.
func (a *osAtomic) keepOld() error {
	if a.exclusive {
		return nil
	}
	dir := a.pos.dir
	info, err := dir.dir.Lstat(a.pos.base)
	if err != nil || !info.Mode().IsRegular() {
		if osCodeOrNil(err) == fserr.ENOENT {
			return nil
		}
		return err
	}
	st, err := dir.lstat(a.pos.base)
	if err != nil {
		return err
	}
	return a.adopt(st)
}

func (a *osAtomic) adopt(st Stat) error {
	// An owner that may not be given is no reason to refuse the content.
	if err := a.f.Chown(int(st.UID), int(st.GID)); err != nil && osCode(err) != fserr.EPERM && osCode(err) != fserr.EOPNOTSUPP {
		return err
	}
	if err := a.copyXattrs(); err != nil {
		return err
	}
	return a.f.Chmod(osMode(st.Mode))
}

func (a *osAtomic) copyXattrs() error {
	old, err := a.pos.dir.dir.OpenFile(a.pos.base, os.O_RDONLY|osExtraFlags, 0)
	if err != nil {
		// Gone, or not for us to read: there is nothing to be kept.
		return nil
	}
	defer func() { _ = old.Close() }()
	return osCopyXattrs(old, a.f)
}

func (a *osAtomic) publish() error {
	dir, base := a.pos.dir, a.pos.base
	if a.exclusive {
		if err := osLink(dir, a.temp, dir, base); err != nil {
			return err
		}
		return osUnlink(dir, a.temp)
	}
	return osRename(dir, a.temp, dir, base)
}

// finish releases everything, and the temporary name unless err is nil.
func (a *osAtomic) finish(err error) error {
	a.done = true
	if err != nil {
		_ = osUnlink(a.pos.dir, a.temp)
	}
	_ = a.pos.dir.Close()
	return err
}

// Abort implements AtomicFile.
func (a *osAtomic) Abort() error {
	if a.done {
		return nil
	}
	_ = a.f.Close()
	a.done = true
	err := osUnlink(a.pos.dir, a.temp)
	_ = a.pos.dir.Close()
	return osError(err)
}

// Close aborts what was neither committed nor aborted.
func (a *osAtomic) Close() error { return a.Abort() }
