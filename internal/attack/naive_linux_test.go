package attack

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
)

// naiveRoot is what rootfs must not be: it looks at the words of a path, and then gives the
// kernel the path as it is. It is here to show that the suite can fail. It cannot copy trees.
type naiveRoot struct{ dir string }

var _ rootfs.Root = (*naiveRoot)(nil)

func openNaive(dir string, _ rootfs.Options) (rootfs.Root, error) { return &naiveRoot{dir: dir}, nil }

// name is the check that so many programs make.
func (n *naiveRoot) name(path string) (string, error) {
	if !strings.HasPrefix(filepath.Join(n.dir, path), n.dir) {
		return "", fserr.New("", path, fserr.EACCES)
	}
	return n.dir + "/" + strings.TrimLeft(path, "/"), nil
}

// fenced keeps what the naive rootfs lets out within the world's own directory: this machine's
// files are not part of the experiment.
func (n *naiveRoot) fenced(name string) error {
	if len(name) >= unix.PathMax { // the kernel takes no such name, and to look for it at each level takes long
		return fserr.ENAMETOOLONG
	}
	world := filepath.Dir(filepath.Dir(filepath.Dir(n.dir)))
	for p := name; ; p = filepath.Dir(p) {
		real, err := filepath.EvalSymlinks(p)
		switch {
		case err != nil:
			continue // what is there of the way counts
		case real != world && !strings.HasPrefix(real, world+"/"):
			return fserr.EACCES
		}
		return nil
	}
}

// on does f with path's name.
func (n *naiveRoot) on(path string, f func(name string) error) error {
	name, err := n.name(path)
	if err == nil {
		err = n.fenced(name)
	}
	if err == nil {
		err = f(name)
	}
	return fserr.Wrap(err, "naive", path, "")
}

func (n *naiveRoot) onTwo(from, to string, f func(from, to string) error) error {
	return n.on(from, func(from string) error { return n.on(to, func(to string) error { return f(from, to) }) })
}

func (n *naiveRoot) Close() error { return nil }

func (n *naiveRoot) OpenFile(path string, flags rootfs.Flags, mode uint32) (f rootfs.File, err error) {
	err = n.on(path, func(name string) error {
		file, err := os.OpenFile(name, int(flags)|syscall.O_NONBLOCK, os.FileMode(mode&0o777))
		if err == nil {
			_ = file.SetDeadline(time.Now().Add(100 * time.Millisecond)) // clock: of a FIFO; a file knows none
		}
		f = &naiveFile{File: file}
		return err
	})
	return f, err
}

func (n *naiveRoot) OpenStat(path string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	f, err := n.OpenFile(path, flags, 0)
	if err != nil {
		return nil, rootfs.Stat{}, err
	}
	st, err := f.Stat()
	return f, st, err
}

func (n *naiveRoot) OpenNoFollow(path string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	return n.OpenStat(path, flags)
}

func (n *naiveRoot) CreateAtomic(path string, mode uint32, _ bool) (a rootfs.AtomicFile, err error) {
	err = n.on(path, func(name string) error {
		f, err := os.OpenFile(name+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, os.FileMode(mode&0o777))
		a = &naiveAtomic{naiveFile{f}, name}
		return err
	})
	return a, err
}

func (n *naiveRoot) OpenDir(path string) (d rootfs.Dir, err error) {
	err = n.on(path, func(name string) error {
		f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		d = naiveDir{f}
		return err
	})
	return d, err
}

func (n *naiveRoot) Stat(path string) (st rootfs.Stat, err error) {
	err = n.on(path, func(name string) error {
		return statOf(&st, func(s *unix.Stat_t) error { return unix.Stat(name, s) })
	})
	return st, err
}

func (n *naiveRoot) Lstat(path string) (st rootfs.Stat, err error) {
	err = n.on(path, func(name string) error {
		return statOf(&st, func(s *unix.Stat_t) error { return unix.Lstat(name, s) })
	})
	return st, err
}

func statOf(st *rootfs.Stat, get func(*unix.Stat_t) error) error {
	var s unix.Stat_t
	err := get(&s)
	*st = rootfs.Stat{
		Dev: s.Dev, Ino: s.Ino, Mode: s.Mode, Nlink: uint64(s.Nlink), UID: s.Uid, GID: s.Gid, Size: s.Size,
		MtimeNs: s.Mtim.Nano(), AtimeNs: s.Atim.Nano(), CtimeNs: s.Ctim.Nano(),
	}
	return err
}

func (n *naiveRoot) Statfs(path string) (st rootfs.Statfs, err error) {
	err = n.on(path, func(name string) error { return unix.Statfs(name, &unix.Statfs_t{}) })
	return st, err
}

func (n *naiveRoot) Access(path string, mode uint32) error {
	return n.on(path, func(name string) error { return unix.Access(name, mode) })
}

func (n *naiveRoot) Realpath(path string) (real string, err error) {
	err = n.on(path, func(name string) error {
		full, err := filepath.EvalSymlinks(name)
		real = "/" + strings.TrimPrefix(strings.TrimPrefix(full, n.dir), "/")
		return err
	})
	return real, err
}

func (n *naiveRoot) Readlink(path string) (target string, err error) {
	err = n.on(path, func(name string) (err error) { target, err = os.Readlink(name); return err })
	return target, err
}

func (n *naiveRoot) Lookups() rootfs.Lookups { return naiveLookups{n} }

// naiveLookups holds nothing.
type naiveLookups struct{ *naiveRoot }

func (naiveLookups) Close() {}

func (n *naiveRoot) Mkdir(path string, mode uint32) error {
	return n.on(path, func(name string) error { return os.Mkdir(name, os.FileMode(mode&0o777)) })
}

func (n *naiveRoot) MkdirAll(path string, mode uint32) (string, error) {
	return path, n.on(path, func(name string) error { return os.MkdirAll(name, os.FileMode(mode&0o777)) })
}

func (n *naiveRoot) Symlink(target, path string) error {
	return n.on(path, func(name string) error { return os.Symlink(target, name) })
}

func (n *naiveRoot) Link(from, to string) error { return n.onTwo(from, to, os.Link) }

func (n *naiveRoot) Rename(from, to string) error {
	return n.onTwo(from, to, func(from, to string) error {
		return n.unlessRoot(from, func(from string) error { return os.Rename(from, to) })
	})
}

// unlessRoot keeps the context itself, without which no further row could be tried.
func (n *naiveRoot) unlessRoot(name string, f func(name string) error) error {
	if filepath.Clean(name) == n.dir {
		return fserr.EBUSY
	}
	return f(name)
}

func (n *naiveRoot) Unlink(path string) error { return n.on(path, unix.Unlink) }

func (n *naiveRoot) Rmdir(path string) error { return n.on(path, unix.Rmdir) }

func (n *naiveRoot) Chmod(path string, mode uint32) error {
	return n.on(path, func(name string) error { return unix.Chmod(name, mode) })
}

func (n *naiveRoot) Chown(path string, uid, gid int64, follow bool) error {
	change := os.Lchown
	if follow {
		change = os.Chown
	}
	return n.on(path, func(name string) error { return change(name, int(uid), int(gid)) })
}

func (n *naiveRoot) Utimes(path string, atimeNs, mtimeNs int64, follow bool) error {
	if !follow {
		return fserr.EOPNOTSUPP
	}
	return n.on(path, func(name string) error { return os.Chtimes(name, time.Unix(0, atimeNs), time.Unix(0, mtimeNs)) })
}

func (n *naiveRoot) Walk(ctx context.Context, dir string, opts tree.WalkOptions, fn tree.WalkFunc) error {
	return n.on(dir, func(top string) error {
		if real, err := filepath.EvalSymlinks(top); err == nil {
			top = real
		}
		return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if path == top || err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			rel := strings.TrimPrefix(path, top+"/")
			e := entryOf(d, path)
			err = fn(rel, e, nil)
			if errors.Is(err, tree.SkipDir) {
				return filepath.SkipDir
			}
			return err
		})
	})
}

func entryOf(d fs.DirEntry, path string) rootfs.Entry {
	e := rootfs.Entry{Name: d.Name(), Stat: &rootfs.Stat{}}
	if statOf(e.Stat, func(s *unix.Stat_t) error { return unix.Lstat(path, s) }) == nil {
		e.Type = e.Stat.Type()
	}
	return e
}

func (n *naiveRoot) RemoveAll(_ context.Context, path string) (int64, error) {
	return 1, n.on(path, func(name string) error { return n.unlessRoot(name, removeAll) })
}

// removeAll is os.RemoveAll, which would wait for ever for a FIFO that stands for a parent.
func removeAll(name string) error {
	err := unix.Unlink(name)
	if errors.Is(err, unix.EISDIR) {
		err = os.RemoveAll(name)
	}
	return err
}

func (n *naiveRoot) Watch(string, watch.Options) (watch.Watcher, error) {
	return nil, fserr.EOPNOTSUPP
}

// naiveFile is an os.File.
type naiveFile struct{ *os.File }

func (f *naiveFile) Stat() (st rootfs.Stat, err error) {
	err = f.control(func(fd int) error {
		return statOf(&st, func(s *unix.Stat_t) error { return unix.Fstat(fd, s) })
	})
	return st, err
}

// control does not make a FIFO wait, as Fd does.
func (f *naiveFile) control(do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := conn.Control(func(fd uintptr) { err = do(int(fd)) })
	return errors.Join(controlErr, err)
}

func (f *naiveFile) Chmod(mode uint32) error {
	return f.control(func(fd int) error { return unix.Fchmod(fd, mode) })
}

func (f *naiveFile) Chown(uid, gid int64) error { return f.File.Chown(int(uid), int(gid)) }

func (f *naiveFile) Utimes(atimeNs, mtimeNs int64) error {
	times := []unix.Timeval{unix.NsecToTimeval(atimeNs), unix.NsecToTimeval(mtimeNs)}
	return f.control(func(fd int) error { return unix.Futimes(fd, times) })
}

func (f *naiveFile) Sync(bool) error { return f.File.Sync() }

// naiveAtomic is renamed into place.
type naiveAtomic struct {
	naiveFile
	name string
}

func (a *naiveAtomic) Commit(bool) error {
	return errors.Join(os.Rename(a.File.Name(), a.name), a.File.Close())
}

func (a *naiveAtomic) Base() string { return filepath.Base(a.name) }

func (a *naiveAtomic) Appeared() (st rootfs.Stat) {
	_ = statOf(&st, func(s *unix.Stat_t) error { return unix.Stat(a.name, s) }) // without attributes there is no etag
	return st
}

func (a *naiveAtomic) Abort() error { return errors.Join(os.Remove(a.File.Name()), a.File.Close()) }

// naiveDir lists what is there, reserved names too.
type naiveDir struct{ *os.File }

func (d naiveDir) Next(n int, _ bool) (out []rootfs.Entry, err error) {
	list, err := d.ReadDir(n)
	if len(list) == 0 && err == nil {
		err = io.EOF
	}
	for _, e := range list {
		out = append(out, entryOf(e, filepath.Join(d.Name(), e.Name())))
	}
	return out, err
}
