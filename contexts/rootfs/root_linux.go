package rootfs

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
)

// linuxRoot resolves a path by one openat2(2) from its descriptor or, where that is missing, component by component. All further work is
// on descriptors.
type linuxRoot struct {
	opts    Options
	dir     descriptor // O_PATH
	mount   node.Mount
	openat2 bool
	// syscall is openat2(2). Tests replace it.
	syscall openat2Func
	// creating is locked for reading while a name is created, and for writing while an emulated rename removes the last names of the
	// directory that it moves (see mover.pass). A Sub shares it.
	creating *sync.RWMutex
	// freeing is locked for reading while a large file that was replaced is freed.
	freeing sync.RWMutex
	frees   atomic.Int32
	flushed flushed
	// noTmpfile makes atomic files without O_TMPFILE, for tests.
	noTmpfile bool
}

// openat2Func takes how by value, so that how is not allocated.
type openat2Func func(dir int, path string, how unix.OpenHow) (int, error)

// open chooses the best implementation that the kernel permits, or a seccomp filter, which answers ENOSYS or EPERM.
func open(dir string, opts Options) (Root, error) {
	if opts.Implementation == "osroot" {
		if opts.Special() {
			return nil, errZones
		}
		return openPortable(dir, opts)
	}
	r, err := openLinux(filepath.Clean(dir), opts, openat2)
	if err != nil {
		return nil, fserr.Wrap(err, "open", "", "")
	}
	return r, nil
}

// OpenAt opens the directory that a descriptor stands for, which the caller closes. It need not have a path.
func OpenAt(fd int, opts Options) (Root, error) {
	r, err := openLinuxAt(fd, ".", opts, openat2)
	if err != nil {
		return nil, fserr.Wrap(err, "open", "", "")
	}
	return r, nil
}

func openLinux(dir string, opts Options, syscall openat2Func) (*linuxRoot, error) {
	return openLinuxAt(unix.AT_FDCWD, dir, opts, syscall)
}

func openLinuxAt(at int, dir string, opts Options, syscall openat2Func) (*linuxRoot, error) {
	fd, err := node.OpenAt(at, dir, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	r := &linuxRoot{opts: opts, dir: descriptor{fd: fd}, syscall: syscall, creating: &sync.RWMutex{}}
	if err := r.inspect(fd); err != nil {
		node.CloseFD(fd)
		return nil, err
	}
	return r, nil
}

// sub opens a directory of the root as a Root of its own. It follows no link, and the directory is on the root's mount.
func (r *linuxRoot) sub(name string) (_ Root, err error) {
	s := &linuxRoot{opts: r.opts, syscall: r.syscall, creating: r.creating, noTmpfile: r.noTmpfile}
	err = r.dir.use(func(dir int) error {
		fd, err := node.OpenAt(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		s.dir = descriptor{fd: fd}
		if err = s.inspect(fd); err == nil && !r.opts.FollowMounts && s.mount != r.mount {
			err = unix.EXDEV
		}
		if err != nil {
			node.CloseFD(fd)
		}
		return err
	})
	if err != nil {
		return nil, failed(err, "open", name)
	}
	return s, nil
}

// inspect checks that the root is a directory and whether openat2 works on it.
func (r *linuxRoot) inspect(fd int) error {
	k, err := node.KindOf(fd)
	if err != nil {
		return err
	}
	r.mount = k.Mount
	switch k.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return unix.ELOOP
	default:
		return unix.ENOTDIR
	}
	if r.opts.Implementation == "walk" {
		return nil
	}
	probe, err := r.openBeneath(fd, ".", unix.O_PATH, 0)
	if err == nil {
		node.CloseFD(probe)
		r.openat2 = true
		return nil
	}
	if r.opts.Implementation == "" && (err == unix.ENOSYS || err == unix.EPERM) {
		return nil
	}
	return err
}

// naming calls make, which creates one name, while no emulated rename removes the directory of the name.
func (r *linuxRoot) naming(make func() error) error {
	if err := r.opts.Refuse; err != nil {
		return err
	}
	r.creating.RLock()
	defer r.creating.RUnlock()
	return make()
}

// freedAside is the size in bytes from which a replaced file is freed in the background. ext4 takes 70 to 100 ms for 256 MiB.
const freedAside = 8 << 20

// maxFreeing bounds the files that are freed in the background.
const maxFreeing = 4

// free closes the descriptor of a file that was replaced. The kernel frees the file with its last descriptor.
func (r *linuxRoot) free(fd int, size int64) {
	if size < freedAside || r.frees.Load() >= maxFreeing || !r.freeing.TryRLock() {
		node.CloseFD(fd)
		return
	}
	r.frees.Add(1)
	go func() {
		defer r.freeing.RUnlock()
		defer r.frees.Add(-1)
		node.CloseFD(fd)
	}()
}

// awaitFree waits until all replaced files are freed.
func (r *linuxRoot) awaitFree() {
	r.freeing.Lock()
	defer r.freeing.Unlock()
}

// Close waits until replaced files are freed, and closes the root. Operations under way are not disturbed.
func (r *linuxRoot) Close() error {
	r.awaitFree()
	return failed(r.dir.close(), "close", "")
}

// Walk lists what is below dir.
func (r *linuxRoot) Walk(ctx context.Context, dir string, opts tree.WalkOptions, fn tree.WalkFunc) error {
	return tree.Walk(ctx, r, dir, opts, fn)
}

// RemoveAll removes path and what is below it.
func (r *linuxRoot) RemoveAll(ctx context.Context, path string) (int64, error) {
	return tree.RemoveAll(ctx, r, path)
}

// Watch reports changes of path.
func (r *linuxRoot) Watch(path string, opts watch.Options) (watch.Watcher, error) {
	opts.Barred = r.opts.Barred
	return watch.Start(r, path, opts)
}

// failed converts err to the form of errors that leave this package. nil stays nil.
func failed(err error, op, path string) error {
	if err == nil {
		return nil
	}
	return fserr.Wrap(err, op, path, "")
}
