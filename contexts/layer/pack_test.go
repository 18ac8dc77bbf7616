//go:build unix

package layer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// packed builds a packed layer, and returns the folder that was made with it.
func (b *bench) packed() (*Layer, string) {
	b.t.Helper()
	folder := filepath.Join(b.t.TempDir(), "folder")
	must(b.t, os.Mkdir(folder, 0o755))
	l := b.build(func(o *BuildOptions) { o.Folder = folder })
	if !b.Packed(l.Digest) {
		b.t.Fatal("the layer has a tree")
	}
	return l, folder
}

// complete writes a layer's tree, and calls step on the way.
func (b *bench) complete(l *Layer, step func(string)) error {
	staging, err := os.MkdirTemp(b.layers, "staged-")
	must(b.t, err)
	return b.Complete(b.t.Context(), l, staging, UnpackOptions{Workers: 3}, step)
}

func noStep(string) {}

// contents describes everything below dir: types, modes, sizes, mtimes, content, targets, and which names are one file.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	var seen []fs.FileInfo
	var names []string
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(p)
		must(t, err)
		rel, err := filepath.Rel(dir, p)
		must(t, err)
		text := fmt.Sprint(st.Mode(), st.ModTime().UnixNano())
		switch {
		case st.Mode().IsRegular():
			data, err := os.ReadFile(p)
			must(t, err)
			text += fmt.Sprintf(" %d %x", st.Size(), sha256.Sum256(data))
		case st.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(p)
			must(t, err)
			text += " " + target
		}
		for i, other := range seen {
			if st.Mode().IsRegular() && os.SameFile(other, st) {
				text += " is " + names[i]
			}
		}
		seen, names = append(seen, st), append(names, rel)
		out[rel] = text
		return nil
	}))
	return out
}

// variety makes files of all kinds and sizes.
func (b *bench) variety() {
	long := time.Unix(1_600_000_000, 123_456_789)
	b.write("empty", "")
	b.write("zeros", string(make([]byte, 5000)))
	b.write("large", strings.Repeat("0123456789abcdef", 100_000)+string(make([]byte, 2<<20))+"end")
	b.write("large zeros", string(make([]byte, 3<<20)))
	b.write("buffer", strings.Repeat("x", packSmall))
	for i := range 200 {
		b.write(fmt.Sprintf("many/%d/f", i), strings.Repeat(fmt.Sprint(i), 3000))
	}
	b.write("dir/below", "2")
	b.write("not utf8 \xff", "3")
	must(b.t, os.Symlink("dir/below", b.in("link")))
	must(b.t, os.Symlink("/outside", b.in("dir/far")))
	must(b.t, os.Link(b.in("large"), b.in("dir/large too")))
	for name, mode := range map[string]os.FileMode{"empty": 0o400, "zeros": 0o444, "buffer": 0o755, "large": 0o600, "many/3": 0o500} {
		must(b.t, os.Chmod(b.in(name), mode))
		must(b.t, os.Chtimes(b.in(name), long, long))
	}
	must(b.t, os.Chtimes(b.in("many"), long, long))
}

func TestPackedLayerIsTheSameTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.variety()
	want := contents(t, b.build(nil).Tree)
	if len(want) < 400 {
		t.Fatalf("only %d entries", len(want))
	}
	again := &bench{t: t, src: b.src, layers: t.TempDir()}
	again.Store = New(again.layers, nil)
	l, folder := again.packed()
	if diff := cmp.Diff(want, contents(t, folder)); diff != "" {
		t.Errorf("the folder: %s", diff)
	}
	second := filepath.Join(t.TempDir(), "second")
	must(t, os.Mkdir(second, 0o755))
	must(t, again.Unpack(t.Context(), l, second, UnpackOptions{Workers: 2}))
	if diff := cmp.Diff(want, contents(t, second)); diff != "" {
		t.Errorf("a further folder: %s", diff)
	}
	must(t, again.complete(l, noStep))
	if diff := cmp.Diff(want, contents(t, l.Tree)); diff != "" {
		t.Errorf("the tree: %s", diff)
	}
	if entries, err := os.ReadDir(l.Dir); err != nil || len(entries) != 2 {
		t.Errorf("the layer has %v, want the tree and the manifest; %v", entries, err)
	}
	if err := again.Unpack(t.Context(), l, second, UnpackOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to unpack what is no longer packed: %v", err)
	}
	if !again.HasTree(seed.Scope{}) {
		t.Error("the next layer would share nothing")
	}
}

// A pack keeps the holes of large files.
func TestPackTakesNoSpaceForZeros(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f, err := os.Create(b.in("sparse"))
	must(t, err)
	must(t, errors.Join(f.Truncate(200<<20), f.Close()))
	l, _ := b.packed()
	must(t, b.complete(l, func(step string) {
		if step != "unpacked" {
			return
		}
		if used := usedBy(t, filepath.Join(l.Dir, packName)); used > 4<<20 {
			t.Errorf("the pack takes %d bytes", used)
		}
	}))
	if used := usedBy(t, filepath.Join(l.Tree, "app/sparse")); used > 1<<20 {
		t.Errorf("the file takes %d bytes", used)
	}
}

// What the layer has of a file that keeps changing is what the context has.
func TestPackOfWhatChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("busy", "0")
	for i := range 100 {
		b.write(fmt.Sprint("other", i), "1")
	}
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				if err := os.WriteFile(b.in("busy"), bytes.Repeat([]byte{byte('a' + i%26)}, i%9000), 0o644); err != nil {
					t.Error(err)
				}
			}
		}
	})
	l, folder := b.packed()
	close(stop)
	writer.Wait()
	if l.Manifest.Holds(b.scan()) {
		t.Error("the layer counts as current, though a file changed")
	}
	want := contents(t, folder)
	must(t, b.complete(l, noStep))
	if diff := cmp.Diff(want, contents(t, l.Tree)); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedPackIsRefused(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(l *Layer) error{
		"short pack":  func(l *Layer) error { return os.Truncate(filepath.Join(l.Dir, packName), 10) },
		"short index": func(l *Layer) error { return os.Truncate(filepath.Join(l.Dir, packIndexName), 10) },
		"other index": func(l *Layer) error {
			return os.WriteFile(filepath.Join(l.Dir, packIndexName), []byte("{}"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.variety()
			l, _ := b.packed()
			must(t, damage(l))
			if err := b.complete(l, noStep); fserr.CodeOf(err) != fserr.EIO {
				t.Errorf("%v, want EIO", err)
			}
			if exists(l.Tree) || !b.Packed(l.Digest) {
				t.Error("a part of the tree has its name")
			}
		})
	}
}

func TestCompleteMeetsOthers(t *testing.T) {
	t.Parallel()
	t.Run("another completes it first", func(t *testing.T) {
		b := newBench(t)
		l, folder := b.packed()
		want := contents(t, folder)
		must(t, b.complete(l, func(step string) {
			if step == "unpacked" {
				must(t, b.complete(l, noStep))
			}
		}))
		if diff := cmp.Diff(want, contents(t, l.Tree)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the layer is removed", func(t *testing.T) {
		b := newBench(t)
		l, _ := b.packed()
		must(t, b.complete(l, func(string) { must(t, os.RemoveAll(l.Dir)) }))
		if exists(l.Dir) {
			t.Error("the layer is back")
		}
	})
	t.Run("it is cancelled", func(t *testing.T) {
		b := newBench(t)
		b.variety()
		l, _ := b.packed()
		ctx, cancel := context.WithCancel(t.Context())
		staging := t.TempDir()
		err := b.Complete(ctx, l, staging, UnpackOptions{Progress: func(p tree.CopyProgress) {
			if p.Files == 3 {
				cancel()
			}
		}}, noStep)
		if !errors.Is(err, context.Canceled) || !b.Packed(l.Digest) {
			t.Errorf("%v, want it cancelled and packed", err)
		}
		must(t, b.complete(l, noStep))
	})
}

// A file of the pack is a name of its own: the next layer may share it.
func TestNextLayerSharesACompletedTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("same", "1")
	one, _ := b.packed()
	if b.HasTree(seed.Scope{}) {
		t.Error("a packed layer has a tree")
	}
	must(t, b.complete(one, noStep))
	b.write("new", "2")
	two := b.linked()
	if !shares(t, one, two, "same") {
		t.Error("the file was copied again")
	}
	if st, err := os.Stat(filepath.Join(two.Tree, "app/f")); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", st, err)
	}
}

func TestPackOfAnotherOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	b := newBench(t)
	b.Store = New(b.layers, &rootfs.Owner{UID: 12345, GID: 23456})
	l, folder := b.packed()
	must(t, b.complete(l, noStep))
	for _, p := range []string{filepath.Join(folder, "app/f"), l.Tree, filepath.Join(l.Tree, "app"), filepath.Join(l.Tree, "app/hard")} {
		if uid, gid := ownerOf(t, p); uid != 12345 || gid != 23456 {
			t.Errorf("%s is owned by %d:%d", p, uid, gid)
		}
	}
}

// The folder's marks are what its files have, so that a review need not read them.
func TestMarksOfAPackedLayersFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.variety()
	folder := filepath.Join(t.TempDir(), "folder")
	must(t, os.Mkdir(folder, 0o755))
	l := b.build(func(o *BuildOptions) {
		o.Folder = folder
		o.Repos = func() []seed.Repository {
			// clock: files must be older than a tick of the kernel's clock
			<-time.After(2 * seed.TickTime) // a mark that is younger than the clock's tick is dropped
			return nil
		}
	})
	root, err := rootfs.Open(folder, rootfs.Options{})
	must(t, err)
	defer func() { _ = root.Close() }()
	marked := 0
	for i, e := range l.Manifest.Entries {
		st, err := root.Lstat(e.Path)
		must(t, err)
		switch is := l.Marks[i].Is(st, &l.Manifest.Entries[i]); {
		case e.Type != rootfs.TypeFile:
		case is:
			marked++
		case st.Nlink == 1: // a further name changes the ctime
			t.Errorf("%s has no mark", e.Path)
		}
	}
	if marked < 200 {
		t.Errorf("%d files are marked", marked)
	}
	if again := b.build(nil); again.Marks != nil {
		t.Error("a layer without a folder has marks")
	}
}
