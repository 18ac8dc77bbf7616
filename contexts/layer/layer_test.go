package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is a workspace with one repository and a store beside it.
type bench struct {
	t      *testing.T
	src    seed.Source
	layers string
	*Store
}

func newBench(t *testing.T) *bench {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "app/.git"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "app/f"), []byte("1"), 0o640))
	must(t, os.Link(filepath.Join(dir, "app/f"), filepath.Join(dir, "app/hard")))
	root, err := rootfs.Open(dir, rootfs.Options{FollowMounts: true})
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	layers := t.TempDir()
	return &bench{t: t, src: seed.Source{Root: root, Dir: dir}, layers: layers, Store: New(layers, nil)}
}

func (b *bench) scan() *seed.Scan {
	b.t.Helper()
	s, err := seed.Walk(context.Background(), b.src, seed.Options{}, nil)
	must(b.t, err)
	return s
}

func (b *bench) build(change func(*BuildOptions)) *Layer {
	b.t.Helper()
	staging, err := os.MkdirTemp(b.layers, "staged-")
	must(b.t, err)
	opts := BuildOptions{Staging: staging, Workers: 2}
	if change != nil {
		change(&opts)
	}
	l, err := b.Build(context.Background(), b.src, b.scan(), opts)
	must(b.t, err)
	return l
}

func TestBuildMakesTheCurrentLayer(t *testing.T) {
	b := newBench(t)
	if l, err := b.Current(seed.Scope{}); l != nil || err != nil {
		t.Fatalf("got %+v, %v; want none", l, err)
	}
	l := b.build(nil)
	if !l.Manifest.Holds(b.scan()) {
		t.Error("a fresh layer does not hold")
	}
	st, err := os.Stat(filepath.Join(l.Tree, "app/hard"))
	must(t, err)
	other, err := os.Stat(filepath.Join(l.Tree, "app/f"))
	must(t, err)
	if !os.SameFile(st, other) || st.Mode().Perm() != 0o640 {
		t.Errorf("the copy has mode %s and is no hard link", st.Mode())
	}
	if _, err := os.Lstat(filepath.Join(l.Tree, "app/.git")); err == nil {
		t.Error(".git was copied")
	}
	again, err := New(b.layers, nil).Current(seed.Scope{})
	must(t, err)
	if again == nil || again.Digest != l.Digest || !again.Manifest.Holds(b.scan()) {
		t.Errorf("after a restart the current layer is %+v", again)
	}
}

func TestStaleLayerIsNotCurrent(t *testing.T) {
	b := newBench(t)
	l := b.build(nil)
	must(t, b.MarkStale(l))
	for _, s := range []*Store{b.Store, New(b.layers, nil)} {
		if cur, err := s.Current(seed.Scope{}); cur != nil || err != nil {
			t.Errorf("got %+v, %v; want none", cur, err)
		}
	}
}

// What appears between the scan and the copy is left to the next layer, and shows then.
func TestFileThatAppearsMeanwhile(t *testing.T) {
	b := newBench(t)
	scan := b.scan()
	must(t, os.WriteFile(filepath.Join(b.src.Dir, "app/late"), []byte("2"), 0o644))
	staging, err := os.MkdirTemp(b.layers, "staged-")
	must(t, err)
	l, err := b.Build(context.Background(), b.src, scan, BuildOptions{Staging: staging})
	must(t, err)
	if _, err := os.Lstat(filepath.Join(l.Tree, "app/late")); err == nil {
		t.Error("it was copied without having been scanned")
	}
	if l.Manifest.Holds(b.scan()) {
		t.Error("it went unseen")
	}
}

func TestUnfinishedLayerIsNoLayer(t *testing.T) {
	b := newBench(t)
	l := b.build(nil)
	must(t, os.WriteFile(l.ManifestFile, []byte("cut"), 0o600))
	if cur, err := New(b.layers, nil).Current(seed.Scope{}); cur != nil || err != nil {
		t.Errorf("got %+v, %v; want none", cur, err)
	}
}

func TestUnusedAndRemove(t *testing.T) {
	b := newBench(t)
	var all []*Layer
	for _, text := range []string{"1", "22", "333"} {
		must(t, os.WriteFile(filepath.Join(b.src.Dir, "app/f"), []byte(text), 0o644))
		all = append(all, b.build(nil))
	}
	unused, err := b.Unused(map[string]bool{all[1].Digest: true})
	must(t, err)
	if !slices.Equal(unused, []string{all[0].Digest}) {
		t.Errorf("%v are not used, want only the first", unused)
	}
	must(t, os.RemoveAll(b.Dir(unused[0])))
	for i, want := range []bool{false, true, true} {
		if exists(all[i].Dir) != want {
			t.Errorf("layer %d is there: %t, want %t", i, !want, want)
		}
	}
}

// TestLayersOfAnotherProcess has two processes make and remove layers in turn.
func TestLayersOfAnotherProcess(t *testing.T) {
	b := newBench(t)
	first, other := b.build(nil), New(b.layers, nil)
	if cur, err := other.Current(seed.Scope{}); err != nil || cur == nil || cur.Digest != first.Digest {
		t.Fatalf("current is %+v, %v", cur, err)
	}
	must(t, os.WriteFile(filepath.Join(b.src.Dir, "app/f"), []byte("22"), 0o644))
	last := b.build(nil)
	if unused, err := other.Unused(nil); err != nil || !slices.Equal(unused, []string{first.Digest}) {
		t.Errorf("%v are not used, %v, want only the first", unused, err)
	}
	must(t, os.RemoveAll(other.Dir(last.Digest)))
	if cur, err := b.Current(seed.Scope{}); err != nil || cur == nil || cur.Digest != first.Digest {
		t.Errorf("current is %+v, %v, though it was removed", cur, err)
	}
	must(t, other.MarkStale(first))
	must(t, b.MarkStale(first)) // each has loaded its own copy
	if cur, err := b.Current(seed.Scope{}); err != nil || cur != nil {
		t.Errorf("current is %+v, %v, though it is stale", cur, err)
	}
}

func TestSettleWaitsForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(age time.Duration) *seed.Scan {
			return &seed.Scan{Entries: []seed.Entry{{CtimeNs: time.Now().Add(-age).UnixNano()}}}
		}
		for age, want := range map[time.Duration]time.Duration{
			0: seed.TickTime, seed.TickTime / 2: seed.TickTime / 2, time.Hour: 0, -time.Hour: seed.TickTime,
		} {
			start := time.Now()
			must(t, Settle(context.Background(), at(age)))
			if got := time.Since(start); got != want {
				t.Errorf("a file %s old was waited for %s, want %s", age, got, want)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := Settle(ctx, at(0)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestUnreadableFileNamesTheRemedy(t *testing.T) {
	err := copyError(&fserr.Error{Op: "open", Path: "/app/f", Code: fserr.EACCES})
	if want := "make it readable to ctxfs, or add it to .contextignore"; fserr.CodeOf(err) != fserr.EACCES || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
