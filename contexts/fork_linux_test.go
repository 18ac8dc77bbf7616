package contexts

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// eachDriver runs a test in a workspace of every driver, with the context ctx_a in it.
func eachDriver(t *testing.T, f func(t *testing.T, w *workspace, m *Manager)) {
	t.Helper()
	if !namespacestest.Inside() { // there the overlay driver is mounted in another way, and the copy driver does the same
		t.Run("copy", func(t *testing.T) {
			w := newWorkspace(t)
			w.fill("app", 60)
			w.repo("app")
			m := w.open()
			ensure(t, m, "ctx_a")
			f(t, w, m)
		})
	}
	t.Run("overlay", func(t *testing.T) {
		w := newOverlaid(t)
		m := w.open()
		ensure(t, m, "ctx_a")
		f(t, w, m)
	})
}

func fork(t testing.TB, m *Manager, from, to ID) Info {
	t.Helper()
	info, err := m.Fork(t.Context(), from, to, EnsureOptions{})
	must(t, err)
	return info
}

// open opens a file of a context as a client does that keeps it open.
func open(t testing.TB, m *Manager, id ID, name string) rootfs.File {
	t.Helper()
	a, err := m.Acquire(t.Context(), id, Write)
	must(t, err)
	defer a.Release()
	f, err := a.Root.OpenFile(name, rootfs.O_RDWR, 0)
	must(t, err)
	return f
}

func TestFork(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		put(t, m, "ctx_a", "app/d1/f1.txt", "changed")
		put(t, m, "ctx_a", "app/new", "new")
		held := open(t, m, "ctx_a", "app/new")
		want := treeOf(t, w.folder("ctx_a"))
		before, err := m.Get(t.Context(), "ctx_a")
		must(t, err)

		info := fork(t, m, "ctx_a", "ctx_b")
		if info.State != StateReady || info.ForkedFrom != "ctx_a" || info.Driver != before.Driver || info.Layer != before.Layer || info.Files != before.Files {
			t.Errorf("forked %+v from %+v", info, before)
		}
		sameTree(t, treeOf(t, w.folder("ctx_b")), want) // at once, to anybody
		e := ensure(t, m, "ctx_b")
		if e.Seeded || e.ForkedFrom != "ctx_a" {
			t.Errorf("the first access seeded the fork, or forgot its parent: %+v", e)
		}
		sameTree(t, treeOf(t, w.folder("ctx_b")), want)

		// Both change apart, and open files stay open.
		_, err = held.WriteAt([]byte("one"), 0)
		must(t, err)
		must(t, held.Close())
		put(t, m, "ctx_b", "app/d1/f1.txt", "the fork's")
		wantFile(t, m, "ctx_a", "app/new", "one")
		wantFile(t, m, "ctx_b", "app/new", "new")
		wantFile(t, m, "ctx_a", "app/d1/f1.txt", "changed")
		if after, err := m.Get(t.Context(), "ctx_a"); err != nil || after.Generation != before.Generation {
			t.Errorf("the fork made its parent's generation %d of %d, %v", after.Generation, before.Generation, err)
		}
		fork(t, m, "ctx_b", "ctx_c")
		_, err = m.Delete(t.Context(), "ctx_a", nil)
		must(t, err)
		wantFile(t, m, "ctx_c", "app/d1/f1.txt", "the fork's")
		wantSwept(t, m)
	})
}

func TestForkRefuses(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := w.open()
	for _, id := range []ID{"ctx_a", "ctx_b", "unsafe_noctx_u"} {
		ensure(t, m, id)
	}
	_, err := m.Ensure(t.Context(), "ctx_owned", EnsureOptions{OwnerPanel: "owned"}, nil)
	must(t, err)
	_, err = m.Delete(t.Context(), "ctx_owned", nil)
	must(t, err)
	for _, c := range []struct {
		name     string
		from, to ID
		code     fserr.Code
		says     string
	}{
		{"no such context", "ctx_none", "ctx_new", fserr.ESTALE, "'ctx_none' does not exist"},
		{"taken", "ctx_a", "ctx_b", fserr.EEXIST, "'ctx_b' exists already"},
		{"itself", "ctx_a", "ctx_a", fserr.EEXIST, "ctx_a"},
		{"another case", "ctx_a", "ctx_B", fserr.EEXIST, "differs only by case"},
		{"bad source", "../a", "ctx_new", fserr.EINVAL, "bad context ID"},
		{"bad target", "ctx_a", "ctx_", fserr.EINVAL, "bad context ID"},
		{"safe to unsafe", "ctx_a", "unsafe_noctx_new", fserr.EINVAL, "cannot be a copy"},
		{"unsafe to safe", "unsafe_noctx_u", "ctx_new", fserr.EINVAL, "cannot be a copy"},
		{"to a template's", "ctx_a", "safe_tpl_0123456789ab_new", fserr.EINVAL, "cannot be a copy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := m.Fork(t.Context(), c.from, c.to, EnsureOptions{})
			wantCode(t, err, c.code, c.says)
		})
	}
	for _, id := range []ID{"ctx_new", "unsafe_noctx_new"} {
		if info, err := m.Get(t.Context(), id); err != nil || info.State != StateMissing {
			t.Errorf("a refused fork left %+v, %v", info, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Fork(ctx, "ctx_a", "ctx_new", EnsureOptions{})
	if err == nil {
		t.Error("a fork that was cancelled was made")
	}
	info, err := m.Fork(t.Context(), "unsafe_noctx_u", "unsafe_noctx_v", EnsureOptions{})
	if err != nil || info.State != StateReady {
		t.Errorf("unsafe to unsafe: %+v, %v", info, err)
	}
}

func TestForkIsOfOneMoment(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		writers, stop := startWriters(t, m, "ctx_a", 2)
		var forks []ID
		for i := range 6 {
			id := ID(fmt.Sprintf("ctx_fork%d", i))
			fork(t, m, "ctx_a", id)
			ensure(t, m, id)
			forks = append(forks, id)
		}
		stop()
		for _, wr := range writers {
			must(t, wr.err)
			last := -1
			for _, id := range forks {
				wr.wantOneMoment(t, w.folder(id))
				n := wr.numbers(t, w.folder(id))[0]
				if n < last {
					t.Errorf("%s is older than the fork before it: %d after %d", id, n, last)
				}
				last = n
			}
			if got := slices.Min(wr.numbers(t, w.folder("ctx_a"))); got < wr.acknowledged || wr.acknowledged == 0 {
				t.Errorf("%d was acknowledged, the context says %d", wr.acknowledged, got)
			}
		}
	})
}

// TestReadersGoOnDuringAFork and writers wait: it stops a fork in its middle.
func TestReadersGoOnDuringAFork(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("app/f", "1")
	w.repo("app")
	still, on := make(chan struct{}), make(chan struct{})
	m := w.open(func(c *Config) {
		c.Events.Step = func(phase string) {
			if phase == "still" {
				close(still)
				<-on
			}
		}
	})
	ensure(t, m, "ctx_a")
	forked := make(chan error, 1)
	go func() {
		_, err := m.Fork(context.Background(), "ctx_a", "ctx_b", EnsureOptions{})
		forked <- err
	}()
	<-still
	a, err := m.Acquire(t.Context(), "ctx_a", Read)
	must(t, err)
	a.Release()
	// clock: the caller gives up, whenever that is
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = m.Acquire(ctx, "ctx_a", Write)
	wantCode(t, err, fserr.EAGAIN, "is being copied")
	wrote := make(chan error, 1)
	go func() {
		a, err := m.Acquire(context.Background(), "ctx_a", Write)
		if err == nil {
			a.Release()
		}
		wrote <- err
	}()
	close(on)
	must(t, <-forked)
	must(t, <-wrote)
}

func TestCloseEndsAFork(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("app/f", "1")
	w.repo("app")
	d := &endless{Driver: w.driver}
	w.driver = d
	m := w.open()
	ensure(t, m, "ctx_a")
	forked := make(chan error, 1)
	go func() {
		_, err := m.Fork(context.Background(), "ctx_a", "ctx_b", EnsureOptions{})
		forked <- err
	}()
	<-d.begun()
	must(t, m.Close())
	if err := <-forked; err == nil {
		t.Error("a fork that was stopped was made")
	}
	_, err := m.Fork(t.Context(), "ctx_a", "ctx_b", EnsureOptions{})
	wantCode(t, err, fserr.ECANCELED, "ctxfs is stopping")
}

// endless is a driver whose duplicates take until they are stopped.
type endless struct {
	driver.Driver
	once  sync.Once
	start chan struct{}
}

func (e *endless) begun() chan struct{} {
	e.once.Do(func() { e.start = make(chan struct{}) })
	return e.start
}

func (e *endless) Duplicate(ctx context.Context, _, _ string, _ func(func(context.Context) error) error) ([]string, error) {
	close(e.begun())
	<-ctx.Done()
	return nil, ctx.Err()
}
