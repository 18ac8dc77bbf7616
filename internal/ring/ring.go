// Package ring bounds the size of a log that is appended to: the oldest lines go first.
package ring

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// Size bounds the logs that ctxfs itself makes, in bytes.
const Size int64 = 16 << 20

// File is a log file that is open for reading and for appending. The standard error of a program, whose log it is, stays the same file: what
// the Go runtime writes of a crash is in it too.
type File struct {
	File *os.File
	// Most bounds the file, in bytes. A write that exceeds it leaves the last half, from the beginning of a line.
	Most int64
}

// Write implements io.Writer. Other processes may write to the file too: a line of theirs may be lost while the older ones are removed.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil {
		return n, err
	}
	st, err := f.File.Stat()
	if err == nil && st.Size() > f.Most {
		err = f.shorten(st.Size())
	}
	return n, err
}

func (f *File) shorten(size int64) error {
	kept := make([]byte, min(f.Most/2, size))
	n, err := f.File.ReadAt(kept, size-int64(len(kept)))
	if err != nil && !errors.Is(err, io.EOF) { // it is EOF if another process has shortened the file
		return err
	}
	kept = kept[:n]
	if end := bytes.IndexByte(kept, '\n'); end >= 0 {
		kept = kept[end+1:]
	}
	if err := f.File.Truncate(0); err != nil {
		return err
	}
	_, err = f.File.Write(kept)
	return err
}
