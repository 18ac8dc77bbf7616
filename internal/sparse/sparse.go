// Package sparse reads and writes contents without reading or writing their holes.
package sparse

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Sink takes a content in order.
type Sink interface {
	io.Writer
	// Hole takes n zeros.
	Hole(n int64) error
}

// chunk is how many bytes Copy reads before it looks at its context again.
const chunk = 64 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// file is what Copy needs to find the holes of a file.
type file interface {
	io.ReaderAt
	io.Seeker
}

// Copy gives sink what r has from its position on, and returns how many bytes that is. If r is a file whose file system
// reports holes, it does not read them. It ends with the cause of ctx when ctx ends.
func Copy(ctx context.Context, sink Sink, r io.Reader) (n int64, err error) {
	buf := chunks.Get().(*[chunk]byte) //nolint:forcetypeassert // chunks holds nothing else
	defer chunks.Put(buf)
	for {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		got, err := io.ReadFull(r, buf[:])
		if _, failed := sink.Write(buf[:got]); failed != nil {
			return n, failed
		}
		n += int64(got)
		switch f, ok := r.(file); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return n, nil
		case err != nil:
			return n, err
		case ok:
			rest, err := copyFile(ctx, sink, f, buf[:])
			return n + rest, err
		}
	}
}

// copyFile is Copy for a file. A file that becomes shorter meanwhile ends where it ends then.
func copyFile(ctx context.Context, sink Sink, f file, buf []byte) (n int64, err error) {
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	for at := from; at < size; {
		if err := context.Cause(ctx); err != nil {
			return at - from, err
		}
		start, end, err := Next(f, at, size)
		if err == nil && start > at {
			err = sink.Hole(start - at)
		}
		if err != nil {
			return at - from, err
		}
		for at = start; at < end; {
			if err := context.Cause(ctx); err != nil {
				return at - from, err
			}
			got, err := f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
			if _, failed := sink.Write(buf[:got]); failed != nil {
				return at - from, failed
			}
			at += int64(got)
			if errors.Is(err, io.EOF) {
				if at < end {
					return at - from, nil
				}
			} else if err != nil {
				return at - from, err
			}
		}
	}
	return size - from, nil
}

// NewFile is what a content can be written to with its holes: a file that is empty, and whose position is its start.
type NewFile interface {
	io.Writer
	io.Seeker
	Truncate(size int64) error
}

// Writer returns a Sink that leaves the holes of a content out of a new file. Finish it: a file can end with a hole.
func Writer(f NewFile) *FileSink { return &FileSink{f: f} }

// FileSink is what Writer returns.
type FileSink struct {
	f    NewFile
	size int64
	hole bool
}

// Write implements Sink.
func (s *FileSink) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := s.f.Write(b)
	s.size, s.hole = s.size+int64(n), false
	return n, err
}

// Hole implements Sink.
func (s *FileSink) Hole(n int64) error {
	s.size, s.hole = s.size+n, true
	_, err := s.f.Seek(n, io.SeekCurrent)
	return err
}

// Finish gives the file its size.
func (s *FileSink) Finish() error {
	if !s.hole {
		return nil
	}
	return s.f.Truncate(s.size)
}

// OldFile is what a content can be written over.
type OldFile interface {
	io.WriterAt
	io.Seeker
	Truncate(size int64) error
}

// Over returns a Sink that writes a content over that of a file, in place: a hole of the content makes zeros of what the file has there.
func Over(f OldFile) (*OverSink, error) {
	size, err := f.Seek(0, io.SeekEnd)
	return &OverSink{f: f, old: size}, err
}

// OverSink is what Over returns.
type OverSink struct {
	f       OldFile
	at, old int64
}

// Write implements Sink.
func (s *OverSink) Write(b []byte) (int, error) {
	n, err := s.f.WriteAt(b, s.at)
	s.at += int64(n)
	return n, err
}

// Hole implements Sink.
func (s *OverSink) Hole(n int64) error {
	zeros := chunks.Get().(*[chunk]byte) //nolint:forcetypeassert // chunks holds nothing else
	defer chunks.Put(zeros)
	clear(zeros[:])
	end := min(s.at+n, s.old)
	for at := s.at; at < end; {
		start, stop, err := Next(s.f, at, end)
		if err != nil {
			return err
		}
		for at = start; at < stop; {
			wrote, err := s.f.WriteAt(zeros[:min(chunk, stop-at)], at)
			if err != nil {
				return err
			}
			at += int64(wrote)
		}
	}
	s.at += n
	return nil
}

// Finish cuts the file after the content.
func (s *OverSink) Finish() error { return s.f.Truncate(s.at) }
