package contexts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// settling is a driver whose copies take so long that a later change shows in the ctime of each file, as those of large layers do.
type settling struct{ *copyfs.Driver }

func (s settling) Prepare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	return errors.Join(s.Driver.Prepare(ctx, src, dst, progress), settle(ctx, dst))
}

func (s settling) PrepareSpare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	return errors.Join(s.Driver.PrepareSpare(ctx, src, dst, progress), settle(ctx, dst))
}

func (s settling) Duplicate(ctx context.Context, src, dst string, freeze func(func(context.Context) error) error) ([]string, error) {
	changed, err := s.Driver.Duplicate(ctx, src, dst, freeze)
	return changed, errors.Join(err, settle(ctx, dst))
}

func settle(ctx context.Context, dir string) error {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		return err
	}
	scan := &seed.Scan{}
	err = root.Walk(ctx, "/", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		scan.Entries = append(scan.Entries, seed.NewEntry(rel, *e.Stat, ""))
		return err
	})
	return errors.Join(err, root.Close(), layer.Settle(ctx, scan))
}

// keeper keeps the marks of contexts, as reviews do.
type keeper struct {
	t   *testing.T
	dir string
}

func (k keeper) configure(c *Config) {
	c.Events.Step = func(step string) {
		if step != "layer-manifested" { // a context that is filled together with its layer is filled without the driver
			return
		}
		if err := layer.Settle(k.t.Context(), &seed.Scan{Entries: []seed.Entry{{CtimeNs: time.Now().UnixNano()}}}); err != nil {
			k.t.Error(err)
		}
	}
	c.Events.Marks = func(id ID) string { return filepath.Join(k.dir, string(id)) }
	c.Events.Copied = func(_, to, marks string) error {
		err := os.Rename(marks, filepath.Join(k.dir, to))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
}

// links are the links and files with several names of poolWorkspace. A context that is filled together with its layer has no marks of them.
var links = []string{"app/link", "app/linked", "app/sub/linked"}

// unmarked lists the files of a context that its marks do not say to be unchanged. All others must be.
func (k keeper) unmarked(t *testing.T, m *Manager, id ID) []string {
	t.Helper()
	origin, err := m.Origin(t.Context(), id)
	must(t, err)
	marks := seed.ReadMarks(filepath.Join(k.dir, string(id)), origin.Layer)
	if len(marks) != len(origin.Manifest.Entries) {
		t.Fatalf("%s has %d marks for %d entries", id, len(marks), len(origin.Manifest.Entries))
	}
	root, err := rootfs.Open(m.cat.Layout.Folder(id), rootfs.Options{})
	must(t, err)
	defer func() { must(t, root.Close()) }()
	var out []string
	for i := range marks {
		e := &origin.Manifest.Entries[i]
		st, err := root.Lstat(e.Path)
		if err != nil || (!marks[i].Is(st, e) && !st.IsDir()) {
			out = append(out, e.Path)
			continue
		}
		if e.Type == rootfs.TypeFile {
			want, err := os.ReadFile(filepath.Join(origin.Tree, e.Path))
			must(t, err)
			got, err := os.ReadFile(filepath.Join(m.cat.Layout.Folder(id), e.Path))
			must(t, err)
			if string(got) != string(want) {
				t.Errorf("%s: %s is marked as unchanged, and holds %q", id, e.Path, got)
			}
		}
	}
	return out
}

// hide changes a file of a context so that its size and its modification time stay.
func hide(t *testing.T, m *Manager, id ID, name string) {
	t.Helper()
	file := filepath.Join(m.cat.Layout.Folder(id), name)
	st, err := os.Stat(file)
	must(t, err)
	data, err := os.ReadFile(file)
	must(t, err)
	data[0] ^= 1
	must(t, os.WriteFile(file, data, 0o600))
	must(t, os.Chtimes(file, st.ModTime(), st.ModTime()))
}

func TestMarksOfCopies(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	w.driver = settling{copyfs.New(copyfs.Options{})}
	k := keeper{t, t.TempDir()}
	m, logs := w.pooled(1, k.configure)
	check := func(what string, id ID, want ...string) {
		t.Helper()
		if got := k.unmarked(t, m, id); !slices.Equal(got, want) {
			t.Errorf("%s: not marked are %q, want %q", what, got, want)
		}
	}

	ensure(t, m, "ctx_a")
	check("seeded", "ctx_a", links...)
	hide(t, m, "ctx_a", "app/sub/other")
	check("with a hidden edit", "ctx_a", append(links, "app/sub/other")...)
	fork(t, m, "ctx_a", "ctx_fork")
	check("forked", "ctx_fork", append(links, "app/sub/other")...)

	_, err := m.Snapshot(t.Context(), "ctx_a", "one")
	must(t, err)
	hide(t, m, "ctx_a", "app/will-be-dir")
	check("with a further edit", "ctx_a", append(links, "app/sub/other", "app/will-be-dir")...)
	_, err = m.Restore(t.Context(), "ctx_a", "one", nil)
	must(t, err)
	check("restored", "ctx_a", append(links, "app/sub/other")...)

	full(t, m, 1)
	ensure(t, m, "ctx_hit")
	if how := claimed(t, logs); how != "hit" {
		t.Fatalf("the context is a %s", how)
	}
	check("from the pool", "ctx_hit")

	full(t, m, 1)
	w.write("app/sub/other", "another content")
	must(t, os.Remove(w.in("app/d2/f2.txt")))
	w.write("app/a-new-file", "new")
	ensure(t, m, "ctx_adjusted")
	if how := claimed(t, logs); how != "adjusted" {
		t.Fatalf("the context is a %s", how)
	}
	check("adjusted", "ctx_adjusted", "app/a-new-file", "app/sub/other")
}

// Marks of a newer ctxfs are of no use to a fork, which is made nevertheless.
func TestForkIgnoresMarksOfAnotherFormat(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	w.driver = settling{copyfs.New(copyfs.Options{})}
	k := keeper{t, t.TempDir()}
	m := w.open(k.configure)
	ensure(t, m, "ctx_a")
	must(t, os.WriteFile(filepath.Join(k.dir, "ctx_a"), []byte("ctxfs known 9\n"), 0o600))
	fork(t, m, "ctx_a", "ctx_b")
	if _, err := os.Stat(filepath.Join(k.dir, "ctx_b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the fork has marks: %v", err)
	}
}
