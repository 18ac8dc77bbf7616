package osroot

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// errReplaced means that a file was replaced between its look-up and its use. The path is resolved again.
var errReplaced = errors.New("replaced meanwhile")

// movedRetries bounds how often a path is resolved again because of errReplaced.
const movedRetries = 16

func (r *Root) OpenFile(path string, flags node.Flags, mode uint32) (node.File, error) {
	if err := node.CheckFlags(flags); err != nil {
		return nil, osError(err)
	}
	how := walkMode{follow: flags&node.O_NOFOLLOW == 0 && !flags.Exclusive(), create: flags&node.O_CREAT != 0}
	return r.open(path, how, flags, mode)
}

func (r *Root) OpenStat(path string, flags node.Flags) (node.File, node.Stat, error) {
	if flags&(node.O_CREAT|node.O_TRUNC) != 0 {
		return nil, node.Stat{}, osError(fserr.EINVAL)
	}
	return withStat(r.OpenFile(path, flags, 0))
}

// withStat adds the attributes of what was opened.
func withStat(f node.File, err error) (node.File, node.Stat, error) {
	if err != nil {
		return nil, node.Stat{}, err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, node.Stat{}, err
	}
	return f, st, nil
}

func (r *Root) OpenNoFollow(path string, flags node.Flags) (node.File, node.Stat, error) {
	if flags&node.O_CREAT != 0 {
		return nil, node.Stat{}, osError(fserr.EINVAL)
	}
	if err := node.CheckFlags(flags); err != nil {
		return nil, node.Stat{}, osError(err)
	}
	return withStat(r.open(path, walkMode{noLinks: true}, flags, 0))
}

func (r *Root) open(path string, how walkMode, flags node.Flags, mode uint32) (node.File, error) {
	f, err := retryMoved(func() (f node.File, err error) {
		err = r.at(path, how, func(p position) (err error) {
			f, err = p.open(flags, mode)
			return err
		})
		return f, err
	})
	return f, osError(err)
}

func retryMoved(open func() (node.File, error)) (node.File, error) {
	for range movedRetries {
		f, err := open()
		if !errors.Is(err, errReplaced) {
			return f, err
		}
	}
	return nil, fserr.EBUSY
}

// open opens or creates the file at p. It follows no link.
func (p position) open(flags node.Flags, mode uint32) (node.File, error) {
	if p.slash && p.base != "" && flags&node.O_CREAT != 0 {
		return nil, fserr.EISDIR
	}
	if !p.exists() {
		if flags&node.O_CREAT == 0 {
			return nil, fserr.ENOENT
		}
		return p.create(flags, mode)
	}
	if err := p.mayOpen(flags); err != nil {
		return nil, err
	}
	f, err := p.dir.dir.OpenFile(p.name(), osOpenFlags(flags&^(node.O_CREAT|node.O_EXCL)), 0)
	if err != nil {
		return nil, movedIfGone(err)
	}
	return p.admit(f, flags)
}

// movedIfGone maps the errors of a name that changed since its look-up to errReplaced.
func movedIfGone(err error) error {
	if slices.Contains([]fserr.Code{fserr.ENOENT, fserr.ELOOP, fserr.ENXIO}, codeOf(err)) {
		return errReplaced
	}
	return err
}

func (p position) mayOpen(flags node.Flags) error {
	switch {
	case flags.Exclusive():
		return fserr.EEXIST
	case p.isLink():
		return fserr.ELOOP
	case p.isDir() && (flags.Writable() || flags&(node.O_CREAT|node.O_TRUNC) != 0):
		return fserr.EISDIR
	case p.isDir():
		return nil
	case flags&node.O_DIRECTORY != 0:
		return fserr.ENOTDIR
	case !p.info.Mode().IsRegular():
		return fserr.EOPNOTSUPP
	}
	return nil
}

// admit checks that f is the regular file or directory that was looked up.
func (p position) admit(f *os.File, flags node.Flags) (node.File, error) {
	now, err := f.Stat()
	if err == nil && p.info != nil && !os.SameFile(p.info, now) {
		err = errReplaced
	}
	if err == nil {
		err = p.dir.admit(f, now.IsDir())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return newFile(f, p.dir.root.opts, flags, now.IsDir()), nil
}

// admit refuses a file that is a mount point.
func (n *dirNode) admit(f *os.File, isDir bool) error {
	if n.root.opts.FollowMounts {
		return nil
	}
	m, err := osMountOf(f)
	if err == nil && !n.admits(m, isDir) {
		err = fserr.EXDEV
	}
	return err
}

func (p position) create(flags node.Flags, mode uint32) (node.File, error) {
	f, err := p.dir.dir.OpenFile(p.base, osOpenFlags(flags|node.O_EXCL), os.FileMode(mode&0o777))
	if codeOrNil(err) == fserr.EEXIST && !flags.Exclusive() {
		return nil, errReplaced
	}
	if err != nil {
		return nil, err
	}
	if err := settle(f, p.dir.root.opts, mode); err != nil {
		_ = f.Close()
		return nil, err
	}
	return newFile(f, p.dir.root.opts, flags, false), nil
}

// settle gives a new file its owner and its whole mode, whatever the umask.
func settle(f *os.File, opts node.Options, mode uint32) error {
	if o := opts.Owner; o != nil {
		if err := f.Chown(o.UID, o.GID); err != nil {
			return err
		}
	}
	return f.Chmod(osMode(mode))
}

// osOpenFlags converts Linux flags to os's.
func osOpenFlags(flags node.Flags) int {
	out := [...]int{node.O_RDONLY: os.O_RDONLY, node.O_WRONLY: os.O_WRONLY, node.O_RDWR: os.O_RDWR}[flags&node.O_ACCMODE]
	for _, f := range []struct {
		flag node.Flags
		os   int
	}{
		{node.O_CREAT, os.O_CREATE}, {node.O_EXCL, os.O_EXCL}, {node.O_TRUNC, os.O_TRUNC},
		{node.O_APPEND, os.O_APPEND}, {node.O_DSYNC, os.O_SYNC},
	} {
		if flags&f.flag != 0 {
			out |= f.os
		}
	}
	return out | extraFlags
}

func (r *Root) OpenDir(path string) (node.Dir, error) {
	n, err := r.Node(path, true)
	if err != nil {
		return nil, err
	}
	node := n.(*dirNode)
	f, err := node.dir.Open(".")
	if err != nil {
		_ = node.Close()
		return nil, osError(err)
	}
	return &listing{node: node, file: f}, nil
}

// openFile is a File over *os.File.
type openFile struct {
	f     *os.File
	opts  node.Options
	flags node.Flags
	dir   bool
	// mu guards the position, which appendAt moves and restores.
	mu sync.Mutex
}

func newFile(f *os.File, opts node.Options, flags node.Flags, dir bool) *openFile {
	return &openFile{f: f, opts: opts, flags: flags, dir: dir}
}

// ioError is osError, except that it keeps io.EOF.
func ioError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return osError(err)
}

func (f *openFile) Read(p []byte) (int, error) {
	if f.dir {
		return 0, osError(fserr.EISDIR)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Read(p)
	return n, ioError(err)
}

func (f *openFile) Write(p []byte) (int, error) {
	if !f.flags.Writable() {
		return 0, osError(fserr.EBADF)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Write(p)
	return n, ioError(err)
}

func (f *openFile) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case f.dir:
		return 0, osError(fserr.EISDIR)
	case off < 0:
		return 0, osError(fserr.EINVAL)
	}
	n, err := f.f.ReadAt(p, off)
	return n, ioError(err)
}

func (f *openFile) WriteAt(p []byte, off int64) (int, error) {
	switch {
	case !f.flags.Writable():
		return 0, osError(fserr.EBADF)
	case off < 0:
		return 0, osError(fserr.EINVAL)
	case f.flags&node.O_APPEND != 0:
		return f.appendAt(p)
	}
	n, err := f.f.WriteAt(p, off)
	return n, ioError(err)
}

// appendAt appends and restores the position: os.File has no pwrite for appending files.
func (f *openFile) appendAt(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pos, err := f.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, osError(err)
	}
	n, err := f.f.Write(p)
	if _, back := f.f.Seek(pos, io.SeekStart); err == nil {
		err = back
	}
	return n, ioError(err)
}

func (f *openFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Seek(offset, whence)
	return n, ioError(err)
}

func (f *openFile) Close() error { return osError(f.f.Close()) }

func (f *openFile) Stat() (node.Stat, error) {
	st, err := osFstat(f.f)
	return st, osError(err)
}

func (f *openFile) Truncate(size int64) error {
	if f.dir || size < 0 || !f.flags.Writable() {
		return osError(fserr.EINVAL)
	}
	return osError(f.f.Truncate(size))
}

func (f *openFile) Chmod(mode uint32) error { return osError(f.f.Chmod(osMode(mode))) }

func (f *openFile) Chown(uid, gid int64) error {
	if err := node.MayOwn(f.opts, uid, gid); err != nil {
		return osError(err)
	}
	return osError(f.f.Chown(int(uid), int(gid)))
}

func (f *openFile) Utimes(atimeNs, mtimeNs int64) error {
	return osError(osFutimes(f.f, atimeNs, mtimeNs))
}

func (f *openFile) Sync(dataOnly bool) error {
	if dataOnly {
		return osError(osDatasync(f.f))
	}
	return osError(f.f.Sync())
}
