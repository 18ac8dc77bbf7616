package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
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
			return got, dropped + from - at
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
		s.fill(bytes.NewReader(pattern(0, c.size)), neverFull)
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

// TestSpoolOnFullDisk has the file of a spool take no more data, within the head and within the tail.
func TestSpoolOnFullDisk(t *testing.T) {
	t.Parallel()
	const more = 1 << 20
	for _, c := range []struct{ kept, got int64 }{{0, 0}, {5, 5}, {headSize, headSize}, {headSize + tailSize, headSize + tailSize}, {30 << 20, headSize + tailSize}} {
		s := testSpool(t)
		for at := int64(0); at < c.kept; at += more {
			s.append(pattern(at, min(more, c.kept-at)))
		}
		full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Skip(err)
		}
		_ = s.file.Close()
		s.file = full
		s.append(pattern(c.kept, 64<<10))
		if got, dropped := readAll(t, s, 0); got != c.got || got+dropped != c.kept {
			t.Errorf("%d bytes on the disk, while the command runs: %d, dropped %d; want %d", c.kept, got, dropped, c.got)
		}
		if wait, ended := s.growth(c.kept); wait == nil || ended {
			t.Errorf("%d bytes on the disk: a reader does not wait for the end", c.kept)
		}
		s.fill(io.MultiReader(bytes.NewReader(pattern(c.kept+64<<10, more)), brokenReader{}), neverFull)
		if want := c.kept + 64<<10 + more; s.length() != want {
			t.Errorf("%d bytes on the disk: the writer stopped at %d bytes", c.kept, s.length())
		}
		if got, dropped := readAll(t, s, 0); got != c.got || got+dropped != s.length() {
			t.Errorf("%d bytes on the disk: %d, dropped %d of %d; want %d", c.kept, got, dropped, s.length(), c.got)
		}
		if from, err := s.failure(); from != c.kept || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d bytes on the disk: failed at %d with %v", c.kept, from, err)
		}
	}
}

// TestPresentOutputOnFullDisk reads the output so far of a process whose output the disk does not take any more.
func TestPresentOutputOnFullDisk(t *testing.T) {
	t.Parallel()
	p := &Process{spools: [2]*spool{testSpool(t), testSpool(t)}}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	s := p.spools[Stderr]
	s.append([]byte("kept"))
	_ = s.file.Close()
	s.file = full
	s.append([]byte("lost"))
	p.spools[Stdout].append([]byte("all"))
	var got []string
	err = p.Output(t.Context(), [2]int64{}, Present, func(o Output) error {
		got = append(got, fmt.Sprintf("%d %q at %d, dropped %d", o.Stream, o.Data, o.Offset, o.Dropped))
		return nil
	})
	want := []string{`0 "all" at 0, dropped 0`, `1 "kept" at 0, dropped 0`, `1 "" at 8, dropped 4`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// neverFull is of a stream without blocking readers.
func neverFull(int64) <-chan struct{} { return nil }

// TestReaderThatBeginsAnewIsNotTheLostOne has two readers. When the connection of one is lost, the process waits for that one.
func TestReaderThatBeginsAnewIsNotTheLostOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from  [2]int64
		waits bool
	}{
		"begins anew": {[2]int64{}, true}, "is far behind": {[2]int64{1 << 20}, true}, "continues": {[2]int64{99 << 20}, false},
	} {
		var f flow
		lost := f.enter([2]int64{})
		f.advance(lost, Stdout, 100<<20)
		other := f.enter(c.from)
		f.advance(other, Stdout, 200<<20)
		f.lose(lost, time.Hour)
		if waits := f.full(Stdout, 200<<20) != nil; waits != c.waits {
			t.Errorf("the other reader %s: the process waits: %v", name, waits)
		}
		f.end()
	}
}
