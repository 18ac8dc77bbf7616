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
	// torn says that the file does not end with a line's end.
	torn bool
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
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		_, err = f.ReadAt(last, st.Size()-1)
		r.torn = last[0] != '\n'
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, st.Size()
	return nil
}

// Write appends a line by one system call, so that lines of several processes are not mixed. A part of a line, which a full disk
// or a crash has left, is ended before.
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
	text, ended := line, 0
	if r.torn {
		text, ended = append([]byte{'\n'}, line...), 1
	}
	n, err := r.file.Write(text)
	r.size += int64(n)
	r.torn = err != nil && (n > 0 || r.torn)
	return max(0, n-ended), errors.Join(err, turned)
}

// turn begins a new file; when that fails the old one goes on. The new one is made first: were the old ones moved up each time
// that a full disk, or a process without descriptors, does not let it be made, they would all be lost.
func (r *rotatedFile) turn() error {
	next := r.path + ".new"
	f, err := os.OpenFile(next, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := r.moveUp(next); err != nil {
		return errors.Join(err, f.Close())
	}
	old := r.file
	r.file, r.size, r.torn = f, 0, false
	return old.Close()
}

// moveUp gives each file the next number, and its place to next.
func (r *rotatedFile) moveUp(next string) error {
	for i := r.keep - 1; i >= 0; i-- {
		if err := os.Rename(r.numbered(i), r.numbered(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(next, r.path)
}

func (r *rotatedFile) numbered(i int) string {
	if i == 0 {
		return r.path
	}
	return fmt.Sprintf("%s.%d", r.path, i)
}

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
