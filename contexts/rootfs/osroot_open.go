package rootfs

import (
	"errors"
	"os"
	"slices"

	"github.com/ctxfs/ctxfs/fserr"
)

const knownFlags = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |
	O_DSYNC | O_DIRECT | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_SYNC

// errReplaced tells that what was looked up was replaced before it could be used;
// resolving again finds what stands there now.
var errReplaced = errors.New("replaced meanwhile")

// movedRetries bounds how often a path is resolved anew because of errReplaced.
const movedRetries = 16

// OpenFile implements Opener.
func (r *osRoot) OpenFile(path string, flags Flags, mode uint32) (File, error) {
	if err := checkOSFlags(flags); err != nil {
		return nil, osError(err)
	}
	how := walkMode{follow: flags&O_NOFOLLOW == 0 && !flags.exclusive(), create: flags&O_CREAT != 0}
	return r.open(path, how, flags, mode)
}

// OpenStat implements Opener.
func (r *osRoot) OpenStat(path string, flags Flags) (File, Stat, error) {
	if flags&(O_CREAT|O_TRUNC) != 0 {
		return nil, Stat{}, osError(fserr.EINVAL)
	}
	return withStat(r.OpenFile(path, flags, 0))
}

// withStat asks what was opened.
func withStat(f File, err error) (File, Stat, error) {
	if err != nil {
		return nil, Stat{}, err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, Stat{}, err
	}
	return f, st, nil
}

// OpenNoFollow implements Trees.
func (r *osRoot) OpenNoFollow(path string, flags Flags) (File, Stat, error) {
	if flags&O_CREAT != 0 {
		return nil, Stat{}, osError(fserr.EINVAL)
	}
	if err := checkOSFlags(flags); err != nil {
		return nil, Stat{}, osError(err)
	}
	return withStat(r.open(path, walkMode{noLinks: true}, flags, 0))
}

// checkOSFlags refuses what is unknown or contradicts itself. O_TRUNC without writing,
// which POSIX leaves open, is refused too: an open to read destroys nothing.
func checkOSFlags(flags Flags) error {
	bad := flags&^knownFlags != 0 || flags&O_ACCMODE == O_ACCMODE ||
		flags&(O_CREAT|O_DIRECTORY) == O_CREAT|O_DIRECTORY ||
		(flags&O_TRUNC != 0 && !flags.Writable())
	if bad {
		return fserr.EINVAL
	}
	return nil
}

func (r *osRoot) open(path string, how walkMode, flags Flags, mode uint32) (File, error) {
	f, err := retryMoved(func() (f File, err error) {
		err = r.at(path, how, func(p osPos) (err error) {
			f, err = p.open(flags, mode)
			return err
		})
		return f, err
	})
	return f, osError(err)
}

func retryMoved(open func() (File, error)) (File, error) {
	for range movedRetries {
		f, err := open()
		if !errors.Is(err, errReplaced) {
			return f, err
		}
	}
	return nil, fserr.EBUSY
}

// open opens what stands at p, which is no longer followed, or creates it.
func (p osPos) open(flags Flags, mode uint32) (File, error) {
	if p.slash && p.base != "" && flags&O_CREAT != 0 {
		return nil, fserr.EISDIR
	}
	if !p.exists() {
		if flags&O_CREAT == 0 {
			return nil, fserr.ENOENT
		}
		return p.create(flags, mode)
	}
	if err := p.mayOpen(flags); err != nil {
		return nil, err
	}
	f, err := p.dir.dir.OpenFile(p.name(), osOpenFlags(flags&^(O_CREAT|O_EXCL)), 0)
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

func (p osPos) mayOpen(flags Flags) error {
	switch {
	case flags.exclusive():
		return fserr.EEXIST
	case p.isLink():
		return fserr.ELOOP
	case p.isDir() && (flags.Writable() || flags&(O_CREAT|O_TRUNC) != 0):
		return fserr.EISDIR
	case p.isDir():
		return nil
	case flags&O_DIRECTORY != 0:
		return fserr.ENOTDIR
	case !p.info.Mode().IsRegular():
		return fserr.EOPNOTSUPP
	}
	return nil
}

// admit checks that f is what was looked up, and so a regular file or directory.
func (p osPos) admit(f *os.File, flags Flags) (File, error) {
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

func (p osPos) create(flags Flags, mode uint32) (File, error) {
	f, err := p.dir.dir.OpenFile(p.base, osOpenFlags(flags|O_EXCL), os.FileMode(mode&0o777))
	if osCodeOrNil(err) == fserr.EEXIST && !flags.exclusive() {
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
func settle(f *os.File, opts Options, mode uint32) error {
	if o := opts.Owner; o != nil {
		if err := f.Chown(o.UID, o.GID); err != nil {
			return err
		}
	}
	return f.Chmod(osMode(mode))
}

// osOpenFlags turns Linux flags into os's; the access mode's numbers agree.
func osOpenFlags(flags Flags) int {
	out := [...]int{O_RDONLY: os.O_RDONLY, O_WRONLY: os.O_WRONLY, O_RDWR: os.O_RDWR}[flags&O_ACCMODE]
	for _, f := range []struct {
		flag Flags
		os   int
	}{
		{O_CREAT, os.O_CREATE}, {O_EXCL, os.O_EXCL}, {O_TRUNC, os.O_TRUNC},
		{O_APPEND, os.O_APPEND}, {O_DSYNC, os.O_SYNC},
	} {
		if flags&f.flag != 0 {
			out |= f.os
		}
	}
	return out | osExtraFlags
}

// OpenDir implements Opener.
func (r *osRoot) OpenDir(path string) (Dir, error) {
	n, err := r.node(path, true)
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
