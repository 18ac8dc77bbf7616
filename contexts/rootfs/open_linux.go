package rootfs

import (
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

var errSpecial = &fserr.Error{
	Code: fserr.EOPNOTSUPP, Hint: "it is a FIFO, socket or device; only regular files and directories are opened",
}

// flagTable maps flags to the system's, whose numbers differ between architectures.
var flagTable = []struct {
	flag Flags
	sys  int
}{
	{O_WRONLY, unix.O_WRONLY}, {O_RDWR, unix.O_RDWR}, {O_APPEND, unix.O_APPEND},
	{O_DSYNC, unix.O_DSYNC}, {O_SYNC &^ O_DSYNC, unix.O_SYNC}, {O_DIRECT, unix.O_DIRECT},
	{O_DIRECTORY, unix.O_DIRECTORY}, {O_NOFOLLOW, unix.O_NOFOLLOW}, {O_NOATIME, unix.O_NOATIME},
}

// systemFlags converts flags, without those that create or truncate. The result never blocks on a FIFO and never takes a terminal.
func systemFlags(flags Flags) (int, error) {
	if err := node.CheckFlags(flags); err != nil {
		return 0, err
	}
	sys := unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_LARGEFILE
	if flags == O_RDONLY { // most opens
		return sys, nil
	}
	for _, t := range flagTable {
		if flags&t.flag == t.flag {
			sys |= t.sys
		}
	}
	return sys, nil
}

// OpenFile opens or creates path.
func (r *linuxRoot) OpenFile(path string, flags Flags, mode uint32) (File, error) {
	f, err := r.openFile(path, flags, mode)
	if err != nil {
		return nil, failed(err, "open", path)
	}
	return f, nil
}

func (r *linuxRoot) openFile(path string, flags Flags, mode uint32) (File, error) {
	sys, err := systemFlags(flags)
	if err != nil {
		return nil, err
	}
	var st Stat
	if flags&O_CREAT == 0 {
		return r.openExisting(path, sys, flags, 0, &st)
	}
	for range maxRetries {
		if !flags.Exclusive() {
			f, err := r.openExisting(path, sys, flags, 0, &st)
			if fserr.CodeOf(err) != fserr.ENOENT {
				return f, err
			}
		}
		f, err := r.create(path, sys, flags, mode)
		if err == nil || flags.Exclusive() || fserr.CodeOf(err) != fserr.EEXIST {
			return f, err
		}
	}
	return nil, errBusy
}

// OpenStat opens path and returns the attributes that serve has read.
func (r *linuxRoot) OpenStat(path string, flags Flags) (f File, st Stat, err error) {
	if flags&(O_CREAT|O_TRUNC) != 0 {
		return nil, st, failed(unix.EINVAL, "open", path)
	}
	sys, err := systemFlags(flags)
	if err == nil {
		f, err = r.openExisting(path, sys, flags, 0, &st)
	}
	return f, st, failed(err, "open", path)
}

// OpenNoFollow opens path. A link anywhere on the way is ELOOP.
func (r *linuxRoot) OpenNoFollow(path string, flags Flags) (f File, st Stat, err error) {
	sys, err := systemFlags(flags)
	if err == nil && flags&O_CREAT != 0 {
		err = unix.EINVAL
	}
	if err == nil {
		f, err = r.openExisting(path, sys, flags, unix.RESOLVE_NO_SYMLINKS, &st)
	}
	return f, st, failed(err, "open", path)
}

// openExisting opens a file and reads its attributes into st.
func (r *linuxRoot) openExisting(path string, sys int, flags Flags, resolve uint64, st *Stat) (File, error) {
	if flags&O_CREAT != 0 && path != "" && path[len(path)-1] == '/' {
		return nil, r.slashCreate(path)
	}
	fd, err := r.openPath(path, sys, resolve)
	if err == unix.ENXIO {
		return nil, r.noDevice(path, resolve)
	}
	if err != nil {
		return nil, err
	}
	return r.serve(fd, flags, st)
}

// slashCreate returns the error of O_CREAT with a trailing slash: EISDIR, as on Linux, if the parent exists.
func (r *linuxRoot) slashCreate(path string) error {
	p, err := r.place(path, true)
	if err != nil {
		return err
	}
	p.close()
	return unix.EISDIR
}

// noDevice replaces ENXIO, the error for a FIFO without a reader and for a socket.
func (r *linuxRoot) noDevice(path string, resolve uint64) error {
	fd, err := r.openPath(path, unix.O_PATH, resolve)
	if err != nil {
		return err
	}
	defer node.CloseFD(fd)
	st, err := node.StatFD(fd)
	if err == nil && (st.Type() == TypeFile || st.IsDir()) {
		return unix.ENXIO
	}
	return errSpecial
}

// serve takes over fd if it is a regular file or a directory, else it closes fd. It truncates only after that check, so st is older.
func (r *linuxRoot) serve(fd int, flags Flags, st *Stat) (File, error) {
	err := node.FstatInto(st, fd)
	switch {
	case err != nil:
	case st.IsDir() && flags&O_CREAT != 0:
		err = unix.EISDIR
	case r.opts.Refuse != nil && (flags.Writable() || flags&O_TRUNC != 0):
		err = r.opts.Refuse
	case st.IsDir():
	case st.Type() != TypeFile:
		err = errSpecial
	}
	if err != nil {
		node.CloseFD(fd)
		return nil, err
	}
	f := &linuxFile{fd: descriptor{fd: fd}, root: r}
	f.setid.Store(st.Mode&0o6000 != 0 && flags.Writable())
	if flags&O_TRUNC != 0 && !st.IsDir() {
		err := f.dropSetid(fd)
		if err == nil {
			err = node.Uninterrupted(func() error { return unix.Ftruncate(fd, 0) })
		}
		if err != nil {
			node.CloseFD(fd)
			return nil, err
		}
	}
	return f, nil
}

// create makes the file at path, or the target of the dangling link there. It fails with EEXIST if one appeared meanwhile.
func (r *linuxRoot) create(path string, sys int, flags Flags, mode uint32) (File, error) {
	p, err := r.place(path, true)
	if err != nil {
		return nil, err
	}
	defer p.close()
	f, err := r.createAt(p, sys, mode)
	if err != unix.EEXIST || flags.Exclusive() {
		return f, err
	}
	end, missing, err := r.target(path)
	if err != nil {
		return nil, err
	}
	defer end.close()
	if !missing {
		return nil, unix.EEXIST
	}
	return r.createAt(end, sys, mode)
}

func (r *linuxRoot) createAt(p place, sys int, mode uint32) (File, error) {
	switch {
	case !p.plain():
		return nil, unix.EEXIST
	case p.slash:
		return nil, unix.EISDIR
	}
	fd, err := r.createNew(p.dir, p.base, sys, mode)
	if err != nil {
		return nil, err
	}
	return newFile(fd, r), nil
}

// createNew creates the file name in dir, with exactly mode and the owner of the options; EEXIST if the name is taken.
func (r *linuxRoot) createNew(dir int, name string, sys int, mode uint32) (fd int, err error) {
	if r.barred(name) {
		return -1, node.ErrBarred
	}
	err = r.naming(func() error {
		fd, err = node.OpenAt(dir, name, sys|unix.O_CREAT|unix.O_EXCL, mode&0o1777)
		return err
	})
	if err != nil {
		return -1, err
	}
	if err := r.adopt(fd, mode); err != nil {
		node.CloseFD(fd)
		return -1, err
	}
	return fd, nil
}

// adopt gives a new entry its owner and its whole mode, whatever the umask.
func (r *linuxRoot) adopt(fd int, mode uint32) error {
	if o := r.opts.Owner; o != nil {
		if err := unix.Fchownat(fd, "", o.UID, o.GID, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	st, err := node.StatFD(fd)
	if err != nil || st.Perm()&0o1777 == mode&0o1777 {
		return err
	}
	// A directory keeps the setgid bit it inherited.
	return node.ChmodFD(fd, mode&0o1777|st.Perm()&unix.S_ISGID)
}

// OpenDir opens the directory path for listing.
func (r *linuxRoot) OpenDir(path string) (Dir, error) {
	fd, err := r.openPath(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, failed(err, "scandir", path)
	}
	return &linuxDir{fd: descriptor{fd: fd}, root: r}, nil
}
