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

// tmpMode is the mode of a temporary name: the file that it will replace may be private.
const tmpMode = 0o600

// linuxAtomic is a file without a name (O_TMPFILE) until Commit puts it in its place. Where the file system does not support that, it has
// a reserved name.
type linuxAtomic struct {
	linuxFile
	at        place
	exclusive bool
	mu        sync.Mutex
	tmp       string // the reserved name, "" if there is none
	mode      uint32 // the mode of a new file; one with a reserved name gets it at Commit
	done      bool
	appeared  Stat
}

// CreateAtomic begins a file that Commit puts at path.
func (r *linuxRoot) CreateAtomic(path string, mode uint32, exclusive bool) (AtomicFile, error) {
	at, err := r.atomicPlace(path, exclusive)
	if err != nil {
		return nil, failed(err, "open", path)
	}
	a := &linuxAtomic{at: at, exclusive: exclusive, mode: mode}
	fd, err := -1, r.opts.Refuse
	if err == nil {
		fd, err = a.open(r)
	}
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

// atomicPlace resolves the place of the file and refuses one that Commit would refuse.
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

// entryAt checks that what exists at p can be replaced. It returns the zero Stat if nothing exists.
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

// open creates the file. The caller adopts it.
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

// modeNow returns the mode until Commit: other users may not open a file with a name.
func (a *linuxAtomic) modeNow() uint32 {
	if a.tmp != "" {
		return tmpMode
	}
	return a.mode
}

func tmpName() string { return ReservedPrefix + rand.Text() }

// Commit puts the file in its place.
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
		if err == nil {
			a.appeared, _ = node.StatFD(fd) // the file is in its place, whatever this says
		}
		if err == nil && sync {
			return a.root.syncNames(a.at.dir)
		}
		if err != errRenamed {
			return err
		}
	}
	return errBusy
}

// appear takes the place if it is free, or else replaces the file there.
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
	st, err := node.StatFD(old)
	defer func() { a.root.free(old, st.Size) }()
	if err != nil {
		return err
	}
	if st.Type() == TypeSymlink {
		// There was no link before: it is neither followed nor replaced.
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

// appearNew takes a place that was free at the last look.
func (a *linuxAtomic) appearNew(fd int) error {
	err := a.takeFree(fd)
	if err == unix.EEXIST {
		return errRenamed
	}
	return err
}

// takeFree takes the place unless it is taken (EEXIST). A file with a reserved name gets its final mode for this step.
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

// linkFD gives a file without a name a name. By descriptor, that needs a privilege before Linux 6.10.
func linkFD(fd, dir int, name string) error {
	err := unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	if err == unix.ENOENT || err == unix.EPERM {
		return unix.Linkat(unix.AT_FDCWD, node.ProcFD(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	}
	return err
}

// replace renames the file over what is there. The kernel refuses a directory (EISDIR). An exchange would show what it replaced, but to
// put that back would undo a write that another process has made in between.
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

// dropName removes the reserved name if there is one, but not a directory that replaced it.
func (a *linuxAtomic) dropName() {
	if a.tmp != "" {
		_ = unix.Unlinkat(a.at.dir, a.tmp, 0)
		a.tmp = ""
	}
}

// Abort removes the file.
func (a *linuxAtomic) Abort() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return nil
	}
	return failed(a.finish(), "close", "")
}

// Chmod sets the mode that the file gets if it is a new one.
func (a *linuxAtomic) Chmod(mode uint32) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = mode
	if a.tmp != "" {
		return nil
	}
	return a.linuxFile.Chmod(mode)
}

// Stat returns the attributes, with the mode that a new file will have.
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

// Base returns the name of the file's place.
func (a *linuxAtomic) Base() string { return a.at.base }

// Appeared returns what Commit has read.
func (a *linuxAtomic) Appeared() Stat {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.appeared
}

// Close without Commit is Abort.
func (a *linuxAtomic) Close() error { return a.Abort() }

func (a *linuxAtomic) finish() error {
	a.done = true
	a.dropName()
	a.at.close()
	return a.fd.close()
}

// inherit gives fd the owner, extended attributes and mode of the file that it replaces, as if that had been written in place.
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
	// As any write, this one drops setuid and setgid.
	return unix.Fchmod(fd, st.Mode&0o1777)
}

// inheritXattrs copies all but the capabilities, which a write in place would drop.
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

// inheritXattr copies one. It skips those that the system has removed or does not let this process set.
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
