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

// errReplaced tells that what was looked up was replaced before it could be used;
// resolving again finds what stands there now.
var errReplaced = errors.New("replaced meanwhile")

// movedRetries bounds how often a path is resolved anew because of errReplaced.
const movedRetries = 16

// OpenFile implements Opener.
func (r *Root) OpenFile(path string, flags node.Flags, mode uint32) (node.File, error) {
	if err := node.CheckFlags(flags); err != nil {
		return nil, osError(err)
	}
	how := walkMode{follow: flags&node.O_NOFOLLOW == 0 && !flags.Exclusive(), create: flags&node.O_CREAT != 0}
	return r.open(path, how, flags, mode)
}

// OpenStat implements Opener.
func (r *Root) OpenStat(path string, flags node.Flags) (node.File, node.Stat, error) {
	if flags&(node.O_CREAT|node.O_TRUNC) != 0 {
		return nil, node.Stat{}, osError(fserr.EINVAL)
	}
	return withStat(r.OpenFile(path, flags, 0))
}

// withStat asks what was opened.
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

// OpenNoFollow implements Trees.
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
		err = r.at(path, how, func(p osPos) (err error) {
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

// open opens what stands at p, which is no longer followed, or creates it.
func (p osPos) open(flags node.Flags, mode uint32) (node.File, error) {
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

// movedIfGone turns the errors of a name that changed since it was looked up.
func movedIfGone(err error) error {
	if slices.Contains([]fserr.Code{fserr.ENOENT, fserr.ELOOP, fserr.ENXIO}, osCode(err)) {
		return errReplaced
	}
	return err
}

func (p osPos) mayOpen(flags node.Flags) error {
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

// admit checks that f is what was looked up, and so a regular file or directory.
func (p osPos) admit(f *os.File, flags node.Flags) (node.File, error) {
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
	return newOSFile(f, p.dir.root.opts, flags, now.IsDir()), nil
}

// admit refuses a file that is mounted where it was opened.
func (n *osNode) admit(f *os.File, isDir bool) error {
	if n.root.opts.FollowMounts {
		return nil
	}
	m, err := osMountOf(f)
	if err == nil && !n.admits(m, isDir) {
		err = fserr.EXDEV
	}
	return err
}

func (p osPos) create(flags node.Flags, mode uint32) (node.File, error) {
	f, err := p.dir.dir.OpenFile(p.base, osOpenFlags(flags|node.O_EXCL), os.FileMode(mode&0o777))
	if osCodeOrNil(err) == fserr.EEXIST && !flags.Exclusive() {
		return nil, errReplaced
	}
	if err != nil {
		return nil, err
	}
	if err := settle(f, p.dir.root.opts, mode); err != nil {
		_ = f.Close()
		return nil, err
	}
	return newOSFile(f, p.dir.root.opts, flags, false), nil
}

// settle gives a new file its owner and the mode that the umask cut.
func settle(f *os.File, opts node.Options, mode uint32) error {
	if o := opts.Owner; o != nil {
		if err := f.Chown(o.UID, o.GID); err != nil {
			return err
		}
	}
	return f.Chmod(osMode(mode))
}

// osOpenFlags turns Linux flags into os's; the access mode's numbers agree.
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
	return out | osExtraFlags
}

// OpenDir implements Opener.
func (r *Root) OpenDir(path string) (node.Dir, error) {
	n, err := r.Node(path, true)
	if err != nil {
		return nil, err
	}
	node := n.(*osNode)
	f, err := node.dir.Open(".")
	if err != nil {
		_ = node.Close()
		return nil, osError(err)
	}
	return &osDir{node: node, file: f}, nil
}

// osFile is a File over *os.File.
type osFile struct {
	f     *os.File
	opts  node.Options
	flags node.Flags
	dir   bool
	// mu guards the shared position, which WriteAt of an appending file moves and puts back.
	mu sync.Mutex
}

func newOSFile(f *os.File, opts node.Options, flags node.Flags, dir bool) *osFile {
	return &osFile{f: f, opts: opts, flags: flags, dir: dir}
}

// ioError is osError but leaves io.EOF, and what was written short, as they are.
func ioError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return osError(err)
}

func (f *osFile) Read(p []byte) (int, error) {
	if f.dir {
		return 0, osError(fserr.EISDIR)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Read(p)
	return n, ioError(err)
}

func (f *osFile) Write(p []byte) (int, error) {
	if !f.flags.Writable() {
		return 0, osError(fserr.EBADF)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Write(p)
	return n, ioError(err)
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case f.dir:
		return 0, osError(fserr.EISDIR)
	case off < 0:
		return 0, osError(fserr.EINVAL)
	}
	n, err := f.f.ReadAt(p, off)
	return n, ioError(err)
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
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

// appendAt appends and puts the position back: os.File has no pwrite for appending files.
func (f *osFile) appendAt(p []byte) (int, error) {
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

func (f *osFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Seek(offset, whence)
	return n, ioError(err)
}

func (f *osFile) Close() error { return osError(f.f.Close()) }

func (f *osFile) Stat() (node.Stat, error) {
	st, err := osFstat(f.f)
	return st, osError(err)
}

func (f *osFile) Truncate(size int64) error {
	if f.dir || size < 0 || !f.flags.Writable() {
		return osError(fserr.EINVAL)
	}
	return osError(f.f.Truncate(size))
}

func (f *osFile) Chmod(mode uint32) error { return osError(f.f.Chmod(osMode(mode))) }

func (f *osFile) Chown(uid, gid int64) error {
	if err := node.MayOwn(f.opts, uid, gid); err != nil {
		return osError(err)
	}
	return osError(f.f.Chown(int(uid), int(gid)))
}

func (f *osFile) Utimes(atimeNs, mtimeNs int64) error {
	return osError(osFutimes(f.f, atimeNs, mtimeNs))
}

func (f *osFile) Sync(dataOnly bool) error {
	if dataOnly {
		return osError(osDatasync(f.f))
	}
	return osError(f.f.Sync())
}
