package batch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// world is a tree and the directory of its journal.
type world struct {
	dir, journal string
	root         rootfs.Root
}

func newWorld(t interface{ Fatal(args ...any) }, base string) world {
	w := world{dir: filepath.Join(base, "tree"), journal: filepath.Join(base, "journal")}
	for _, dir := range []string{w.dir, w.journal} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root, err := rootfs.Open(w.dir, rootfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.root = root
	return w
}

// run carries out a batch.
func (w world) run(steps []batch.Step, point func(string)) error {
	b, err := batch.New(context.Background(), w.root, steps)
	if err != nil {
		return err
	}
	b.Point = point
	if err := b.Stage(context.Background(), w.journal, false); err != nil {
		return err
	}
	if _, err := b.Flip(); err != nil {
		return err
	}
	return b.Clean(context.Background())
}

// tree lists what is in a directory: types, modes, contents, targets.
func (w world) tree() string {
	var out strings.Builder
	err := filepath.Walk(w.dir, func(name string, st os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(w.dir, name)
		_, _ = fmt.Fprintf(&out, "%s %s", st.Mode(), rel)
		switch {
		case st.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			_, _ = fmt.Fprintf(&out, " -> %s %v", target, err)
		case st.Mode().IsRegular():
			text, err := os.ReadFile(name)
			_, _ = fmt.Fprintf(&out, " %q %v", text, err)
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		_, _ = fmt.Fprintln(&out, err)
	}
	return out.String()
}

// single carries out one step by the root's own calls.
func single(root rootfs.Root, s batch.Step) error {
	switch s.Kind {
	case batch.Write:
		return put(root, s.Path, s.Data, s.Mode, s.Exclusive)
	case batch.Edit:
		data, _, err := get(root, s.Path)
		if err != nil {
			return err
		}
		if data, err = s.Edit(data); err != nil {
			return err
		}
		f, err := root.OpenFile(s.Path, rootfs.O_WRONLY|rootfs.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return cmpErr(err, f.Close())
	case batch.Mkdir:
		if s.Recursive {
			_, err := root.MkdirAll(s.Path, s.Mode)
			return err
		}
		return root.Mkdir(s.Path, s.Mode)
	case batch.Remove:
		return drop(root, s)
	case batch.Rename:
		return root.Rename(s.Path, s.Dest)
	case batch.Copy:
		return duplicate(root, s)
	case batch.Symlink:
		return root.Symlink(s.Target, s.Path)
	case batch.Chmod:
		return root.Chmod(s.Path, s.Mode)
	}
	return fserr.EINVAL
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func put(root rootfs.Root, name string, data []byte, mode uint32, exclusive bool) error {
	flags := rootfs.O_WRONLY | rootfs.O_CREAT | rootfs.O_TRUNC
	if exclusive {
		flags |= rootfs.O_EXCL
	}
	f, err := root.OpenFile(name, flags, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return cmpErr(err, f.Close())
}

func get(root rootfs.Root, name string) ([]byte, rootfs.Stat, error) {
	f, st, err := root.OpenStat(name, rootfs.O_RDONLY)
	if err != nil {
		return nil, st, err
	}
	defer func() { _ = f.Close() }()
	if st.IsDir() {
		return nil, st, fserr.EISDIR
	}
	data, err := io.ReadAll(f)
	return data, st, err
}

func drop(root rootfs.Root, s batch.Step) (err error) {
	if s.Recursive {
		_, err = root.RemoveAll(context.Background(), s.Path)
	} else {
		err = root.Unlink(s.Path)
	}
	if s.Force && fserr.CodeOf(err) == fserr.ENOENT {
		return nil
	}
	return err
}

func duplicate(root rootfs.Root, s batch.Step) error {
	data, st, err := get(root, s.Path)
	if err != nil {
		return err
	}
	if to, err := root.Stat(s.Dest); err == nil && to.Ino == st.Ino && !s.Exclusive {
		return nil
	}
	if err := put(root, s.Dest, data, st.Perm(), s.Exclusive); err != nil {
		return err
	}
	return root.Chmod(s.Dest, st.Perm())
}

// names are the paths of random steps.
var names = []string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/f", "l", "l/a", "m", "./d/../a", "/b", "d/", "x/y/z"}

func anyStep(t *rapid.T) batch.Step {
	path := func(label string) string { return rapid.SampledFrom(names).Draw(t, label) }
	s := batch.Step{Kind: rapid.SampledFrom([]batch.Kind{
		batch.Write, batch.Write, batch.Edit, batch.Mkdir, batch.Remove, batch.Rename, batch.Rename, batch.Copy, batch.Symlink, batch.Chmod,
	}).Draw(t, "kind"), Path: path("path")}
	switch s.Kind {
	case batch.Write:
		s.Data, s.Mode = []byte(rapid.StringN(0, 4, 8).Draw(t, "data")), rapid.SampledFrom([]uint32{0o644, 0o600}).Draw(t, "mode")
		s.Exclusive = rapid.IntRange(0, 4).Draw(t, "exclusive") == 0
	case batch.Edit:
		s.Edit = func(old []byte) ([]byte, error) { return append([]byte("edited "), old...), nil }
	case batch.Mkdir:
		s.Mode, s.Recursive = 0o755, rapid.Bool().Draw(t, "recursive")
	case batch.Remove:
		s.Recursive, s.Force = rapid.Bool().Draw(t, "recursive"), rapid.Bool().Draw(t, "force")
	case batch.Rename, batch.Copy:
		s.Dest = path("dest")
		s.Exclusive = s.Kind == batch.Copy && rapid.IntRange(0, 4).Draw(t, "exclusive") == 0
	case batch.Symlink:
		s.Target = rapid.SampledFrom([]string{"d", "/d", "a", "../a", "missing", "../.."}).Draw(t, "target")
	case batch.Chmod:
		s.Mode = rapid.SampledFrom([]uint32{0o600, 0o755, 0o700}).Draw(t, "mode")
	}
	return s
}

// fill makes the tree that random batches begin with.
func (w world) fill(t interface{ Fatal(args ...any) }) {
	for _, s := range []batch.Step{
		{Kind: batch.Mkdir, Path: "d/e", Mode: 0o755, Recursive: true},
		{Kind: batch.Write, Path: "a", Data: []byte("one"), Mode: 0o644},
		{Kind: batch.Write, Path: "d/a", Data: []byte("two"), Mode: 0o600},
		{Kind: batch.Symlink, Path: "l", Target: "d"},
	} {
		if err := single(w.root, s); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBatchIsItsStepsOrNothing compares batches with their steps one by one: the same tree, or the same error and an untouched tree.
func TestBatchIsItsStepsOrNothing(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	count := 0
	rapid.Check(t, func(t *rapid.T) {
		count++
		compareSteps(t, filepath.Join(base, fmt.Sprint(count)), rapid.SliceOfN(rapid.Custom(anyStep), 1, 12).Draw(t, "steps"))
	})
}

// TestMkdirOverALinkThatLeadsNowhere compares what the random steps seldom do.
func TestMkdirOverALinkThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	for i, target := range []string{"missing", "missing/too", "../missing"} {
		compareSteps(t, filepath.Join(t.TempDir(), fmt.Sprint(i)), []batch.Step{
			{Kind: batch.Symlink, Path: "b", Target: target},
			{Kind: batch.Mkdir, Path: "b", Mode: 0o755, Recursive: true},
		})
	}
}

// compareSteps carries out steps as a batch in one tree, and one by one in another like it. It makes both below base.
func compareSteps(t rapid.TB, base string, steps []batch.Step) {
	t.Helper()
	var both [2]world
	for i := range both {
		dir := filepath.Join(base, fmt.Sprint(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		both[i] = newWorld(t, dir)
		both[i].fill(t)
		defer func() { _ = both[i].root.Close() }()
	}
	before := both[0].tree()
	got := both[0].run(steps, nil)
	if batch.Pending(both[0].journal) {
		t.Error("a journal is left")
	}
	for i, s := range steps {
		if err := single(both[1].root, s); err != nil {
			e, ok := errors.AsType[*fserr.Error](got)
			if !ok || e.Step != i+1 || e.Code != fserr.CodeOf(err) {
				t.Errorf("the batch fails with %v, its step %d alone with %v", got, i, err)
			}
			if diff := cmp.Diff(before, both[0].tree()); diff != "" {
				t.Errorf("a batch that failed changed the tree:\n%s", diff)
			}
			return
		}
	}
	if got != nil {
		t.Errorf("the batch fails with %v, its steps one by one do not", got)
	}
	if diff := cmp.Diff(both[1].tree(), both[0].tree()); diff != "" {
		t.Errorf("the batch makes another tree than its steps:\n%s", diff)
	}
}

func TestEditsOfABatchAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	defer func() { _ = w.root.Close() }()
	w.fill(t)
	grow := batch.Step{Kind: batch.Edit, Path: "a", Edit: func([]byte) ([]byte, error) { return make([]byte, 16<<20), nil }}
	_, err := batch.New(context.Background(), w.root, []batch.Step{grow, grow, grow, grow, grow})
	if e, ok := errors.AsType[*fserr.Error](err); !ok || e.Code != fserr.EFBIG || e.Step != 5 {
		t.Errorf("got %v, want EFBIG of the last step", err)
	}
}

func TestChangesOfABatchAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	defer func() { _ = w.root.Close() }()
	var steps []batch.Step
	for i := range 30 {
		steps = append(steps, batch.Step{Kind: batch.Mkdir, Path: fmt.Sprint(i) + strings.Repeat("/x", 1000), Mode: 0o755, Recursive: true})
	}
	_, err := batch.New(t.Context(), w.root, steps)
	if e, ok := errors.AsType[*fserr.Error](err); !ok || e.Code != fserr.EFBIG || e.Step == 0 {
		t.Errorf("got %v, want EFBIG of a step", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := batch.New(ctx, w.root, steps); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

// A program removes what the first step wrote, and puts something in the way of the second.
func TestBatchIsUndoneThoughAProgramRemovedWhatItWrote(t *testing.T) {
	t.Parallel()
	for _, removed := range []string{"src", "src/a"} {
		w := newWorld(t, t.TempDir())
		defer func() { _ = w.root.Close() }()
		inTheWay := func() error {
			return errors.Join(os.RemoveAll(filepath.Join(w.dir, removed)), os.WriteFile(filepath.Join(w.dir, "x"), nil, 0o600))
		}
		err := errors.Join(os.Mkdir(filepath.Join(w.dir, "src"), 0o755), os.WriteFile(filepath.Join(w.dir, "src/a"), []byte("old"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		steps := []batch.Step{{Kind: batch.Write, Path: "src/a", Data: []byte("new"), Mode: 0o644}, {Kind: batch.Mkdir, Path: "x", Mode: 0o755}}
		err = w.run(steps, func(phase string) {
			if phase == "done" {
				if err := inTheWay(); err != nil {
					t.Error(err)
				}
			}
		})
		if fserr.CodeOf(err) != fserr.EEXIST || errors.Is(err, batch.ErrBroken) {
			t.Errorf("%s removed: %v, want EEXIST of the second step", removed, err)
		}
		text, err := os.ReadFile(filepath.Join(w.dir, "src/a"))
		if removed == "src/a" && (err != nil || string(text) != "old") {
			t.Errorf("after the undo src/a holds %q, %v", text, err)
		}
	}
}

// Something is mounted below what a batch has replaced, so that it cannot be removed.
func TestLeftoversOfABatchAreNoDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	defer func() { _ = w.root.Close() }()
	if err := os.MkdirAll(filepath.Join(w.dir, "old/in"), 0o755); err != nil {
		t.Fatal(err)
	}
	at := ""
	err := w.run([]batch.Step{{Kind: batch.Remove, Path: "old", Recursive: true}}, func(phase string) {
		if phase == "finished" {
			found, err := filepath.Glob(filepath.Join(w.dir, ".ctxfs-tmp-*/1/in"))
			if err != nil || len(found) != 1 {
				t.Fatalf("hidden: %v, %v", found, err)
			}
			at = found[0]
			if err := unix.Mount("batch", at, "tmpfs", 0, "size=64k"); err != nil {
				t.Skip("not tested here: a mount needs root: ", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		}
	})
	if err == nil {
		t.Fatal("the batch removed a mount")
	}
	if err := batch.Recover(t.Context(), w.root, w.journal); !errors.Is(err, batch.ErrLeftovers) {
		t.Errorf("got %v, want ErrLeftovers", err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if err := batch.Recover(t.Context(), w.root, w.journal); err != nil || batch.Pending(w.journal) {
		t.Errorf("after the unmount: %v", err)
	}
}

// TestBrokenBatchKeepsNoDirectoryOpen has a batch whose second step fails, and whose first one cannot be undone.
func TestBrokenBatchKeepsNoDirectoryOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	defer func() { _ = w.root.Close() }()
	moved := filepath.Join(w.dir, "d/moved")
	if err := os.MkdirAll(filepath.Join(w.dir, "d/old"), 0o755); err != nil {
		t.Fatal(err)
	}
	steps := []batch.Step{{Kind: batch.Rename, Path: "d/old", Dest: "d/moved"}, {Kind: batch.Mkdir, Path: "d/taken", Mode: 0o755}}
	err := w.run(steps, func(phase string) {
		if _, missing := os.Lstat(moved); phase != "done" || missing != nil {
			return
		}
		if err := unix.Mount("batch", moved, "tmpfs", 0, "size=64k"); err != nil {
			t.Skip("not tested here: a mount needs root: ", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(moved, unix.MNT_DETACH) })
		if err := os.Mkdir(filepath.Join(w.dir, "d/taken"), 0o755); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, batch.ErrBroken) {
		t.Fatalf("got %v, want ErrBroken", err)
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, filepath.Dir(w.dir)+"/") && to != w.dir {
			t.Errorf("%s is open", to)
		}
	}
	if err := unix.Unmount(moved, 0); err != nil {
		t.Fatal(err)
	}
	if err := batch.Recover(t.Context(), w.root, w.journal); err != nil {
		t.Error(err)
	}
}

func TestNamesInADiffAreQuoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	defer func() { _ = w.root.Close() }()
	b, err := batch.New(context.Background(), w.root, []batch.Step{{Kind: batch.Write, Path: "a\n+++ b", Data: []byte("x\n"), Mode: 0o644}})
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := b.Diff(t.Context(), func(int64) error { return nil })
	if want := "diff --git a/\"a\\n+++ b\" b/\"a\\n+++ b\"\nnew file mode 100644\n--- /dev/null\n+++ b/\"a\\n+++ b\"\n@@ -0,0 +1 @@\n+x\n"; err != nil || string(text) != want {
		t.Errorf("got %v\n%q\nwant\n%q", err, text, want)
	}
}

// TestDiffReservesMemoryFirst compares a file that is large, for which there is no memory.
func TestDiffReservesMemoryFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	defer func() { _ = w.root.Close() }()
	const size = 1 << 20
	if err := os.WriteFile(filepath.Join(w.dir, "old"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := batch.New(t.Context(), w.root, []batch.Step{{Kind: batch.Write, Path: "old", Data: make([]byte, size)}})
	if err != nil {
		t.Fatal(err)
	}
	var asked int64
	_, _, err = b.Diff(t.Context(), func(bytes int64) error {
		asked = max(asked, bytes)
		return fserr.EAGAIN
	})
	if fserr.CodeOf(err) != fserr.EAGAIN || asked < 2*size {
		t.Errorf("%v, asked for %d bytes; want EAGAIN, and both contents", err, asked)
	}
}

// TestRenameResolvesBothParentsFirst compares the errors of a batch with those of rename(2).
func TestRenameResolvesBothParentsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	defer func() { _ = w.root.Close() }()
	if err := os.WriteFile(filepath.Join(w.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][2]string{{"missing", "file/a"}, {"file/a", "missing/a"}, {"missing", "missing/a"}, {"missing/a", "file/a"}, {"missing", "free"}} {
		err := w.run([]batch.Step{{Kind: batch.Rename, Path: paths[0], Dest: paths[1]}}, func(string) {})
		want := unix.Rename(filepath.Join(w.dir, paths[0]), filepath.Join(w.dir, paths[1]))
		if got := fserr.CodeOf(err); got != fserr.CodeOf(want) || got == 0 {
			t.Errorf("rename %q %q: %v, want %v", paths[0], paths[1], err, want)
		}
	}
}
