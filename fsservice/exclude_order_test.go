package fsservice_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// staged is a root that shows the order of two operations on the file f. The one that opens it first stops in the middle of its
// content until resume is closed.
type staged struct {
	rootfs.Root
	opened                atomic.Int32
	half, arrived, resume chan struct{}
	// early is closed when the second touches content before resume is closed.
	early   chan struct{}
	resumed atomic.Bool
}

func (s *staged) OpenFile(name string, flags rootfs.Flags, mode uint32) (rootfs.File, error) {
	f, err := s.Root.OpenFile(name, flags, mode)
	if err != nil || name != "/f" {
		return f, err
	}
	return s.stage(f), nil
}

func (s *staged) OpenStat(name string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	f, st, err := s.Root.OpenStat(name, flags)
	if err != nil || name != "/f" {
		return f, st, err
	}
	return s.stage(f), st, nil
}

func (s *staged) stage(f rootfs.File) rootfs.File {
	turn := s.opened.Add(1)
	if turn == 2 {
		close(s.arrived)
	}
	return &stagedFile{File: f, s: s, turn: turn}
}

// stagedFile is f as the first or the second has it.
type stagedFile struct {
	rootfs.File
	s    *staged
	turn int32
	uses int
}

func (f *stagedFile) use() {
	f.uses++
	switch {
	case f.turn == 1 && f.uses == 2:
		close(f.s.half)
		<-f.s.resume
	case f.turn == 2 && f.uses == 1 && !f.s.resumed.Load():
		close(f.s.early)
	}
}

func (f *stagedFile) Truncate(size int64) error               { f.use(); return f.File.Truncate(size) }
func (f *stagedFile) Read(b []byte) (int, error)              { f.use(); return f.File.Read(b) }
func (f *stagedFile) ReadAt(b []byte, off int64) (int, error) { f.use(); return f.File.ReadAt(b, off) }
func (f *stagedFile) Write(b []byte) (int, error)             { f.use(); return f.File.Write(b) }
func (f *stagedFile) WriteAt(b []byte, off int64) (int, error) {
	f.use()
	return f.File.WriteAt(b, off)
}

// TestWholeReadsAndWritesWait stops one operation in its middle, and starts another.
// CopyFile takes no root but rootfs's own; TestWholeReadsAndWritesExcludeEachOther has it.
func TestWholeReadsAndWritesWait(t *testing.T) {
	t.Parallel()
	write := func(w *world) error { return w.writeWhole(w.as("a"), 1) }
	read := func(w *world) error { _, err := w.readWhole(w.as("a")); return err }
	truncate := func(w *world) error { return do(w.client.Truncate, &ctxfsv1.TruncateRequest{Path: "/f"})(w.as("a")) }
	for _, c := range []struct {
		name          string
		first, second func(*world) error
		together      bool
	}{
		{"readFile during writeFile", write, read, false},
		{"writeFile during readFile", read, write, false},
		{"writeFile during writeFile", write, write, false},
		{"truncate during readFile", read, truncate, false},
		{"readFile during readFile", read, read, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := newStagedWorld(t)
			first := async(w, c.first)
			select {
			case <-s.half:
			case err := <-first:
				t.Fatalf("the first ended without stopping: %v", err)
			}
			second := async(w, c.second)
			select {
			case <-s.arrived:
			case <-s.early:
			}
			if c.together {
				<-s.early
			} else if s.goesOn() {
				t.Error("the second went on while the first was in its middle")
			}
			s.resumed.Store(true)
			close(s.resume)
			w.must(<-first)
			w.must(<-second)
		})
	}
}

// goesOn reports whether the second reaches the content. It waits for that.
func (s *staged) goesOn() bool {
	for range 100_000 {
		runtime.Gosched()
	}
	select {
	case <-s.early:
		return true
	default:
		return false
	}
}

// async starts an operation and returns where its error comes.
func async(w *world, op func(*world) error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- op(w) }()
	return done
}

func newStagedWorld(t *testing.T) (*world, *staged) {
	t.Helper()
	w := newWorld(t)
	w.put("f", string(version(0)))
	s := &staged{
		Root: w.gate.roots["ctx_a"], half: make(chan struct{}), arrived: make(chan struct{}),
		resume: make(chan struct{}), early: make(chan struct{}),
	}
	w.gate.roots["ctx_a"] = s
	return w, s
}

// TestWriterWaitsForNoOtherFile stops a write in its middle. Another panel, and the same one, write 1,000 other files meanwhile.
func TestWriterWaitsForNoOtherFile(t *testing.T) {
	t.Parallel()
	w, s := newStagedWorld(t)
	first := async(w, func(w *world) error { return w.writeWhole(w.as("a"), 1) })
	<-s.half
	for _, who := range []string{"a", "b"} {
		ctx, cancel := context.WithTimeout(w.as(who), time.Minute)
		for n := range 1000 {
			req := &ctxfsv1.WriteFileRequest{Path: fmt.Sprint("/", n), Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte("x")}}
			_, created := w.client.WriteFile(ctx, req)
			if _, err := w.client.WriteFile(ctx, req); err != nil || created != nil {
				t.Errorf("%s/%d: %v, %v", who, n, created, err)
				break
			}
		}
		cancel()
	}
	s.resumed.Store(true)
	close(s.resume)
	w.must(<-first)
}
