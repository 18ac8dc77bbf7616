package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// few is up to how many files and directories are flushed one by one, which takes about as long as to flush an idle file system. More are
// flushed with their file system, which waits for what other programs have written too.
const few = 1000

// Tree flushes a file, or a directory and all that is below. No other program changes it meanwhile.
func Tree(path string) error {
	all, complete, err := list(path, few)
	if err != nil {
		return err
	}
	return within(path, func(fd int) error {
		if !complete {
			return fileSystem(fd)
		}
		return All(fd, all)
	})
}

// within calls f with the descriptor of a file or directory.
func within(path string, f func(fd int) error) error {
	top, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f(int(top.Fd())), top.Close())
}

// Below is Tree for the descriptor of a directory, of which other programs may remove files meanwhile.
func Below(fd int) error {
	all, complete, err := list(fmt.Sprintf("/proc/self/fd/%d/.", fd), few)
	switch {
	case err != nil:
		return err
	case !complete:
		return fileSystem(fd)
	}
	return All(fd, all)
}

// All flushes files, and the names in directories, that are on the file system of a descriptor. It skips the paths that One
// skips.
func All(fd int, paths []string) error {
	if done, err := Whole(fd, len(paths)); done || err != nil {
		return err
	}
	return Each(paths, One)
}

// bytesPerFlush is how many bytes a disk writes in about the time of a flush.
const bytesPerFlush = 64 << 10

// Quick reports whether flushing a whole file system takes no longer than flushing n of its files one by one: the machine
// has little to write. Without that bound the flush would wait for all that other programs have written.
func Quick(n int) bool { return n > atOnce && unwritten() <= int64(n)*bytesPerFlush }

// Whole flushes the file system of a descriptor if that is quick, in place of n files and directories on it, and reports
// whether it did. It does so only on file systems of a local disk, where syncfs(2) flushes the disk and returns the errors of
// writes, as fsync(2) does. An overlay returns none, FUSE passes the call on to no server, and 9p and CIFS only write.
func Whole(fd, n int) (done bool, err error) {
	if !Quick(n) {
		return false, nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || !slices.Contains(local, int64(st.Type)) {
		return false, nil // each flush says what is wrong
	}
	wide.Add(1)
	return true, unix.Syncfs(fd)
}

// local are the types of the file systems that Whole flushes, as statfs(2) has them.
var local = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC}

// Pretend makes the machine have so many bytes to write, until a test calls restore.
func Pretend(unwritten int64) (restore func()) {
	was := pretended.Swap(&unwritten)
	return func() { pretended.Store(was) }
}

var pretended atomic.Pointer[int64]

// unwritten returns how many bytes the kernel has still to write to any disk, as /proc/meminfo says.
func unwritten() int64 {
	if n := pretended.Load(); n != nil {
		return *n
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	total := int64(0)
	for _, name := range []string{"Dirty:", "Writeback:"} {
		_, rest, _ := strings.Cut(string(text), "\n"+name)
		var kib int64
		if n, err := fmt.Sscan(rest, &kib); n != 1 || err != nil {
			return math.MaxInt64
		}
		total += kib << 10
	}
	return total
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
	return errors.Join(err, Each(all, One))
}

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
