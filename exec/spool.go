package exec

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/ctxfs/ctxfs/internal/statedir"
)

// What a spool keeps of a stream, in bytes.
const (
	headSize = 4 << 20
	tailSize = 12 << 20
)

// spool keeps an output stream in a file of bounded size: the first headSize bytes, and after them a ring of the last tailSize. The
// stream has one writer and any number of readers. flow decides whether the writer waits for them.
type spool struct {
	path string
	file *os.File

	mu sync.Mutex
	// size is how many bytes the stream has. Up to reserved the file is being overwritten: what is older than reserved-tailSize is gone.
	size, reserved int64
	// kept is how many bytes were written to the file: size, unless err says why no more could be, such as a full disk. What follows is
	// dropped, also when there is room again: the file has no gaps.
	kept int64
	err  error
	// ended is true when the stream has ended, and dropped when its file was removed after that.
	ended, dropped bool
	// grown is closed when the stream grows or ends; nil when no reader waits.
	grown chan struct{}
}

func newSpool(path string) (*spool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &spool{path: path, file: f}, nil
}

// fill appends what r has until its end. It drains r also when the spool cannot keep the data. It calls full before the stream grows to a
// size, and waits for the channel that this returns, until that is nil.
func (s *spool) fill(r io.Reader, full func(size int64) <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		for wait := full(s.length() + int64(n)); wait != nil; wait = full(s.length() + int64(n)) {
			<-wait
		}
		s.append(buf[:n])
		if err != nil {
			s.end()
			return
		}
	}
}

func (s *spool) append(p []byte) {
	if len(p) == 0 {
		return
	}
	s.mu.Lock()
	at, broken := s.size, s.err
	if broken == nil {
		s.reserved = at + int64(len(p))
	}
	s.mu.Unlock()
	written := 0
	if broken == nil {
		broken = eachExtent(at, p, func(part []byte, off int64) error {
			n, err := s.file.WriteAt(part, off)
			written += n
			return err
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size, s.kept, s.err = at+int64(len(p)), s.kept+int64(written), broken
	s.reserved = s.kept // what was not written overwrote nothing
	s.wake()
}

// eachExtent calls do for the parts of p, which stands at offset at of the stream, with their offsets in the file.
func eachExtent(at int64, p []byte, do func(part []byte, off int64) error) error {
	for len(p) > 0 {
		off, room := at, headSize-at
		if at >= headSize {
			in := (at - headSize) % tailSize
			off, room = headSize+in, tailSize-in
		}
		part := p[:min(int64(len(p)), room)]
		if err := do(part, off); err != nil {
			return err
		}
		at, p = at+int64(len(part)), p[len(part):]
	}
	return nil
}

// end ends the stream. The writer calls it once.
func (s *spool) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if err := s.file.Close(); s.err == nil {
		s.err = err
	}
	s.wake()
}

func (s *spool) wake() {
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
}

// length returns how many bytes the stream has.
func (s *spool) length() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// growth returns a channel that is closed when there may be something to read at an offset, or the stream has ended; nil if that is so already.
func (s *spool) growth(at int64) (wait <-chan struct{}, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept > at || s.ended && s.size > at {
		return nil, false
	}
	if s.ended {
		return nil, true
	}
	if s.grown == nil {
		s.grown = make(chan struct{})
	}
	return s.grown, false
}

// failure returns the offset from which on the stream could not be kept, and why; nil if it was.
func (s *spool) failure() (from int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept, s.err
}

// unkept returns how many bytes from an offset on could not be kept, if nothing that follows was.
func (s *spool) unkept(at int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || s.kept > at {
		return 0
	}
	return max(s.size-at, 0)
}

// span returns the bytes that can be read at an offset: the first of them, which is beyond at if bytes were dropped, and how many follow.
func (s *spool) span(at int64) (from, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < min(s.kept, headSize) {
		return at, min(s.kept, headSize) - at
	}
	if from = max(at, s.reserved-tailSize); from < s.kept {
		return from, s.kept - from
	}
	if s.ended {
		return max(at, s.size), 0
	}
	return at, 0 // what could not be kept is counted once, at the end
}

// errDropped is the error of readers once the file was removed.
var errDropped = errors.New("the output was dropped")

// drop removes the file of a stream that has ended. Readers that have it open fail, too: otherwise they would keep it on disk.
func (s *spool) drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return nil
	}
	s.dropped = true
	return errors.Join(statedir.WriteFile(s.path, nil, 0o600), os.Remove(s.path))
}

func (s *spool) isDropped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// disk is how many bytes the file has.
func (s *spool) disk() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return 0
	}
	return min(s.kept, headSize+tailSize)
}

// reader reads a spool by offset, through a descriptor of its own.
type reader struct {
	s    *spool
	file *os.File
}

// open fails with errDropped once the file was removed.
func (s *spool) open() (*reader, error) {
	f, err := statedir.OpenFile(s.path, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errDropped
	}
	if err != nil {
		return nil, err
	}
	return &reader{s, f}, nil
}

// read reads into p at an offset of the stream. from is beyond at if the bytes between them were dropped. n is 0 if there is nothing at from
// yet.
func (r *reader) read(p []byte, at int64) (from int64, n int, err error) {
	for {
		from, avail := r.s.span(at)
		if avail == 0 {
			return from, 0, nil
		}
		part := p[:min(int64(len(p)), avail)]
		if from < headSize {
			part = part[:min(int64(len(part)), headSize-from)]
		}
		err = eachExtent(from, part, func(part []byte, off int64) error {
			_, err := r.file.ReadAt(part, off)
			return err
		})
		if r.s.isDropped() {
			return at, 0, errDropped
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return at, 0, err
		}
		if still, _ := r.s.span(from); still == from {
			return from, len(part), nil
		} // else the writer overtook this read
	}
}

func (r *reader) Close() error { return r.file.Close() }
