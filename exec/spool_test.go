package exec

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// pattern is a stream whose bytes depend on their offset.
func pattern(from, n int64) []byte {
	p := make([]byte, n)
	for i := range p {
		at := from + int64(i)
		p[i] = byte(at>>16) ^ byte(at>>8) ^ byte(at)
	}
	return p
}

func testSpool(t *testing.T) *spool {
	t.Helper()
	s, err := newSpool(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readAll reads a spool from an offset on. It checks each byte, and returns how many it got and how many were dropped.
func readAll(t *testing.T, s *spool, at int64) (got, dropped int64) {
	t.Helper()
	r, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 100_003)
	for {
		from, n, err := r.read(buf, at)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return got, dropped
		}
		if !bytes.Equal(buf[:n], pattern(from, int64(n))) {
			t.Fatalf("other bytes at %d", from)
		}
		dropped += from - at
		got += int64(n)
		at = from + int64(n)
	}
}

func TestSpoolKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, from, got, dropped int64 }{
		{0, 0, 0, 0}, {5, 0, 5, 0}, {5, 3, 2, 0}, {headSize, 0, headSize, 0}, {headSize + 1, headSize, 1, 0},
		{headSize + tailSize, 0, headSize + tailSize, 0}, {headSize + tailSize + 1, 0, headSize + tailSize, 1},
		{70 << 20, 0, headSize + tailSize, 54 << 20}, {70 << 20, 10 << 20, tailSize, 48 << 20}, {70 << 20, 69 << 20, 1 << 20, 0}, {70 << 20, 70 << 20, 0, 0},
	} {
		s := testSpool(t)
		s.fill(bytes.NewReader(pattern(0, c.size)))
		if got, dropped := readAll(t, s, c.from); got != c.got || dropped != c.dropped {
			t.Errorf("%d bytes from %d: %d, dropped %d; want %d, %d", c.size, c.from, got, dropped, c.got, c.dropped)
		}
	}
}

// TestSpoolReaderIsOvertaken reads while the writer overwrites what is read: no byte is wrong, and every byte is received or counted.
func TestSpoolReaderIsOvertaken(t *testing.T) {
	t.Parallel()
	s := testSpool(t)
	const size = 100 << 20
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := int64(0); at < size; at += 64 << 10 {
			s.append(pattern(at, 64<<10))
		}
		s.end()
	}()
	var got, dropped, at int64
	for ended := false; !ended; {
		var wait <-chan struct{}
		if wait, ended = s.growth(at); wait != nil {
			<-wait
		}
		n, lost := readAll(t, s, at)
		got, dropped, at = got+n, dropped+lost, at+n+lost
	}
	<-done
	if got+dropped != size || got < headSize+tailSize {
		t.Errorf("got %d and %d dropped of %d", got, dropped, size)
	}
}

// brokenReader ends with an error, as a pipe whose deadline has passed.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("deadline") }

// TestSpoolOnFullDisk fills a spool whose file takes no data.
func TestSpoolOnFullDisk(t *testing.T) {
	t.Parallel()
	s := testSpool(t)
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	_ = s.file.Close()
	s.file = full
	s.fill(io.MultiReader(bytes.NewReader(pattern(0, 1<<20)), brokenReader{}))
	if s.length() != 1<<20 {
		t.Errorf("the writer stopped at %d bytes", s.length())
	}
	r, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, err := r.read(make([]byte, 10), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the reader got %v", err)
	}
}
