package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// rotatedFile is a file that is appended to, and that makes place for a new one when it has become too large: path becomes
// path.1, that path.2, and so on; what is beyond the last is gone. One that is full of what an earlier process
// wrote is gone on with.
type rotatedFile struct {
	path    string
	maxSize int64
	keep    int

	mu   sync.Mutex
	file *os.File
	size int64
}

func openRotated(path string, maxSize int64, keep int) (*rotatedFile, error) {
	r := &rotatedFile{path: path, maxSize: maxSize, keep: keep}
	return r, r.open()
}

// open opens the file, for its owner's eyes only.
func (r *rotatedFile) open() error {
	if st, err := os.Stat(r.path); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", r.path)
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, st.Size()
	return nil
}

// Write appends a line by one system call, so that lines of several processes are not mixed.
func (r *rotatedFile) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return 0, fs.ErrClosed
	}
	var turned error
	if r.size > 0 && r.size+int64(len(line)) > r.maxSize {
		turned = r.turn()
	}
	n, err := r.file.Write(line)
	r.size += int64(n)
	return n, errors.Join(err, turned)
}

// turn begins a new file; when that fails the old one goes on.
func (r *rotatedFile) turn() error {
	for i := r.keep - 1; i >= 1; i-- {
		if err := os.Rename(r.numbered(i), r.numbered(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	gone := os.Remove
	if r.keep > 0 {
		gone = func(path string) error { return os.Rename(path, r.numbered(1)) }
	}
	if err := gone(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := r.file
	if err := r.open(); err != nil {
		return err
	}
	return old.Close()
}

func (r *rotatedFile) numbered(i int) string { return fmt.Sprintf("%s.%d", r.path, i) }

// Close closes the file; later writes fail.
func (r *rotatedFile) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
