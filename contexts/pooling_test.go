package contexts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// sparing signals when the pool makes a copy, and can hold that up.
type sparing struct {
	*copyfs.Driver
	hold chan struct{}
	n    chan struct{}
}

func newSparing() *sparing {
	return &sparing{Driver: copyfs.New(copyfs.Options{}), n: make(chan struct{}, 100)}
}

func (s *sparing) PrepareSpare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	s.n <- struct{}{}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Driver.PrepareSpare(ctx, src, dst, progress)
}

// pooled opens a Manager with a pool, and observes its log.
func (w *workspace) pooled(size int, change ...func(*Config)) (*Manager, *observer.ObservedLogs) {
	w.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	return w.open(append([]func(*Config){func(c *Config) { c.Pool, c.Log = size, zap.New(core) }}, change...)...), logs
}

// full waits until the pool holds n copies of the current layer and no other. On a busy machine this takes long: the pool is filled with a low
// priority.
func full(t testing.TB, m *Manager, n int) {
	t.Helper()
	clocktest.Await(t, fmt.Sprintf("the pool holds %d copies of the current layer", n), func() bool {
		cur, err := m.seeder.Layers.Current(seed.Scope{})
		must(t, err)
		all, err := m.seeder.Pool.List()
		must(t, err)
		others, err := m.seeder.Pool.Others(cur.Digest)
		must(t, err)
		return len(all) == n && len(others) == 0
	})
}

// claimed returns the result of the last seeding's claim.
func claimed(t *testing.T, logs *observer.ObservedLogs) string {
	t.Helper()
	seeded := logs.FilterMessage("context seeded").All()
	if len(seeded) == 0 {
		t.Fatal("no seeding was logged")
	}
	return fmt.Sprint(seeded[len(seeded)-1].ContextMap()["pool"])
}

// picture describes each entry of a tree as far as a context keeps it.
func picture(t testing.TB, dir string) map[string]string {
	t.Helper()
	root, err := rootfs.Open(dir, rootfs.Options{})
	must(t, err)
	defer func() { must(t, root.Close()) }()
	first, out := map[uint64]string{}, map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		must(t, err)
		st, err := root.Lstat(rel)
		must(t, err)
		text := fmt.Sprintf("mode %o mtime %d", st.Mode, st.MtimeNs)
		switch st.Type() {
		case rootfs.TypeFile:
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			data, err := os.ReadFile(p)
			must(t, err)
			text += fmt.Sprintf(" %q one with %s", data, first[st.Ino])
		case rootfs.TypeSymlink:
			target, err := os.Readlink(p)
			must(t, err)
			text += " -> " + target
		}
		out[rel] = text + poolXattrs(t, p)
		return nil
	}))
	return out
}

func samePicture(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%q is\n %s, want\n %s", name, got[name], w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q should not be there", name)
		}
	}
}

// asPrepared compares a context with what the driver makes of the current layer.
func (w *workspace) asPrepared(m *Manager, id ID) {
	t := w.t.(*testing.T) //nolint:forcetypeassert // no benchmark asks
	t.Helper()
	l, err := m.seeder.Layers.Current(seed.Scope{})
	must(t, err)
	dst := t.TempDir()
	must(t, copyfs.New(copyfs.Options{}).Prepare(t.Context(), l.Tree, dst, nil))
	samePicture(t, picture(t, m.cat.Layout.Folder(id)), picture(t, dst))
}

func (w *workspace) in(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

// poolWorkspace has one of everything.
func poolWorkspace(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t)
	w.fill("app", 60)
	w.write("app/sub/deep/file", "1")
	w.write("app/sub/other", "1")
	w.write("app/will-be-dir", "1")
	w.write("app/will-be-file/inner/f", "1")
	w.write("app/linked", "1")
	must(t, os.Link(w.in("app/linked"), w.in("app/sub/linked")))
	must(t, os.Symlink("sub", w.in("app/link")))
	setPoolXattr(t, w.in("app/sub"), "one")
	w.repo("app")
	return w
}

func TestPoolHit(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	m, logs := w.pooled(2)
	ensure(t, m, "ctx_a")
	if how := claimed(t, logs); how != "miss" {
		t.Errorf("the first context is a %s", how)
	}
	full(t, m, 2)
	ensure(t, m, "ctx_b")
	if how := claimed(t, logs); how != "hit" {
		t.Errorf("the second context is a %s", how)
	}
	w.asPrepared(m, "ctx_b")
	full(t, m, 2)
	if st, err := os.Stat(m.cat.Layout.Pool); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the pool is %v, %v", st, err)
	}
	if _, err := os.Stat(filepath.Join(m.cat.Layout.Pool, "CACHEDIR.TAG")); err != nil {
		t.Error(err)
	}
}

// TestPoolFollowsTheWorkspace has a copy of the old layer when a context of the new one is asked for.
func TestPoolFollowsTheWorkspace(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_500_000_000, 987_654_321)
	changes := map[string]func(t *testing.T, w *workspace){
		"changed": func(_ *testing.T, w *workspace) { w.write("app/d1/f1.txt", "another content") },
		"changed, size and time as before": func(t *testing.T, w *workspace) {
			st, err := os.Stat(w.in("app/sub/other"))
			must(t, err)
			w.write("app/sub/other", "2")
			must(t, os.Chtimes(w.in("app/sub/other"), st.ModTime(), st.ModTime()))
		},
		"added":          func(_ *testing.T, w *workspace) { w.write("app/new/folder/f", "new") },
		"removed":        func(t *testing.T, w *workspace) { must(t, os.Remove(w.in("app/d2/f2.txt"))) },
		"folder removed": func(t *testing.T, w *workspace) { must(t, os.RemoveAll(w.in("app/sub"))) },
		"file to folder": func(t *testing.T, w *workspace) {
			must(t, os.Remove(w.in("app/will-be-dir")))
			w.write("app/will-be-dir/f", "1")
		},
		"folder to file": func(t *testing.T, w *workspace) {
			must(t, os.RemoveAll(w.in("app/will-be-file")))
			w.write("app/will-be-file", "1")
		},
		"link to folder": func(t *testing.T, w *workspace) { must(t, os.Remove(w.in("app/link"))); w.write("app/link/f", "1") },
		"link to another": func(t *testing.T, w *workspace) {
			must(t, os.Remove(w.in("app/link")))
			must(t, os.Symlink("d1", w.in("app/link")))
		},
		"file's mode":   func(t *testing.T, w *workspace) { must(t, os.Chmod(w.in("app/d3/f3.txt"), 0o755)) },
		"folder's mode": func(t *testing.T, w *workspace) { must(t, os.Chmod(w.in("app/sub"), 0o700)) },
		"folder's time alone": func(t *testing.T, w *workspace) {
			must(t, os.Chtimes(w.in("app/sub/deep"), at, at))
			w.write("app/d1/f1.txt", "and a file, without which the layer holds")
		},
		"folder's xattrs": func(t *testing.T, w *workspace) { setPoolXattr(t, w.in("app/sub"), "two"); w.write("app/x", "1") },
		"hard link parted": func(t *testing.T, w *workspace) {
			must(t, os.Remove(w.in("app/sub/linked")))
			w.write("app/sub/linked", "1")
		},
		"hard link written": func(_ *testing.T, w *workspace) { w.write("app/sub/linked", "both") },
		"hard link added":   func(t *testing.T, w *workspace) { must(t, os.Link(w.in("app/linked"), w.in("app/third"))) },
		"renamed folder":    func(t *testing.T, w *workspace) { must(t, os.Rename(w.in("app/sub"), w.in("app/moved"))) },
		"left out":          func(_ *testing.T, w *workspace) { w.write(".contextignore", "linked\nd4/\n") },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := poolWorkspace(t)
			m, logs := w.pooled(1)
			ensure(t, m, "ctx_a")
			full(t, m, 1)
			change(t, w)
			resume := halted(t, m) // or the pool may be up to date when the context is made
			ensure(t, m, "ctx_b")
			resume()
			if how := claimed(t, logs); how != "adjusted" {
				t.Errorf("the context is a %s", how)
			}
			w.asPrepared(m, "ctx_b")
			full(t, m, 1)
			ensure(t, m, "ctx_c")
			w.asPrepared(m, "ctx_c")
		})
	}
}

// TestPoolIsBroughtUpToDate: copies of the old layer become copies of the new one, nothing is copied whole.
func TestPoolIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	d := newSparing()
	w.driver = d
	m, logs := w.pooled(2)
	ensure(t, m, "ctx_a")
	full(t, m, 2)
	w.write("app/d1/f1.txt", "changed")
	ensure(t, m, "ctx_b")
	full(t, m, 2)
	if n := len(d.n); n != 3 {
		t.Errorf("%d copies were made whole, want 3: the one that was claimed is replaced, the other adjusted", n)
	}
	ensure(t, m, "ctx_c")
	if how := claimed(t, logs); how != "hit" {
		t.Errorf("the context is a %s", how)
	}
	w.asPrepared(m, "ctx_c")
}

func TestPoolAfterARestart(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	m, _ := w.pooled(1)
	ensure(t, m, "ctx_a")
	full(t, m, 1)
	must(t, m.Close())
	m, logs := w.pooled(1)
	ensure(t, m, "ctx_b")
	if how := claimed(t, logs); how != "hit" {
		t.Errorf("the context is a %s", how)
	}
	full(t, m, 1)
	must(t, m.Close())
	m = w.open() // without a pool what is there goes
	if all, err := m.seeder.Pool.List(); err != nil || len(all) != 0 {
		t.Errorf("the pool holds %v, %v", all, err)
	}
}

// TestPoolBetweenProcesses has many ask at once for fewer copies than there are.
func TestPoolBetweenProcesses(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	one, _ := w.pooled(3)
	two, _ := w.pooled(3)
	ensure(t, one, "ctx_first")
	full(t, one, 3)
	defer halted(t, one)()
	defer halted(t, two)()
	var wg sync.WaitGroup
	for i := range 8 {
		m := []*Manager{one, two}[i%2]
		wg.Go(func() {
			if _, err := m.Ensure(t.Context(), ID(fmt.Sprintf("ctx_%d", i)), EnsureOptions{}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		w.asPrepared(one, ID(fmt.Sprintf("ctx_%d", i)))
	}
	if all, err := one.seeder.Pool.List(); err != nil || len(all) != 0 {
		t.Errorf("the pool still holds %v, %v", all, err)
	}
}

// TestPoolWaitsForSeedings has a copy begun when a seeding comes, and Close end both.
func TestPoolWaitsForSeedings(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	d := newSparing()
	d.hold = make(chan struct{})
	w.driver = d
	phases := make(chan struct{})
	m, _ := w.pooled(1, func(c *Config) {
		c.Events.Step = func(p string) {
			if p == "copying" {
				phases <- struct{}{}
				<-phases
			}
		}
	})
	first := make(chan struct{})
	go func() { ensure(t, m, "ctx_a"); close(first) }()
	<-phases
	phases <- struct{}{}
	<-first
	<-d.n // the pool has begun a copy
	second := make(chan struct{})
	go func() { ensure(t, m, "ctx_b"); close(second) }()
	<-phases
	close(d.hold) // the copy continues, to its first file
	if all, err := m.seeder.Pool.List(); err != nil || len(all) != 0 {
		t.Errorf("beside a seeding the pool made %v, %v", all, err)
	}
	phases <- struct{}{}
	<-second
	full(t, m, 1)
}

func TestPoolStopsAtOnce(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	d := newSparing()
	d.hold = make(chan struct{})
	w.driver = d
	m, logs := w.pooled(1)
	ensure(t, m, "ctx_a")
	<-d.n
	must(t, m.Close())
	if left, err := os.ReadDir(m.cat.Layout.Staging); err != nil || len(left) != 1 {
		t.Errorf("staging holds %v, %v", left, err)
	}
	if n := logs.FilterMessage("the pool could not be filled").Len(); n != 0 {
		t.Error("a stop is told as a failure")
	}
}

// halted keeps the pool from being filled until resume.
func halted(t *testing.T, m *Manager) (resume func()) {
	t.Helper()
	resume, err := m.seeder.Pool.Halt(t.Context())
	must(t, err)
	return resume
}

func TestPoolCopyOfALayerThatIsGone(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	m, logs := w.pooled(1)
	ensure(t, m, "ctx_a")
	full(t, m, 1)
	defer halted(t, m)()
	cur, err := m.seeder.Layers.Current(seed.Scope{})
	must(t, err)
	must(t, os.Rename(cur.ManifestFile, cur.ManifestFile+"-aside"))
	w.write("app/x", "1")
	ensure(t, m, "ctx_b")
	if how := claimed(t, logs); how != "miss" {
		t.Errorf("the context is a %s", how)
	}
	w.asPrepared(m, "ctx_b")
	told := logs.FilterMessage("a copy of the pool is dropped").All()
	if len(told) != 1 || !strings.Contains(fmt.Sprint(told[0].ContextMap()["error"]), "up to date") {
		t.Errorf("the log says %v", told)
	}
}

func TestCollectGarbageTakesOldCopies(t *testing.T) {
	t.Parallel()
	w := poolWorkspace(t)
	m, _ := w.pooled(1)
	ensure(t, m, "ctx_a")
	full(t, m, 1)
	defer halted(t, m)()
	w.write("app/x", "1")
	all, err := m.seeder.Pool.List()
	must(t, err)
	staged, err := m.cat.Staging.Make("aside")
	must(t, err)
	aside := filepath.Join(staged, "folder")
	must(t, os.Rename(m.seeder.Pool.Dir(all[0].Name), aside))
	ensure(t, m, "ctx_b")
	must(t, m.seeder.Pool.Put(aside, all[0].Layer))
	found, err := m.CollectGarbage(context.Background(), GarbageOptions{})
	must(t, err)
	n := 0
	for _, g := range found {
		if g.Kind == GarbagePool && g.Name == all[0].Name && g.Bytes > 0 {
			n++
		}
	}
	if left, err := m.seeder.Pool.List(); n != 1 || err != nil || len(left) != 0 {
		t.Errorf("found %v, left %v, %v", found, left, err)
	}
}
