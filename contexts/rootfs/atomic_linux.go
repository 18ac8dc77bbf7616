package rootfs

import (
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// tmpMode is the mode of a temporary name: what is written may replace a file that nobody else may read.
const tmpMode = 0o600

// linuxAtomic is a file without a name (O_TMPFILE), or with a reserved one where
// the file system has no such thing, until Commit puts it at its place.
type linuxAtomic struct {
	linuxFile
	at        place
	exclusive bool
	mu        sync.Mutex
	tmp       string // the reserved name, "" while it has none
	mode      uint32 // what a new file gets; one that has a name gets it at Commit
	done      bool
}

// CreateAtomic starts a file that appears at path on Commit.
func (r *linuxRoot) CreateAtomic(path string, mode uint32, exclusive bool) (AtomicFile, error) {
	at, err := r.atomicPlace(path, exclusive)
	if err != nil {
		return nil, failed(err, "open", path)
	}
	a := &linuxAtomic{at: at, exclusive: exclusive, mode: mode}
	fd, err := a.open(r)
	if err == nil {
		if err = r.adopt(fd, a.modeNow()); err != nil {
			node.CloseFD(fd)
			a.dropName()
		}
	}
	if err != nil {
		at.close()
		return nil, failed(err, "open", path)
	}
	a.root, a.fd.fd = r, fd
	return a, nil
}

// atomicPlace finds where the file will appear and refuses what can be seen already.
func (r *linuxRoot) atomicPlace(path string, exclusive bool) (place, error) {
	p, err := r.place(path, true)
	if err != nil {
		return p, err
	}
	if p.base == ".." {
		_, err = r.Stat(path) // EACCES beyond the root
	}
	var st Stat
	if err == nil {
		st, err = r.entryAt(p, exclusive)
	}
	if err == nil && st.Type() == TypeSymlink {
		p.close()
		if p, _, err = r.target(path); err != nil {
			return p, err
		}
		_, err = r.entryAt(p, exclusive)
	}
	if err != nil {
		p.close()
	}
	return p, err
}

// entryAt checks that what stands at p can be replaced; the zero Stat means that nothing does.
func (r *linuxRoot) entryAt(p place, exclusive bool) (Stat, error) {
	if exclusive && !p.plain() {
		return Stat{}, unix.EEXIST
	}
	if !p.plain() || p.slash {
		return Stat{}, unix.EISDIR
	}
	fd, err := node.OpenAt(p.dir, p.base, unix.O_PATH, 0)
	if err == unix.ENOENT {
		return Stat{}, nil
	}
	if err != nil {
		return Stat{}, err
	}
	defer node.CloseFD(fd)
	if err := r.admit(&ending{fd: fd}); err != nil { // a mount point cannot be replaced
		return Stat{}, err
	}
	st, err := node.StatFD(fd)
	if err != nil {
		return st, err
	}
	return st, replaceable(fd, st, exclusive)
}

func replaceable(fd int, st Stat, exclusive bool) error {
	switch {
	case exclusive:
		return unix.EEXIST
	case st.IsDir():
		return unix.EISDIR
	case st.Type() == TypeSymlink:
		return nil
	case st.Type() != TypeFile:
		return errSpecial
	}
	return node.AccessFD(fd, unix.W_OK)
}

// open makes the file; the caller adopts it.
func (a *linuxAtomic) open(r *linuxRoot) (int, error) {
	if !r.noTmpfile {
		fd, err := node.OpenAt(a.at.dir, ".", unix.O_TMPFILE|unix.O_RDWR, a.mode&0o777)
		if err == nil || !unsupported(err) {
			return fd, err
		}
	}
	name := tmpName()
	fd, err := r.createNew(a.at.dir, name, unix.O_RDWR, tmpMode)
	if err == nil {
		a.tmp = name
	}
	return fd, err
}

// modeNow is the mode until Commit: what can be found by name is for nobody else.
func (a *linuxAtomic) modeNow() uint32 {
	if a.tmp != "" {
		return tmpMode
	}
	return a.mode
}

func tmpName() string { return ReservedPrefix + rand.Text() }

// Commit makes the file appear.
func (a *linuxAtomic) Commit(sync bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return failed(os.ErrClosed, "close", "")
	}
	err := a.fd.use(func(fd int) error { return a.commit(fd, sync) })
	cerr := a.finish()
	if err == nil {
		err = cerr
	}
	return failed(err, "close", "")
}

func (a *linuxAtomic) commit(fd int, sync bool) error {
	if sync {
		if err := node.Uninterrupted(func() error { return unix.Fsync(fd) }); err != nil {
			return err
		}
	}
	for range maxRetries {
		err := a.root.naming(func() error { return a.appear(fd) })
		if err == nil && sync {
			return syncDir(a.at.dir)
		}
		if err != errRenamed {
			return err
		}
	}
	return errBusy
}

// appear takes the place if it is free, else that of the file standing there.
func (a *linuxAtomic) appear(fd int) error {
	if a.tmp == "" || a.exclusive {
		if err := a.takeFree(fd); err != unix.EEXIST || a.exclusive {
			return err
		}
	}
	old, err := node.OpenAt(a.at.dir, a.at.base, unix.O_PATH, 0)
	if err == unix.ENOENT {
		return a.appearNew(fd)
	}
	if err != nil {
		return err
	}
	defer node.CloseFD(old)
	st, err := node.StatFD(old)
	if err != nil {
		return err
	}
	if st.Type() == TypeSymlink {
		// Somebody put a link where none was: it is not followed, nor replaced.
		return errBusy
	}
	if err := replaceable(old, st, false); err != nil {
		return err
	}
	if err := inherit(fd, old, st); err != nil {
		return err
	}
	return a.replace(fd)
}

// appearNew takes a place that was free a moment ago.
func (a *linuxAtomic) appearNew(fd int) error {
	err := a.takeFree(fd)
	if err == unix.EEXIST {
		return errRenamed
	}
	return err
}

// takeFree takes the place unless something stands there (EEXIST). A name of its own
// the file has without others' permissions: it gets those for this one step.
func (a *linuxAtomic) takeFree(fd int) error {
	if a.tmp == "" {
		return linkFD(fd, a.at.dir, a.at.base)
	}
	if err := unix.Fchmod(fd, a.mode&0o1777); err != nil {
		return err
	}
	err := a.renameFree()
	if err == unix.EEXIST {
		if cerr := unix.Fchmod(fd, tmpMode); cerr != nil {
			return cerr
		}
	}
	return err
}

func (a *linuxAtomic) renameFree() error {
	err := unix.Renameat2(a.at.dir, a.tmp, a.at.dir, a.at.base, unix.RENAME_NOREPLACE)
	if unsupported(err) {
		err = unix.Linkat(a.at.dir, a.tmp, a.at.dir, a.at.base, 0)
		if err == nil {
			a.dropName()
		}
		return err
	}
	if err == nil {
		a.tmp = ""
	}
	return err
}

// linkFD gives a nameless file a name. By descriptor it needs a privilege before Linux 6.10.
func linkFD(fd, dir int, name string) error {
	err := unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	if err == unix.ENOENT || err == unix.EPERM {
		return unix.Linkat(unix.AT_FDCWD, node.ProcFD(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	}
	return err
}

// replace renames the file over what stands there; the kernel refuses a directory (EISDIR).
// An exchange could tell what it replaced, but putting that back would undo a write
// that somebody else had made, and reported as done, in between.
func (a *linuxAtomic) replace(fd int) error {
	if a.tmp == "" {
		name := tmpName()
		if err := linkFD(fd, a.at.dir, name); err != nil {
			return err
		}
		a.tmp = name
	}
	err := unix.Renameat(a.at.dir, a.tmp, a.at.dir, a.at.base)
	if err == nil {
		a.tmp = ""
	}
	return err
}

// dropName removes the reserved name if there is one; a directory that somebody
// put there is not removed.
func (a *linuxAtomic) dropName() {
	if a.tmp != "" {
		_ = unix.Unlinkat(a.at.dir, a.tmp, 0)
		a.tmp = ""
	}
}

// Abort throws the file away.
func (a *linuxAtomic) Abort() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return nil
	}
	return failed(a.finish(), "close", "")
}

// Chmod changes what the file will have, unless it replaces another.
func (a *linuxAtomic) Chmod(mode uint32) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = mode
	if a.tmp != "" {
		return nil
	}
	return a.linuxFile.Chmod(mode)
}

// Stat describes the file with the mode that it will have.
func (a *linuxAtomic) Stat() (Stat, error) {
	st, err := a.linuxFile.Stat()
	if err != nil {
		return st, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	st.Mode = st.Mode&node.S_IFMT | a.mode&0o1777
	return st, nil
}

// Close without Commit is Abort.
func (a *linuxAtomic) Close() error { return a.Abort() }

func (a *linuxAtomic) finish() error {
	a.done = true
	a.dropName()
	a.at.close()
	return a.fd.close()
}

// syncDir makes a directory's new name durable. A directory that may be written but
// not read cannot be synced; its file's content is on the disk all the same.
func syncDir(dir int) error {
	fd, err := node.OpenAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES {
		return nil
	}
	if err != nil {
		return err
	}
	defer node.CloseFD(fd)
	return node.Uninterrupted(func() error { return unix.Fsync(fd) })
}

// inherit gives fd the owner, xattrs and mode of the file it replaces, as if that
// had been written in place.
func inherit(fd, old int, st Stat) error {
	now, err := node.StatFD(fd)
	if err != nil {
		return err
	}
	if now.UID != st.UID || now.GID != st.GID {
		if err := unix.Fchown(fd, int(st.UID), int(st.GID)); err != nil {
			return &fserr.Error{Code: fserr.CodeOf(err), Err: err, Hint: "its owner cannot be kept; write it without atomic"}
		}
	}
	if err := inheritXattrs(fd, node.ProcFD(old)); err != nil {
		return err
	}
	// As with any write, setuid and setgid do not survive.
	return unix.Fchmod(fd, st.Mode&0o1777)
}

// inheritXattrs copies all but the capabilities that a write in place would take away.
func inheritXattrs(fd int, old string) error {
	buf := make([]byte, 64<<10) // XATTR_LIST_MAX and XATTR_SIZE_MAX
	n, err := unix.Listxattr(old, buf)
	if errors.Is(err, unix.EOPNOTSUPP) || err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if name == "" || name == "security.capability" {
			continue
		}
		if err := inheritXattr(fd, old, name, buf); err != nil {
			return err
		}
	}
	return nil
}

// inheritXattr copies one; what the system keeps for itself (EPERM, EACCES) or has removed is passed over.
func inheritXattr(fd int, old, name string, buf []byte) error {
	n, err := unix.Getxattr(old, name, buf)
	if err == nil {
		err = unix.Fsetxattr(fd, name, buf[:n], 0)
	}
	mine := strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl")
	if err == unix.ENODATA || (!mine && (err == unix.EPERM || err == unix.EOPNOTSUPP)) {
		return nil
	}
	return err
}
