package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

// killDirEnv makes the test binary a reviewer of the world in that directory.
const killDirEnv = "CTXFS_REVIEW_KILL_DIR"

// killsEnv asks for the long forms of the tests of kills and races.
const killsEnv = "CTXFS_KILLS"

func TestMain(m *testing.M) {
	powercut.Main()
	if os.Getenv(killDirEnv) != "" && reviewer != nil {
		if err := reviewer(); err != nil {
			fmt.Fprintln(os.Stderr, "reviewer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files is a tree by path: a content, or "-> target" for a link, or "+x " and a content for an executable. "" as a content of a change removes.
type files map[string]string

// world is a workspace, its layer, and contexts in plain folders.
type world struct {
	t        testing.TB
	dir      string
	manifest *seed.Manifest
	reviews  *Reviews
	digest   string
	// quota bounds what Replacing may charge, in bytes; 0 is no bound.
	quota int64
	// through, if it is not nil, makes what reviews see of a context.
	through func(rootfs.Root) rootfs.Root
	// options are those of the contexts' roots.
	options rootfs.Options
	// beside says that the context is entered by Beside.
	beside bool
}

const id = "ctx_a"

// newWorld makes a workspace with these files, and a context seeded with it.
func newWorld(t testing.TB, content files) *world {
	t.Helper()
	return newWorldAt(t, t.TempDir(), content)
}

func newWorldAt(t testing.TB, dir string, content files) *world {
	t.Helper()
	w := &world{t: t, dir: dir, digest: "digest"}
	for _, name := range []string{"workspace", "layer", id} {
		must(t, os.Mkdir(w.in(name), 0o755))
		write(t, w.in(name), content)
	}
	var err error
	w.manifest, err = manifestOf(w.in("layer"))
	must(t, err)
	w.open()
	t.Cleanup(func() { must(t, w.reviews.Close()) })
	return w
}

// manifestOf describes a layer.
func manifestOf(dir string) (*seed.Manifest, error) {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		return nil, err
	}
	var entries []seed.Entry
	err = root.Walk(context.Background(), "/", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		target := ""
		if e.Type == rootfs.TypeSymlink {
			target, err = root.Readlink(rel)
		}
		entries = append(entries, seed.NewEntry(rel, *e.Stat, target))
		return err
	})
	return seed.NewManifest(nil, entries), errors.Join(err, root.Close())
}

func (w *world) open() {
	w.t.Helper()
	r, err := Open(w.t.Context(), Config{Contexts: w, Dir: w.in("state"), Workspace: w.in("workspace")})
	must(w.t, err)
	w.reviews = r
}

// at calls f in a phase of what changes files, one call after the other.
func (w *world) at(phase string, f func()) {
	w.reviews.point = oneByOne(func(p string) {
		if p == phase {
			f()
		}
	})
}

// oneByOne returns f for use by several goroutines.
func oneByOne(f func(string)) func(string) {
	var mu sync.Mutex
	return func(s string) {
		mu.Lock()
		defer mu.Unlock()
		f(s)
	}
}

func (w *world) in(name string) string { return filepath.Join(w.dir, name) }

func (w *world) Frozen(ctx context.Context, id string, f func(context.Context, rootfs.Root) error) error {
	root, err := rootfs.Open(w.in(id), w.options)
	if err != nil {
		return err
	}
	seen := root
	if w.through != nil {
		seen = w.through(root)
	}
	ctx, cancel := context.WithCancel(ctx) // as that of a real context
	defer cancel()
	return errors.Join(f(ctx, seen), root.Close())
}

func (w *world) Changing(ctx context.Context, id string, f func(rootfs.Root, Charge) error) error {
	return w.Replacing(ctx, id, f)
}

func (w *world) Reading(ctx context.Context, id string, f func(context.Context, rootfs.Root) error) error {
	return w.Frozen(ctx, id, f)
}

func (w *world) Beside(ctx context.Context, id string, f func(context.Context, rootfs.Root) error) error {
	w.beside = true
	defer func() { w.beside = false }()
	return w.Frozen(ctx, id, f)
}

func (w *world) Replacing(ctx context.Context, id string, f func(rootfs.Root, Charge) error) error {
	return w.Frozen(ctx, id, func(_ context.Context, root rootfs.Root) error {
		return f(root, func(bytes, _ int64) error {
			if w.quota != 0 && bytes > w.quota {
				return &fserr.Error{Code: fserr.EDQUOT}
			}
			return nil
		})
	})
}

func (w *world) Workspace(ctx context.Context, _ string) (*seed.Scan, error) {
	root, err := rootfs.Open(w.in("workspace"), rootfs.Options{})
	if err != nil {
		return nil, err
	}
	scan, err := seed.Walk(ctx, seed.Source{Root: root, Dir: w.in("workspace")}, seed.Options{Root: "."}, nil)
	return scan, errors.Join(err, root.Close())
}

func (w *world) Origin(context.Context, string) (Origin, error) {
	return Origin{Digest: w.digest, Tree: w.in("layer"), Manifest: w.manifest}, nil
}

// write makes files in a directory.
func write(t testing.TB, dir string, content files) {
	t.Helper()
	for p, text := range content {
		name := filepath.Join(dir, filepath.FromSlash(p))
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			must(t, os.Symlink(target, name))
			continue
		}
		if rest, ok := strings.CutPrefix(text, "+x "); ok {
			text, mode = rest, 0o755
		}
		must(t, os.WriteFile(name, []byte(text), mode))
		must(t, os.Chmod(name, mode))
	}
}

// remove removes files of a directory, and the directories that are empty then.
func remove(t testing.TB, dir string, paths ...string) {
	t.Helper()
	for _, p := range paths {
		must(t, os.Remove(filepath.Join(dir, p)))
		for up := filepath.Dir(p); up != "." && os.Remove(filepath.Join(dir, up)) == nil; up = filepath.Dir(up) {
		}
	}
}

// read returns what a directory holds.
func read(t testing.TB, dir string) files {
	t.Helper()
	out := files{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(name)
			out[rel] = "-> " + target
			return err
		}
		data, err := os.ReadFile(name)
		if info, e := d.Info(); e == nil && info.Mode()&0o111 != 0 {
			data = append([]byte("+x "), data...)
		}
		out[rel] = string(data)
		return err
	}))
	return out
}

// byAgent is a text with the agent's change.
func byAgent(text string) string { return strings.Replace(text, "line 2\n", "the agent's\n", 1) }

func same(t testing.TB, what string, got, want files) {
	t.Helper()
	for p, text := range want {
		if g, ok := got[p]; !ok || g != text {
			t.Errorf("%s: %s is %q, want %q", what, p, g, text)
		}
	}
	for p, text := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s is there with %q, and should not be", what, p, text)
		}
	}
}

func (w *world) changes(q Query) *List {
	w.t.Helper()
	q.Context = id
	l, err := w.reviews.Changes(w.t.Context(), q)
	must(w.t, err)
	must(w.t, l.Close())
	return l
}

// wantReason checks that an error is a refusal for a reason.
func wantReason(t testing.TB, err error, reason Reason) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
	return e
}

// Snapshots lists the folders "context@name".
func (w *world) Snapshots(_ context.Context, id string) (out []Snapshot, err error) {
	dirs, err := filepath.Glob(w.in(id + "@*"))
	for _, dir := range dirs {
		info, statErr := os.Stat(dir)
		if statErr != nil {
			return nil, statErr
		}
		out = append(out, Snapshot{strings.TrimPrefix(filepath.Base(dir), id+"@"), info.ModTime()})
	}
	return out, err
}

// Snapshot opens the folder "context@name".
func (w *world) Snapshot(ctx context.Context, id, name string) (SnapshotView, error) {
	root, err := rootfs.Open(w.in(id+"@"+name), rootfs.Options{})
	origin, _ := w.Origin(ctx, id)
	return SnapshotView{Root: root, Origin: origin, Check: func() error { return nil }}, err
}

func changedTwice() string { return strings.Replace(secondChanged(), "line 5\n", "five\n", 1) }

func secondChanged() string { return strings.Replace(numbered(30), "line 25\n", "twenty-five\n", 1) }
