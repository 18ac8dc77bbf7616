package osroot

import (
	"crypto/rand"
	"os"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// osAtomic is a file under a reserved name until it is committed.
type osAtomic struct {
	*osFile
	pos       osPos
	temp      string
	exclusive bool
	// mu lets one of Commit and Abort be the end, and guards what follows.
	mu   sync.Mutex
	mode uint32 // what a new file gets at Commit; until then nobody else may read it
	done bool
}

// tmpMode is the mode of a temporary name: what is written may replace a file that
// nobody else may read.
const tmpMode = 0o600

// CreateAtomic implements Opener. Commit closes the file.
func (r *Root) CreateAtomic(path string, mode uint32, exclusive bool) (node.AtomicFile, error) {
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

func (p osPos) createAtomic(mode uint32, exclusive bool) (node.AtomicFile, error) {
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
	a := &osAtomic{pos: p, temp: node.ReservedPrefix + rand.Text(), exclusive: exclusive, mode: mode}
	f, err := p.dir.dir.OpenFile(a.temp, osOpenFlags(node.O_RDWR|node.O_CREAT|node.O_EXCL), tmpMode)
	if err != nil {
		return nil, err
	}
	a.osFile = newOSFile(f, p.dir.root.opts, node.O_RDWR, false)
	if err := settle(f, a.opts, tmpMode); err != nil {
		_ = a.Abort()
		return nil, err
	}
	return a, nil
}

// Commit implements AtomicFile.
func (a *osAtomic) Commit(sync bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return osError(fserr.EBADF)
	}
	err := a.takeMode()
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

// takeMode gives the file its final mode: that, with owner and xattrs, of the one it
// replaces, else what was asked for.
func (a *osAtomic) takeMode() error {
	dir := a.pos.dir
	info, err := dir.dir.Lstat(a.pos.base)
	switch {
	case a.exclusive, osCodeOrNil(err) == fserr.ENOENT:
		return a.f.Chmod(osMode(a.mode))
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return nil // the rename refuses it, or replaces a link that was put there
	}
	st, err := dir.Lstat(a.pos.base)
	if err != nil {
		return err
	}
	return a.adopt(st)
}

func (a *osAtomic) adopt(st node.Stat) error {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return nil
	}
	_ = a.f.Close()
	a.done = true
	err := osUnlink(a.pos.dir, a.temp)
	_ = a.pos.dir.Close()
	return osError(err)
}

// Chmod changes what the file will have, unless it replaces another.
func (a *osAtomic) Chmod(mode uint32) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return osError(fserr.EBADF)
	}
	a.mode = mode
	return nil
}

// Stat describes the file with the mode that it will have.
func (a *osAtomic) Stat() (node.Stat, error) {
	st, err := a.osFile.Stat()
	if err != nil {
		return st, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	st.Mode = st.Mode&node.S_IFMT | a.mode&0o1777
	return st, nil
}

// Close aborts what was neither committed nor aborted.
func (a *osAtomic) Close() error { return a.Abort() }
