package search

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// usedBuffers holds another file's text in all that is not written.
type usedBuffers struct{ put int }

func (*usedBuffers) Get(n int) *[]byte {
	b := bytes.Repeat([]byte("needle\n"), n/7+100)[:n]
	return &b
}

func (p *usedBuffers) Put(*[]byte) { p.put++ }

// shrinking has every file shrink after it was opened.
type shrinking struct{ rootfs.Root }

func (r shrinking) OpenNoFollow(path string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	f, st, err := r.Root.OpenNoFollow(path, flags)
	st.Size += 1000
	return f, st, err
}

func TestSearchSeesOnlyWhatTheFileHolds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("other\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	pool := &usedBuffers{}
	for expr, want := range map[string]int64{"needle": 0, "lines$": 1, ".": 2} {
		compiled, err := compileGrep(expr, false, false)
		if err != nil {
			t.Fatal(err)
		}
		q := grepQuery{Searcher: New(pool, nil), maxSize: grepMemory, lines: lineMatcher{grepExpr: compiled}}
		for _, r := range []rootfs.Root{root, shrinking{root}} {
			var f grepFile
			if q.search(t.Context(), r, "f", &f); f.err != nil || f.matches != want || len(f.lines) != int(want) {
				t.Errorf("%q matches %d lines (%v), want %d", expr, f.matches, f.err, want)
			}
		}
	}
	if pool.put != 6 {
		t.Errorf("%d of 6 buffers came back", pool.put)
	}
}

// panicking has every file's search panic.
type panicking struct{ rootfs.Root }

func (panicking) OpenNoFollow(string, rootfs.Flags) (rootfs.File, rootfs.Stat, error) { panic("a bug") }

func TestAPanicInASearchIsThatFilesError(t *testing.T) {
	q := grepQuery{Searcher: New(nil, zap.NewNop())}
	b := newGrepFiles(make([]grepFile, 2))
	q.searchAll(t.Context(), panicking{}, b)
	<-b.done
	for _, f := range b.files {
		if fserr.CodeOf(f.err) != fserr.EIO {
			t.Errorf("got %v", f.err)
		}
	}
}
