package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// few is up to how many files and directories are flushed one by one, which takes about as long as to flush an idle file system. More are
// flushed with their file system, which waits for what other programs have written too.
const few = 1000

// Tree flushes a file, or a directory and all that is below. No other program changes it meanwhile.
func Tree(path string) error {
	all, complete, err := list(path, few)
	if err == nil && !complete {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(fileSystem(int(f.Fd())), f.Close())
	}
	return errors.Join(err, flushAll(all))
}

// Below is Tree for the descriptor of a directory, of which other programs may remove files meanwhile.
func Below(fd int) error {
	all, complete, err := list(fmt.Sprintf("/proc/self/fd/%d/.", fd), few)
	if err == nil && !complete {
		return fileSystem(fd)
	}
	return errors.Join(err, flushAll(all))
}

// fileSystem flushes the file system of a directory's descriptor. The kernel does not pass that on to FUSE file systems: of one, it flushes the
// tree below the directory.
func fileSystem(fd int) error {
	wide.Add(1)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if st.Type != unix.FUSE_SUPER_MAGIC {
		return unix.Syncfs(fd)
	}
	all, complete, err := list(fmt.Sprintf("/proc/self/fd/%d/.", fd), -1)
	if err == nil && !complete {
		return unix.ENAMETOOLONG
	}
	return errors.Join(err, flushAll(all))
}

func flushAll(paths []string) error { return Each(paths, One) }

// One flushes a file, or the names in a directory. It skips a path that is missing, and one that the server may not read.
func One(path string) error {
	if err := flushNode(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var errMore = errors.New("there are more")

// list returns the files and directories of a tree; complete is false if there are more than limit, or some have paths that are too long to open.
func list(top string, limit int) (all []string, complete bool, err error) {
	err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != top: // it was removed meanwhile
			return nil
		case errors.Is(err, fs.ErrPermission) && path != top: // it is flushed without what it holds
			return nil
		case errors.Is(err, unix.ENAMETOOLONG), len(path) >= unix.PathMax:
			return errMore
		case err != nil:
			return err
		case !e.IsDir() && !e.Type().IsRegular():
			return nil // it has no content
		case len(all) == limit:
			return errMore
		}
		all = append(all, path)
		return nil
	})
	if errors.Is(err, errMore) {
		return nil, false, nil
	}
	return all, true, err
}

// flushNode flushes a file or directory. It skips one that the server may not read.
func flushNode(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) { // the file system cannot
		err = nil
	}
	return errors.Join(err, f.Close())
}
