// Package durable makes files and names survive a power failure. Windows flushes names by itself, and systems other than Linux flush no trees.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Names flushes the names in directories, in this order.
func Names(dirs ...string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	var errs []error
	for _, dir := range slices.Compact(dirs) {
		errs = append(errs, flush(dir))
	}
	return errors.Join(errs...)
}

// atOnce is how many flushes run at a time: the file system's journal commits once for all that wait for it together.
const atOnce = 16

// Each calls flush for each path, some at a time and in no order, and returns all errors.
func Each(paths []string, flush func(path string) error) error {
	errs := make([]error, len(paths))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, path := range paths {
		group.Go(func() error {
			errs[i] = flush(path)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(errs...)
}

func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) { // the file system cannot
		err = nil
	}
	return errors.Join(err, f.Close())
}

// wide counts the flushes of file systems.
var wide atomic.Int64

// Wide returns how many whole file systems this process has flushed: such a flush waits for what other programs have written. Tests look at it.
func Wide() int64 { return wide.Load() }

// MkdirAll makes a directory, and those above that are missing, and flushes their names.
func MkdirAll(dir string, perm os.FileMode) error {
	err := os.Mkdir(dir, perm)
	if errors.Is(err, fs.ErrNotExist) {
		if err = MkdirAll(filepath.Dir(dir), perm); err == nil {
			err = os.Mkdir(dir, perm)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		if st, e := os.Stat(dir); e == nil && st.IsDir() {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return Names(filepath.Dir(dir))
}

// WriteFile replaces a file: a power failure leaves the old one or the new one, and the new one once WriteFile has returned. A kill may leave a
// file beside it whose name begins with a dot and the name.
func WriteFile(path string, data []byte, perm os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Names(filepath.Dir(path))
}
