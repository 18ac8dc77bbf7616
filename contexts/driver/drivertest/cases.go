package drivertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/otiai10/copy"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

func keepsEverything(t *testing.T, d driver.Driver) {
	src := layer(t)
	m := create(t, d, src)
	compare(t, snapshot(t, m.Folder), snapshot(t, src))
	got, want := lstat(t, m.Folder, "/"), lstat(t, src, "/")
	if got.Mode != want.Mode || got.MtimeNs != want.MtimeNs {
		t.Errorf("the root has mode %o and mtime %d, want %o and %d", got.Mode, got.MtimeNs, want.Mode, want.MtimeNs)
	}
}

// likeAnIndependentCopier compares contexts of random layers with copies that otiai10/copy
// made of them. Neither the copies nor the comparison use anything of rootfs.
func likeAnIndependentCopier(t *testing.T, d driver.Driver) {
	for seed := range uint64(2) {
		src := randomLayer(t, rand.New(rand.NewPCG(seed, 0)))
		m, reference := create(t, d, src), filepath.Join(t.TempDir(), "copy")
		must(t, copy.Copy(src, reference, copy.Options{PreserveTimes: true}))
		want := listing(t, reference)
		if len(want) < 50 {
			t.Fatalf("the layer of seed %d has only %d entries", seed, len(want))
		}
		if diff := cmp.Diff(want, listing(t, m.Folder)); diff != "" {
			t.Errorf("seed %d: the context differs from the copy (-copy +context):\n%s", seed, diff)
		}
	}
}

// randomLayer makes a tree of about a hundred entries.
func randomLayer(t *testing.T, r *rand.Rand) string {
	t.Helper()
	dirs := []string{t.TempDir()}
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for i := range 60 + r.IntN(60) {
		name := fmt.Sprintf("%s%d", pick("f", "Ünï cöde ", ".hidden", strings.Repeat("long", 50)), i)
		if runtime.GOOS == "linux" {
			name += pick("", "", "\n", "\xff", "\\")
		}
		p := filepath.Join(pick(dirs...), name)
		switch kind := r.IntN(10); {
		case kind < 3:
			must(t, os.Mkdir(p, 0o755))
			dirs = append(dirs, p)
		case kind < 4:
			must(t, os.Symlink(pick("f0", "../f1", "/nowhere", "."), p))
		default:
			content := make([]byte, r.IntN(1<<r.IntN(18)+1))
			for i := range content {
				content[i] = byte(r.Uint32())
			}
			must(t, os.WriteFile(p, content, 0o600))
			if r.IntN(4) == 0 { // a hole at the end
				must(t, os.Truncate(p, int64(len(content)+r.IntN(1<<20))))
			}
			must(t, os.Chmod(p, []os.FileMode{0o600, 0o644, 0o755, 0o444, 0o640}[r.IntN(5)]))
			then := time.Unix(r.Int64N(2_000_000_000), r.Int64N(1_000_000_000))
			must(t, os.Chtimes(p, then, then))
		}
	}
	for _, p := range slices.Backward(dirs) { // what was made in them has changed their times
		then := time.Unix(r.Int64N(2_000_000_000), r.Int64N(1_000_000_000))
		must(t, errors.Join(os.Chmod(p, []os.FileMode{0o755, 0o700, 0o750}[r.IntN(3)]), os.Chtimes(p, then, then)))
	}
	return dirs[0]
}

// listing describes the entries of a tree: what otiai10/copy keeps, which is neither the times of links to the ns nor hard links.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(p)
		must(t, err)
		text := info.Mode().String()
		switch {
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			must(t, err)
			text += " -> " + target
		case e.Type().IsRegular():
			data, err := os.ReadFile(p)
			must(t, err)
			text += fmt.Sprintf(" %d bytes %x", len(data), sha256.Sum256(data))
			fallthrough
		default:
			text += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		}
		out[strings.TrimPrefix(p, dir)] = text
		return nil
	}))
	return out
}

func leavesTheLayerAlone(t *testing.T, d driver.Driver) {
	src := layer(t)
	before := snapshot(t, src)
	m := create(t, d, src)
	change(t, m.Folder)
	compare(t, snapshot(t, src), before)
}

func emptyLayer(t *testing.T, d driver.Driver) {
	m := create(t, d, t.TempDir())
	if n := len(snapshot(t, m.Folder)); n != 0 {
		t.Errorf("%d entries came from nothing", n)
	}
}

func contextsAreApart(t *testing.T, d driver.Driver) {
	src := layer(t)
	before := snapshot(t, src)
	one := create(t, d, src)
	must(t, os.WriteFile(one.in("a/plain"), []byte("changed, and longer than before"), 0o644))
	must(t, os.Remove(one.in("many/7")))
	two := create(t, d, src)
	compare(t, snapshot(t, two.Folder), before)
	compare(t, snapshot(t, src), before)
	must(t, os.WriteFile(two.in("a/plain"), []byte("two"), 0o644))
	if data, err := os.ReadFile(one.in("a/b/hard2")); err != nil || string(data) != "changed, and longer than before" {
		t.Errorf("the first context holds %q, %v", data, err)
	}
}

// change does to dir, a tree as layer makes it, everything that a context may have to keep.
func change(t *testing.T, dir string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	// A directory that is deleted and made anew shows nothing of what it held.
	must(t, os.RemoveAll(in("a/b")))
	must(t, os.Mkdir(in("a/b"), 0o700))
	must(t, os.WriteFile(in("a/b/new"), []byte("new"), 0o640))
	// A file where a directory was, and a directory where a file was.
	must(t, os.Chmod(in("readonly"), 0o755))
	must(t, os.RemoveAll(in("readonly")))
	must(t, os.WriteFile(in("readonly"), []byte("now a file"), 0o600))
	must(t, os.Remove(in("a/none")))
	must(t, os.MkdirAll(in("a/none/deep/er"), 0o755))
	// A directory is renamed with all that it holds, twice, into another, as clients do it.
	root := openRoot(t, dir)
	must(t, root.Rename("many", "moved"))
	must(t, root.Rename("moved", "a/moved"))
	must(t, root.Close())
	must(t, os.Remove(in("a/moved/3")))
	must(t, os.Mkdir(in("many"), 0o755))
	must(t, os.WriteFile(in("many/3"), []byte("another 3"), 0o644))
	// A link is replaced, a file shortened and one given other rights.
	must(t, os.Remove(in("dangling")))
	must(t, os.Symlink("a/plain", in("dangling")))
	must(t, os.Truncate(in("a/run.sh"), 3))
	must(t, os.Chmod(in("a/.hidden"), 0o400))
	must(t, os.Rename(in("outside"), in("a/outside")))
}

// changes compares a changed context with a plain tree that was changed alike, now and after a restart.
func changes(t *testing.T, d driver.Driver) {
	plain, m := layer(t), create(t, d, layer(t))
	change(t, plain)
	change(t, m.Folder)
	got := snapshot(t, m.Folder)
	compare(t, withoutTimes(got), withoutTimes(snapshot(t, plain)))
	m.again()
	compare(t, snapshot(t, m.Folder), got)
}

// sameFileAfterItsFirstWrite is what git's index lives on.
func sameFileAfterItsFirstWrite(t *testing.T, d driver.Driver, differs []Difference) {
	sameFileAfterItsFirstWriteOf(t, create(t, d, layer(t)), differs)
}

func sameFileAfterItsFirstWriteOf(t *testing.T, m *made, differs []Difference) {
	t.Helper()
	kept := !slices.Contains(differs, InodesChange)
	before := lstat(t, m.Folder, "a/run.sh")
	f, err := os.OpenFile(m.in("a/run.sh"), os.O_RDWR, 0)
	must(t, err)
	opened := lstat(t, m.Folder, "a/run.sh")
	if (kept && opened.Ino != before.Ino) || opened.Dev != before.Dev || opened.MtimeNs != before.MtimeNs {
		t.Errorf("opened for writing it is %d:%d of %d, before %d:%d of %d",
			opened.Dev, opened.Ino, opened.MtimeNs, before.Dev, before.Ino, before.MtimeNs)
	}
	_, err = f.WriteString("written")
	must(t, err)
	must(t, f.Close())
	written := lstat(t, m.Folder, "a/run.sh")
	if (kept && written.Ino != before.Ino) || written.Dev != before.Dev || written.MtimeNs <= before.MtimeNs {
		t.Errorf("written it is %d:%d of %d, before %d:%d of %d",
			written.Dev, written.Ino, written.MtimeNs, before.Dev, before.Ino, before.MtimeNs)
	}
	m.again()
	later := lstat(t, m.Folder, "a/run.sh")
	if same := later.Ino == before.Ino; same != kept || later.MtimeNs != written.MtimeNs {
		t.Errorf("after a restart it is %d of %d, before %d of %d", later.Ino, later.MtimeNs, before.Ino, written.MtimeNs)
	}
}

// handleFromBeforeTheFirstWrite checks that a handle opened before the first write sees that write.
func handleFromBeforeTheFirstWrite(t *testing.T, d driver.Driver) {
	m := create(t, d, layer(t))
	before, err := os.Open(m.in("a/plain"))
	must(t, err)
	defer func() { must(t, before.Close()) }()
	must(t, os.WriteFile(m.in("a/b/hard2"), []byte("written"), 0o644))
	buf := make([]byte, 100)
	if n, _ := before.ReadAt(buf, 0); string(buf[:n]) != "written" {
		t.Errorf("the older handle reads %q", buf[:n])
	}
	if st, err := before.Stat(); err != nil || st.Size() != int64(len("written")) {
		t.Errorf("the older handle has %v, %v", st, err)
	}
}

func hardLinks(t *testing.T, d driver.Driver) {
	m := create(t, d, layer(t))
	must(t, os.WriteFile(m.in("many/hard1"), []byte("through one name"), 0o644))
	must(t, os.Link(m.in("a/b/hard2"), m.in("hard3")))
	must(t, os.Remove(m.in("many/hard1")))
	m.again()
	for _, name := range []string{"a/plain", "a/b/hard2", "hard3"} {
		data, err := os.ReadFile(m.in(name))
		must(t, err)
		if st := lstat(t, m.Folder, name); string(data) != "through one name" || st.Nlink != 3 || st.Ino != lstat(t, m.Folder, "a/plain").Ino {
			t.Errorf("%s holds %q, has %d names and inode %d", name, data, st.Nlink, st.Ino)
		}
	}
}

// deleteAndMakeAnew is a context of the same layer at the place of a deleted one.
func deleteAndMakeAnew(t *testing.T, d driver.Driver) {
	src := layer(t)
	m := create(t, d, src)
	change(t, m.Folder)
	m.unmount()
	dst := m.Folder
	if _, ok := d.(driver.Mounter); ok {
		dst = m.State
	}
	removeAll(t, dst)
	must(t, os.Mkdir(dst, 0o755))
	must(t, d.Prepare(context.Background(), src, dst, nil))
	m.mount()
	compare(t, snapshot(t, m.Folder), snapshot(t, src))
}

func stopsWithItsContext(t *testing.T, d driver.Driver) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := d.Prepare(ctx, layer(t), t.TempDir(), nil)
	if fserr.CodeOf(err) != fserr.ECANCELED {
		t.Errorf("got %v, want ECANCELED", err)
	}
}

// countsProgress expects of a Mounter, which makes no files, that it says so.
func countsProgress(t *testing.T, d driver.Driver) {
	last, told := driver.Progress{}, 0
	must(t, d.Prepare(context.Background(), layer(t), t.TempDir(), func(p driver.Progress) {
		if p.Files < last.Files || p.Bytes < last.Bytes {
			t.Errorf("progress went from %+v to %+v", last, p)
		}
		last = p
		told++
	}))
	if _, ok := d.(driver.Mounter); ok {
		if told == 0 || last != (driver.Progress{}) {
			t.Errorf("progress was told %d times and ended at %+v", told, last)
		}
		return
	}
	if last.Files < 60 || last.Bytes < 100 {
		t.Errorf("progress ended at %+v", last)
	}
}

func check(t *testing.T, d driver.Driver) {
	dir := t.TempDir()
	must(t, d.Check(context.Background(), dir))
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("a check left %v", left)
	}
	if d.Check(context.Background(), filepath.Join(dir, "missing")) == nil {
		t.Error("a missing directory passed the check")
	}
}

func namesItself(t *testing.T, d driver.Driver) {
	if d.Name() == "" {
		t.Error("a driver without name cannot be recorded")
	}
}

func lstat(t *testing.T, dir, name string) rootfs.Stat {
	t.Helper()
	root := openRoot(t, dir)
	defer func() { must(t, root.Close()) }()
	st, err := root.Lstat(name)
	must(t, err)
	return st
}
