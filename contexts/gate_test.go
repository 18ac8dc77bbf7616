package contexts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
)

func small(t *testing.T) *workspace {
	w := newWorkspace(t)
	w.write("app/f", "1")
	w.repo("app")
	return w
}

func TestHundredCallersOneSeeding(t *testing.T) {
	t.Parallel()
	w := small(t)
	d := newCounting()
	d.hold = make(chan struct{})
	m := w.open(func(c *Config) { c.Driver = d })
	var wg sync.WaitGroup
	var answers atomic.Int32
	entered := make(chan struct{}, 100)
	for range 100 {
		wg.Go(func() {
			first := true
			_, err := m.Ensure(context.Background(), "ctx_a", EnsureOptions{}, func(Progress) {
				if first {
					first = false
					entered <- struct{}{}
				}
			})
			if err == nil {
				answers.Add(1)
			}
		})
	}
	for range 100 {
		<-entered
	}
	close(d.hold)
	wg.Wait()
	if d.n.Load() != 1 || answers.Load() != 100 {
		t.Errorf("%d seedings, %d answers; want 1 and 100", d.n.Load(), answers.Load())
	}
}

func TestSeedingOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	w := small(t)
	d := newCounting()
	d.hold = make(chan struct{})
	m := w.open(func(c *Config) { c.Driver = d })
	ctx, cancel := context.WithCancel(context.Background())
	_, err := m.Ensure(ctx, "ctx_a", EnsureOptions{}, func(p Progress) {
		if p.Phase == PhaseCopying && p.FilesTotal == 1 {
			cancel()
		}
	})
	wantCode(t, err, fserr.EAGAIN, "ctx_a", "being seeded", "retry in")
	var e *fserr.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		t.Errorf("%v says not when to retry", err)
	}
	_, err = m.Acquire(context.Background(), "ctx_a", Write)
	wantCode(t, err, fserr.EAGAIN, "being seeded (0 of 1 files)")
	info, err := m.Get(context.Background(), "ctx_a")
	must(t, err)
	if info.State != StateSeeding || info.Progress == nil || info.Progress.Phase != PhaseCopying {
		t.Errorf("got %+v, want seeding and its progress", info)
	}
	close(d.hold)
	ensure(t, m, "ctx_a")
	if d.n.Load() != 1 {
		t.Errorf("%d seedings, want 1", d.n.Load())
	}
}

func TestCloseEndsSeedings(t *testing.T) {
	t.Parallel()
	w := small(t)
	d := newCounting()
	d.hold = make(chan struct{})
	m := w.open(func(c *Config) { c.Driver = d })
	done := make(chan error)
	started := make(chan struct{})
	var once sync.Once
	go func() {
		_, err := m.Ensure(context.Background(), "ctx_a", EnsureOptions{}, func(p Progress) {
			if p.Phase == PhaseCopying {
				once.Do(func() { close(started) })
			}
		})
		done <- err
	}()
	<-started
	must(t, m.Close())
	wantCode(t, <-done, fserr.ECANCELED, "stopping")
	ensure(t, w.open(), "ctx_a")
}

func TestFailedSeedingIsTriedAnew(t *testing.T) {
	t.Parallel()
	w := small(t)
	d := newCounting()
	d.fail.Store(true)
	m := w.open(func(c *Config) { c.Driver = d })
	ctx := context.Background()
	_, err := m.Ensure(ctx, "ctx_a", EnsureOptions{}, nil)
	wantCode(t, err, fserr.EIO, "ctx_a")
	_, err = m.Acquire(ctx, "ctx_a", Write)
	wantCode(t, err, fserr.ESTALE, "last seeding failed", "EIO")
	d.fail.Store(false)
	if e := ensure(t, m, "ctx_a"); !e.Seeded || e.LastError != "" {
		t.Errorf("got %+v", e)
	}
}

func TestMissingContext(t *testing.T) {
	t.Parallel()
	m := small(t).open()
	_, err := m.Acquire(context.Background(), "ctx_x", Write)
	wantCode(t, err, fserr.ESTALE)
	if got, want := err.Error(), "ESTALE: context 'ctx_x' does not exist; call EnsureContext or OpenPanel"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = m.Delete(context.Background(), "ctx_x", nil)
	wantCode(t, err, fserr.ESTALE)
	info, err := m.Get(context.Background(), "ctx_x")
	if err != nil || info.State != StateMissing {
		t.Errorf("got %+v, %v; want missing", info, err)
	}
}

func TestBadIDsMakeNothing(t *testing.T) {
	t.Parallel()
	m := small(t).open()
	before, err := m.cat.Names()
	must(t, err)
	for _, id := range []ID{"", "..", "ctx_..", "ctx_a/b", "ctx_a\x00", "unsafe_tpl_0123456789ab_x", "safe_tpl_0123456789ab_x", "other_a"} {
		_, err := m.Ensure(context.Background(), id, EnsureOptions{}, nil)
		wantCode(t, err, fserr.EINVAL)
	}
	after, err := m.cat.Names()
	must(t, err)
	if len(after) != len(before) {
		t.Errorf("%v became %v", before, after)
	}
}

func TestDeleteWaitsForOperations(t *testing.T) {
	t.Parallel()
	m := small(t).open()
	ctx := context.Background()
	ensure(t, m, "ctx_a")
	a, err := m.Acquire(ctx, "ctx_a", Write)
	must(t, err)
	// clock: the caller gives up, whenever that is
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := m.Delete(short, "ctx_a", nil); err == nil {
		t.Fatal("deleted under a running operation")
	}
	// A deletion given up leaves everything as it was.
	b, err := m.Acquire(ctx, "ctx_a", Write)
	must(t, err)
	b.Release()
	done := make(chan error)
	go func() {
		d, err := m.Delete(ctx, "ctx_a", nil)
		if err == nil && d.Entries != 3 {
			t.Errorf("%d entries were removed, want 3", d.Entries)
		}
		done <- err
	}()
	if _, err := a.Root.Stat("/app/f"); err != nil {
		t.Error("the root ended under a running operation:", err)
	}
	a.Release()
	a.Release() // a second one must not count
	must(t, <-done)
	_, err = m.Acquire(ctx, "ctx_a", Write)
	wantCode(t, err, fserr.ESTALE)
	ensure(t, m, "ctx_a")
	c, err := m.Acquire(ctx, "ctx_a", Write)
	must(t, err)
	defer c.Release()
	if c.Generation <= a.Generation {
		t.Errorf("generation %d after %d: handles of the deleted context would be taken for this one's", c.Generation, a.Generation)
	}
}

func TestFolderRemovedByHand(t *testing.T) {
	t.Parallel()
	w := small(t)
	now := time.Unix(1_800_000_000, 0)
	m := w.open(func(c *Config) { c.Now = func() time.Time { return now } })
	ctx := context.Background()
	e := ensure(t, m, "ctx_a")
	a, err := m.Acquire(ctx, "ctx_a", Write)
	must(t, err)
	a.Release()
	must(t, os.RemoveAll(e.Folder))
	now = now.Add(2 * time.Second)
	_, err = m.Acquire(ctx, "ctx_a", Write)
	wantCode(t, err, fserr.ESTALE)
	ensure(t, m, "ctx_a")
	b, err := m.Acquire(ctx, "ctx_a", Write)
	must(t, err)
	b.Release()
	if b.Generation <= a.Generation {
		t.Errorf("generation %d after %d", b.Generation, a.Generation)
	}
}

func TestLinkAtTheContextsName(t *testing.T) {
	t.Parallel()
	w := small(t)
	m := w.open()
	must(t, os.Mkdir(filepath.Join(w.dir, "elsewhere"), 0o755))
	must(t, os.Symlink(filepath.Join(w.dir, "elsewhere"), m.cat.Layout.Folder("ctx_a")))
	_, err := m.Ensure(context.Background(), "ctx_a", EnsureOptions{}, nil)
	wantCode(t, err, fserr.EEXIST, "no folder")
	_, err = m.Acquire(context.Background(), "ctx_a", Write)
	wantCode(t, err, fserr.EEXIST)
	if _, err := m.Delete(context.Background(), "ctx_a", nil); err == nil {
		t.Error("a link was deleted as a context")
	}
}

func TestCollisions(t *testing.T) {
	t.Parallel()
	w := small(t)
	ctx := context.Background()
	m := w.open()
	_, err := m.Ensure(ctx, "ctx_a~b", EnsureOptions{OwnerPanel: "a/b"}, nil)
	must(t, err)
	check := func(m *Manager) {
		t.Helper()
		_, err := m.Ensure(ctx, "ctx_a~b", EnsureOptions{OwnerPanel: "a:b"}, nil)
		wantCode(t, err, fserr.EEXIST, `"a/b"`, `"a:b"`)
		_, err = m.Ensure(ctx, "ctx_A~B", EnsureOptions{}, nil)
		wantCode(t, err, fserr.EEXIST, "only by case")
		_, err = m.Ensure(ctx, "ctx_a~b", EnsureOptions{}, nil) // named explicitly: shared
		must(t, err)
	}
	check(m)
	must(t, m.Close())
	check(w.open())
	// Without its record the folder's name still collides.
	w.store = memory.New()
	m = w.open()
	_, err = m.Ensure(ctx, "ctx_A~b", EnsureOptions{}, nil)
	wantCode(t, err, fserr.EEXIST, "only by case")
}

func TestExplicitContextGetsItsFirstPanelAsOwner(t *testing.T) {
	t.Parallel()
	m := small(t).open()
	ctx := context.Background()
	ensure(t, m, "ctx_a~b")
	_, err := m.Ensure(ctx, "ctx_a~b", EnsureOptions{OwnerPanel: "a/b"}, nil)
	must(t, err)
	_, err = m.Ensure(ctx, "ctx_a~b", EnsureOptions{OwnerPanel: "a:b"}, nil)
	wantCode(t, err, fserr.EEXIST)
}

func TestRepairAfterALostDatabase(t *testing.T) {
	t.Parallel()
	w := small(t)
	ctx := context.Background()
	m := w.open()
	e := ensure(t, m, "ctx_a~b")
	ensure(t, m, "unsafe_noctx_u")
	must(t, os.Mkdir(filepath.Join(m.cat.Layout.Dir, "stray"), 0o755))
	must(t, m.Close())
	w.store = memory.New()
	must(t, w.store.Contexts().Create(ctx, metadata.Context{ID: "ctx_gone", State: metadata.ContextReady, Generation: 1}))
	m = w.open()
	r, err := m.Repair(ctx)
	must(t, err)
	if len(r.Recovered) != 2 || len(r.Dropped) != 1 || r.Dropped[0] != "ctx_gone" || len(r.Ignored) != 1 || len(r.Unknown) < 3 {
		t.Errorf("got %+v", r)
	}
	info, err := m.Get(ctx, "ctx_a~b")
	must(t, err)
	if !info.Recovered || info.State != StateReady || info.Files != e.Files || info.Layer != e.Layer {
		t.Errorf("got %+v, want what %+v was", info, e.Info)
	}
	list, err := m.List(ctx)
	must(t, err)
	if len(list) != 2 {
		t.Errorf("got %+v, want 2 contexts", list)
	}
	r, err = m.Repair(ctx)
	must(t, err)
	if len(r.Recovered)+len(r.Dropped) != 0 {
		t.Errorf("a second repair did %+v", r)
	}
}

func TestFolderWithoutRecordIsServed(t *testing.T) {
	t.Parallel()
	w := small(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	must(t, m.Close())
	w.store = memory.New()
	m = w.open()
	a, err := m.Acquire(context.Background(), "ctx_a", Write)
	must(t, err)
	a.Release()
}
