package osroot

import (
	"crypto/rand"
	"os"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// atomicFile is a file with a reserved name until Commit.
type atomicFile struct {
	*openFile
	pos       position
	temp      string
	exclusive bool
	// mu makes one of Commit and Abort the end, and guards the fields below.
	mu   sync.Mutex
	mode uint32 // the mode of a new file from Commit on; until then it is tmpMode
	done bool
	// appeared is what Commit has read.
	appeared node.Stat
}

// tmpMode is the mode of a temporary name: the file that it will replace may be private.
const tmpMode = 0o600

// CreateAtomic is as in rootfs.Opener. Commit closes the file.
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

func (p position) createAtomic(mode uint32, exclusive bool) (node.AtomicFile, error) {
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
	a := &atomicFile{pos: p, temp: node.ReservedPrefix + rand.Text(), exclusive: exclusive, mode: mode}
	f, err := p.dir.dir.OpenFile(a.temp, osOpenFlags(node.O_RDWR|node.O_CREAT|node.O_EXCL), tmpMode)
	if err != nil {
		return nil, err
	}
	a.openFile = newFile(f, p.dir.root.opts, node.O_RDWR, false)
	if err := settle(f, a.opts, tmpMode); err != nil {
		_ = a.Abort()
		return nil, err
	}
	return a, nil
}

func (a *atomicFile) Commit(sync bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return osError(fserr.EBADF)
	}
	err := a.takeMode()
	if err == nil && sync {
		err = a.f.Sync()
	}
	// Close first: Windows does not rename an open file.
	if cerr := a.f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = a.publish()
	}
	if err == nil {
		a.appeared, _ = a.pos.dir.Lstat(a.pos.base) // the file is in its place, whatever this says
	}
	return osError(a.finish(err))
}

// takeMode gives the file the mode, owner and extended attributes of the one that it replaces, or the mode for a new one.
func (a *atomicFile) takeMode() error {
	dir := a.pos.dir
	info, err := dir.dir.Lstat(a.pos.base)
	switch {
	case a.exclusive, codeOrNil(err) == fserr.ENOENT:
		return a.f.Chmod(osMode(a.mode))
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return nil // the rename refuses it, or replaces a link
	}
	st, err := dir.Lstat(a.pos.base)
	if err != nil {
		return err
	}
	return a.adopt(st)
}

func (a *atomicFile) adopt(st node.Stat) error {
	// The content is written even if the owner cannot be kept.
	if err := a.f.Chown(int(st.UID), int(st.GID)); err != nil && codeOf(err) != fserr.EPERM && codeOf(err) != fserr.EOPNOTSUPP {
		return err
	}
	if err := a.copyXattrs(); err != nil {
		return err
	}
	return a.f.Chmod(osMode(st.Mode))
}

func (a *atomicFile) copyXattrs() error {
	old, err := a.pos.dir.dir.OpenFile(a.pos.base, os.O_RDONLY|extraFlags, 0)
	if err != nil {
		// It is gone, or not readable for the server: there is nothing to keep.
		return nil
	}
	defer func() { _ = old.Close() }()
	return osCopyXattrs(old, a.f)
}

func (a *atomicFile) publish() error {
	dir, base := a.pos.dir, a.pos.base
	if a.exclusive {
		if err := osLink(dir, a.temp, dir, base); err != nil {
			return err
		}
		return osUnlink(dir, a.temp)
	}
	return osRename(dir, a.temp, dir, base)
}

// finish closes the directory. If err is not nil it removes the temporary name.
func (a *atomicFile) finish(err error) error {
	a.done = true
	if err != nil {
		_ = osUnlink(a.pos.dir, a.temp)
	}
	_ = a.pos.dir.Close()
	return err
}

// Base is as in node.AtomicFile.
func (a *atomicFile) Base() string { return a.pos.base }

// Appeared is as in node.AtomicFile.
func (a *atomicFile) Appeared() node.Stat {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.appeared
}

func (a *atomicFile) Abort() error {
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

// Chmod sets the mode that the file gets at Commit if it is a new one.
func (a *atomicFile) Chmod(mode uint32) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return osError(fserr.EBADF)
	}
	a.mode = mode
	return nil
}

// Stat returns the attributes, with the mode that a new file will have.
func (a *atomicFile) Stat() (node.Stat, error) {
	st, err := a.openFile.Stat()
	if err != nil {
		return st, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	st.Mode = st.Mode&node.S_IFMT | a.mode&0o1777
	return st, nil
}

// Close is Abort, unless the file was committed.
func (a *atomicFile) Close() error { return a.Abort() }
