package review

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// counting is a context that counts the bytes that are read of its files: beside it, and while others are kept out.
type counting struct {
	rootfs.Root
	w    *world
	read *reads
}

type reads struct{ beside, inside atomic.Int64 }

type countedFile struct {
	rootfs.File
	of *atomic.Int64
}

func (r counting) OpenNoFollow(path string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	f, st, err := r.Root.OpenNoFollow(path, flags)
	of := &r.read.inside
	if r.w.beside {
		of = &r.read.beside
	}
	return countedFile{f, of}, st, err
}

func (f countedFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.of.Add(int64(n))
	return n, err
}

func (f countedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.of.Add(int64(n))
	return n, err
}

func (f countedFile) WithFD(fn func(fd int) error) error {
	return f.File.(interface{ WithFD(func(int) error) error }).WithFD(fn) //nolint:forcetypeassert // a file of Linux
}

func (w *world) counted() *reads {
	out := &reads{}
	w.through = func(r rootfs.Root) rootfs.Root { return counting{r, w, out} }
	return out
}

// sparse makes a file of a size in the context, with "data" at each offset. It skips the test if the file would take more space.
func (w *world) sparse(p string, size int64, at ...int64) {
	w.t.Helper()
	f, err := os.Create(filepath.Join(w.in(id), p))
	must(w.t, err)
	defer func() { must(w.t, f.Close()) }()
	err = f.Truncate(size)
	if errors.Is(err, syscall.EFBIG) {
		w.t.Skipf("the file system of %s has no files of %d bytes", w.dir, size)
	}
	must(w.t, err)
	for _, off := range at {
		_, err := f.WriteAt([]byte("data"), off)
		must(w.t, err)
	}
	info, err := f.Stat()
	must(w.t, err)
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Blocks*512 > 1<<20 {
		w.t.Skipf("the file system of %s has no sparse files", w.dir)
	}
	time.Sleep(30 * time.Millisecond) // clock: its ctime is settled then, as that of a file which nobody writes
}

const tebi = 1 << 40

func TestSparseFileIsReadByItsData(t *testing.T) {
	t.Parallel()
	manyAt := make([]int64, 64)
	for i := range manyAt {
		manyAt[i] = int64(i) * (tebi / 64)
	}
	for name, at := range map[string][]int64{"no data": nil, "data here and there": {0, tebi / 2, tebi - 4}, "many extents": manyAt} {
		w := newWorld(t, files{"a": "text\n"})
		w.sparse("huge", tebi, at...)
		read := w.counted()
		c := w.changes(Query{}).Changes
		if len(c) != 1 || c[0].Path != "huge" || c[0].After.Size != tebi || c[0].Content != TooLarge || c[0].Unstable {
			t.Fatalf("%s: the changes are %+v", name, c)
		}
		if n := read.beside.Load(); n > 256<<10+int64(len(at))*(64<<10) {
			t.Errorf("%s: %d bytes were read", name, n)
		}
		if n := read.inside.Load(); n > int64(len("text\n")) { // the small file alone
			t.Errorf("%s: %d bytes were read while others were kept out", name, n)
		}
		// A further look reads nothing.
		*read = reads{}
		again := w.changes(Query{}).Changes
		if n := read.beside.Load() + read.inside.Load(); n > 0 || again[0].ID != c[0].ID {
			t.Errorf("%s: a further look read %d bytes, and found %s, not %s", name, n, again[0].ID, c[0].ID)
		}
		// A change is seen.
		f, err := os.OpenFile(filepath.Join(w.in(id), "huge"), os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("x"), 700<<30)
		must(t, errors.Join(err, f.Close()))
		if now := w.changes(Query{}).Changes; now[0].ID == c[0].ID {
			t.Errorf("%s: the change of the file was not seen", name)
		}
	}
}

// TestSparseFileIsKeptWithItsHoles carries a sparse file through what puts contents into the store, and out of it.
func TestSparseFileIsKeptWithItsHoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "text\n"})
	w.sparse("huge", tebi, 0, tebi/2)
	read := w.counted()
	from, err := w.reviews.Checkpoint(t.Context(), id)
	must(t, err)
	_, err = w.reviews.Submit(t.Context(), id, "title", "", "panel")
	must(t, err)
	must(t, os.Remove(filepath.Join(w.in(id), "huge")))
	out, err := w.reviews.Record(t.Context(), from, "panel", "rm huge", func(Path) bool { return false })
	must(t, err)
	if out.Entry == 0 {
		t.Fatal("nothing was recorded")
	}
	kept := int64(0)
	must(t, filepath.WalkDir(w.in("state"), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			kept += st.Blocks * 512
		}
		return err
	}))
	if kept > 4<<20 || read.beside.Load() > 2<<20 || read.inside.Load() > largeContent {
		t.Errorf("the store takes %d bytes; %d were read beside the context, %d in it", kept, read.beside.Load(), read.inside.Load())
	}
}

// TestFileThatKeepsChangingIsUnstable has a program change a large file each time that it was read.
func TestFileThatKeepsChangingIsUnstable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "text\n"})
	must(t, os.WriteFile(filepath.Join(w.in(id), "large"), []byte(strings.Repeat("line\n", largeContent/5+1)), 0o600))
	tries := 0
	w.at("beside", func() { tries++ })
	w.through = func(r rootfs.Root) rootfs.Root {
		if !w.beside {
			must(t, os.Chtimes(filepath.Join(w.in(id), "large"), time.Now(), time.Now()))
		}
		return r
	}
	if c := w.changes(Query{}).Changes; len(c) != 1 || !c[0].Unstable || tries != besideTries {
		t.Errorf("after %d tries: %+v", tries, c[0])
	}
	w.through = nil
	if c := w.changes(Query{}).Changes; len(c) != 1 || c[0].Unstable || c[0].After.Hash == "" {
		t.Errorf("when nothing changes it: %+v", c[0])
	}
}

// TestListEndsAlthoughNewFilesAppear has a program make another large file each time that the list has read the last one.
func TestListEndsAlthoughNewFilesAppear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "text\n"})
	made := 0
	make1 := func() {
		made++
		w.sparse(fmt.Sprint("large", made), largeContent)
	}
	make1()
	w.at("beside", make1)
	unstable := 0
	for _, c := range w.changes(Query{}).Changes {
		if c.Unstable {
			unstable++
		}
	}
	if made != besideRounds+1 || unstable != 1 {
		t.Errorf("%d files were made, and %d are unstable", made, unstable)
	}
}

// TestLargeFileOfTheLayerThatIsNotReadIsUnstable has a program change, replace or remove another large file of the layer each time that a call has
// read the last one. The call leaves its context no more often than besideRounds, so that it does not read the last one.
func TestLargeFileOfTheLayerThatIsNotReadIsUnstable(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("line\n", largeContent/5+1)
	for name, change := range map[string]func(file string) error{
		"removed": os.Remove,
		"small":   func(file string) error { return os.WriteFile(file, []byte("text\n"), 0o600) },
		"large":   func(file string) error { return os.WriteFile(file, []byte(large+"more\n"), 0o600) },
		"a link":  func(file string) error { return errors.Join(os.Remove(file), os.Symlink("a", file)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeded := files{"a": "text\n"}
			for i := range besideRounds + 1 {
				seeded[fmt.Sprint("large", i)] = large + fmt.Sprintln(i)
			}
			w := newWorld(t, seeded)
			write(t, w.in(id), files{"a": "changed\n"})
			time.Sleep(30 * time.Millisecond) // clock: the files are settled then, so that the list marks those that are as in the layer
			w.changes(Query{})
			w.reviews.store.hashes.of, w.reviews.store.hashes.old = nil, nil // as if these were too many
			next := 0
			changed := func() {
				must(t, change(filepath.Join(w.in(id), fmt.Sprint("large", next))))
				next++
			}
			changed()
			w.at("beside", changed)
			unstable := map[Path]bool{}
			for _, c := range w.changes(Query{}).Changes {
				if c.Unstable {
					unstable[c.Path] = true
				}
				if c.RenamedFrom != "" || c.Kind == ModeChanged {
					t.Errorf("the change is %+v", c)
				}
			}
			last := Path(fmt.Sprint("large", besideRounds))
			if next != besideRounds+1 || len(unstable) != 1 || !unstable[last] {
				t.Errorf("after %d changes these are unstable: %v", next, unstable)
			}
			w.at("beside", func() {})
			for _, c := range w.changes(Query{}).Changes {
				if c.Unstable {
					t.Errorf("when no program changes it: %+v", c)
				}
			}
		})
	}
}

// TestLargeFileThatKeepsChangingIsNotKept has a program change a large file each time that a call has read it, to keep it.
func TestLargeFileThatKeepsChangingIsNotKept(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (w *world, settle func()) {
		w = newWorld(t, files{"a": "text\n"})
		large := filepath.Join(w.in(id), "large")
		must(t, os.WriteFile(large, []byte(strings.Repeat("line\n", largeContent/5+1)), 0o600))
		w.through = func(r rootfs.Root) rootfs.Root {
			if !w.beside {
				must(t, os.Chtimes(large, time.Now(), time.Now()))
			}
			return r
		}
		return w, func() { w.through = nil }
	}
	t.Run("checkpoint", func(t *testing.T) {
		w, settle := begin(t)
		from, err := w.reviews.Checkpoint(t.Context(), id)
		must(t, err)
		settle()
		write(t, w.in(id), files{"a": "changed\n"})
		out, err := w.reviews.Record(t.Context(), from, "panel", "edit", func(Path) bool { return false })
		must(t, err)
		e, err := w.reviews.journal.read(out.Entry, doneSuffix)
		if err != nil || len(e.Steps) != 1 || e.Steps[0].Path != "a" || len(out.LeftOut) != 1 || out.LeftOut[0] != "large" {
			t.Errorf("the entry is %+v (%v), without %s", e, err, out.LeftOut)
		}
	})
	t.Run("revision", func(t *testing.T) {
		w, settle := begin(t)
		l, err := w.reviews.Submit(t.Context(), id, "title", "", "panel")
		must(t, err)
		settle()
		if c := w.changes(Query{Against: Against{Revision: l.Revision}}).Changes; len(c) != 1 || c[0].Path != "large" || !c[0].Unstable {
			t.Errorf("the changes since the revision are %+v", c)
		}
	})
}

// TestAbandonedLookEnds cancels calls while they read a large file. They must not read on.
func TestAbandonedLookEnds(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, w *world) error{
		"list": func(ctx context.Context, w *world) error {
			_, err := w.reviews.Changes(ctx, Query{Context: id})
			return err
		},
		"submit": func(ctx context.Context, w *world) error {
			_, err := w.reviews.Submit(ctx, id, "", "", "p")
			return err
		},
		"checkpoint": func(ctx context.Context, w *world) error { _, err := w.reviews.Checkpoint(ctx, id); return err },
		"losing":     func(ctx context.Context, w *world) error { return w.reviews.Unapplied(ctx, id) },
		"against the workspace": func(ctx context.Context, w *world) error {
			_, err := w.reviews.Changes(ctx, Query{Context: id, Against: Against{Workspace: true}})
			return err
		},
		"discard": func(ctx context.Context, w *world) error {
			_, err := w.reviews.Discard(ctx, id, Selection{All: true}, "", "p")
			return err
		},
	} {
		w := newWorld(t, files{"a": "text\n"})
		must(t, os.WriteFile(filepath.Join(w.in(id), "large"), make([]byte, 32<<20), 0o600))
		read := w.counted()
		counted := w.through
		ctx, cancel := context.WithCancel(t.Context())
		w.through = func(r rootfs.Root) rootfs.Root { return &cancelling{counted(r), cancel} }
		if err := call(ctx, w); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if n := read.beside.Load() + read.inside.Load(); n > 8<<20 {
			t.Errorf("%s: read %d bytes for a caller that left", name, n)
		}
		cancel()
	}
}

// cancelling ends a call when something of a file was read.
type cancelling struct {
	rootfs.Root
	cancel func()
}

func (r *cancelling) OpenNoFollow(path string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	f, st, err := r.Root.OpenNoFollow(path, flags)
	return cancellingFile{f, r}, st, err
}

type cancellingFile struct {
	rootfs.File
	r *cancelling
}

func (f cancellingFile) ReadAt(b []byte, at int64) (int, error) {
	f.r.cancel()
	return f.File.ReadAt(b, at)
}

// TestLargeNewFileInARepositoryIsListed enters the context twice. The excludes of the repository are read the second time, too.
func TestLargeNewFileInARepositoryIsListed(t *testing.T) {
	t.Parallel()
	r := newRepos(t, files{"app/a": "text\n", "app/.gitignore": "*.log\n"})
	r.sparse("app/huge", tebi)
	if c := r.changes(Query{}).Changes; len(c) != 1 || c[0].Path != "app/huge" || c[0].Ignored {
		t.Errorf("the changes are %+v", c)
	}
}

// TestCallThatNeedsAFileThatKeepsChangingNamesIt has a program change a large file of the context each time that it was read. A call that needs the file
// does nothing, names it and says what to do.
func TestCallThatNeedsAFileThatKeepsChangingNamesIt(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("line\n", largeContent/5+1)
	for name, c := range map[string]struct {
		file string
		// context and workspace are what they change.
		context, workspace files
		do                 func(w *world) error
	}{
		"rebase over its directory": {"new/large", files{"new/large": large}, files{"new": "user\n"}, func(w *world) error {
			_, err := w.tryRebase(RebaseRequest{OnConflict: TakeWorkspace})
			return err
		}},
		"rebase": {"a", files{"a": large}, files{"a": "user\n"}, func(w *world) error {
			_, err := w.tryRebase(RebaseRequest{OnConflict: TakeWorkspace})
			return err
		}},
		"rebase that refuses conflicts": {"a", files{"a": large}, files{"a": "user\n"}, func(w *world) error {
			_, err := w.tryRebase(RebaseRequest{})
			return err
		}},
		"resolve": {"a", files{"a": large}, files{"a": "user\n"}, func(w *world) error {
			w.through = nil
			w.rebase(RebaseRequest{OnConflict: RecordConflicts})
			w.through = w.touching("a")
			_, err := w.reviews.Resolve(t.Context(), id, "a", Resolution{Side: SideWorkspace}, "host")
			return err
		}},
		"pull": {"a", files{"a": large}, nil, func(w *world) error {
			_, err := w.pull(files{"a": "pulled\n"}, files{"a": "text\n"})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": "text\n"})
			write(t, w.in(id), c.context)
			write(t, w.in("workspace"), c.workspace)
			before := read(t, w.in(id))
			w.through = w.touching(c.file)
			refused := wantReason(t, c.do(w), Conflicting)
			if want := (Conflict{Path(c.file), ConflictChangedMeanwhile}); len(refused.Conflicts) != 1 || refused.Conflicts[0] != want || refused.Hint != writesHint {
				t.Errorf("the refusal is %+v", refused)
			}
			same(t, "the context", read(t, w.in(id)), before)
		})
	}
}

// touching changes a file each time that a call enters the context.
func (w *world) touching(file string) func(rootfs.Root) rootfs.Root {
	return func(r rootfs.Root) rootfs.Root {
		if !w.beside {
			must(w.t, os.Chtimes(filepath.Join(w.in(id), file), time.Now(), time.Now()))
		}
		return r
	}
}
