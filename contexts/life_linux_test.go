package contexts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// eachDriver runs a test in a workspace of every driver, with the context ctx_a in it.
func eachDriver(t *testing.T, f func(t *testing.T, w *workspace, m *Manager)) {
	t.Helper()
	t.Run("copy", func(t *testing.T) {
		w := newWorkspace(t)
		w.fill("app", 60)
		w.repo("app")
		m := w.open()
		ensure(t, m, "ctx_a")
		f(t, w, m)
	})
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
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		put(t, m, "ctx_a", "app/d1/f1.txt", "changed")
		put(t, m, "ctx_a", "app/new", "new")
		held := open(t, m, "ctx_a", "app/new")
		want := tree(t, w.folder("ctx_a"))
		before, err := m.Get(t.Context(), "ctx_a")
		must(t, err)

		info := fork(t, m, "ctx_a", "ctx_b")
		if info.State != StateReady || info.ForkedFrom != "ctx_a" || info.Driver != before.Driver || info.Layer != before.Layer || info.Files != before.Files {
			t.Errorf("forked %+v from %+v", info, before)
		}
		e := ensure(t, m, "ctx_b")
		if e.Seeded || e.ForkedFrom != "ctx_a" {
			t.Errorf("the first access seeded the fork, or forgot its parent: %+v", e)
		}
		sameTree(t, tree(t, w.folder("ctx_b")), want)

		// Both go on apart, and what was open stays so.
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
		_, err = m.Delete(t.Context(), "ctx_a")
		must(t, err)
		wantFile(t, m, "ctx_c", "app/d1/f1.txt", "the fork's")
		if left := entriesOf(t, m.layout.Staging); len(left) != 1 {
			t.Errorf("staging holds %v", left)
		}
	})
}

func entriesOf(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestForkRefuses(t *testing.T) {
	w := newWorkspace(t)
	m := w.open()
	for _, id := range []ID{"ctx_a", "ctx_b", "unsafe_noctx_u"} {
		ensure(t, m, id)
	}
	_, err := m.Ensure(t.Context(), "ctx_owned", EnsureOptions{OwnerPanel: "owned"}, nil)
	must(t, err)
	_, err = m.Delete(t.Context(), "ctx_owned")
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

// writer writes ever higher numbers into its files, one after the other, and stops when one cannot be written.
type writer struct {
	m     *Manager
	id    ID
	dir   string
	files int
	// acknowledged is the last number of which all files were written.
	acknowledged int
	// made is the last number of each file, and in which generation of the context it was written.
	made map[int]made
	err  error
}

type made struct {
	n          int
	generation uint64
}

func (w *writer) run(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		for i := range w.files {
			if w.err = w.write(i, n); w.err != nil {
				return
			}
		}
		w.acknowledged = n
	}
}

// write replaces a file's content as a call of a client does.
func (w *writer) write(i, n int) error {
	a, err := w.m.Acquire(context.Background(), w.id, Write)
	if err != nil {
		return err
	}
	defer a.Release()
	f, err := a.Root.OpenFile(fmt.Sprintf("%s/%d", w.dir, i), rootfs.O_WRONLY|rootfs.O_CREAT, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err = f.WriteAt(fmt.Appendf(nil, "%08d", n), 0); err == nil {
		w.made[i] = made{n, a.Generation}
	}
	return err
}

// numbers reads what the writer's files say in a folder; missing ones say 0.
func (w *writer) numbers(t testing.TB, folder string) []int {
	t.Helper()
	out := make([]int, w.files)
	for i := range out {
		data, err := os.ReadFile(filepath.Join(folder, w.dir, strconv.Itoa(i)))
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		if out[i], err = strconv.Atoi(string(data)); err != nil {
			t.Fatalf("%s/%d is torn: %q", w.dir, i, data)
		}
	}
	return out
}

// wantOneMoment checks that a copy has every write up to some moment and none after it.
func (w *writer) wantOneMoment(t testing.TB, folder string) {
	t.Helper()
	got := w.numbers(t, folder)
	if !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) || got[0]-got[len(got)-1] > 1 {
		t.Errorf("%s/%s is of more than one moment: %v", folder, w.dir, got)
	}
}

// startWriters begins to write into a context; stop ends that.
func startWriters(t testing.TB, m *Manager, id ID, n int) (writers []*writer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		w := &writer{m: m, id: id, dir: fmt.Sprintf("w%d", i), files: 40, made: map[int]made{}}
		a, err := m.Acquire(ctx, id, Write)
		must(t, err)
		must(t, a.Root.Mkdir(w.dir, 0o755))
		a.Release()
		writers = append(writers, w)
		wg.Go(func() { w.run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return writers, stop
}

func TestForkIsOfOneMoment(t *testing.T) {
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
	w := newWorkspace(t)
	w.write("app/f", "1")
	w.repo("app")
	still, on := make(chan struct{}), make(chan struct{})
	m := w.open(func(c *Config) {
		c.onPhase = func(phase string) {
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
	w := newWorkspace(t)
	w.write("app/f", "1")
	w.repo("app")
	m := w.open(func(c *Config) { c.Driver = &endless{Driver: c.Driver} })
	ensure(t, m, "ctx_a")
	forked := make(chan error, 1)
	go func() {
		_, err := m.Fork(context.Background(), "ctx_a", "ctx_b", EnsureOptions{})
		forked <- err
	}()
	<-m.cfg.Driver.(*endless).begun()
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

func (e *endless) Duplicate(ctx context.Context, _, _ string, _ func(driver.Progress)) ([]string, error) {
	close(e.begun())
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSnapshots(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		put(t, m, "ctx_a", "app/d1/f1.txt", "first")
		want := tree(t, w.folder("ctx_a"))
		s, err := m.Snapshot(t.Context(), "ctx_a", "one")
		must(t, err)
		if s.Name != "one" || s.TakenAt.IsZero() || s.Bytes == 0 {
			t.Errorf("took %+v", s)
		}
		put(t, m, "ctx_a", "app/d1/f1.txt", "second")
		put(t, m, "ctx_a", "app/d1/f2.txt", "second")
		second := tree(t, w.folder("ctx_a"))
		_, err = m.Snapshot(t.Context(), "ctx_a", "two")
		must(t, err)
		all, err := m.Snapshots(t.Context(), "ctx_a")
		if err != nil || len(all) != 2 || all[0].Name != "one" || all[1].Name != "two" {
			t.Errorf("snapshots are %+v, %v", all, err)
		}

		before, err := m.Acquire(t.Context(), "ctx_a", Read)
		must(t, err)
		generation := before.Generation
		before.Release()
		for _, c := range []struct {
			name string
			want map[string]string
		}{{"one", want}, {"two", second}, {"one", want}} {
			info, err := m.Restore(t.Context(), "ctx_a", c.name)
			must(t, err)
			generation++
			if info.Generation != generation {
				t.Errorf("generation %d after a restore, want %d", info.Generation, generation)
			}
			ensure(t, m, "ctx_a") // which shows it
			sameTree(t, tree(t, w.folder("ctx_a")), c.want)
			after, err := m.Acquire(t.Context(), "ctx_a", Read)
			must(t, err)
			after.Release()
			if after.Generation != generation {
				t.Errorf("the gate has generation %d, want %d", after.Generation, generation)
			}
			put(t, m, "ctx_a", "app/d1/f3.txt", "lost")
		}

		// They outlive the server, and go with the context.
		must(t, m.Close())
		m = w.open()
		must(t, m.DeleteSnapshot(t.Context(), "ctx_a", "one"))
		_, err = m.Restore(t.Context(), "ctx_a", "one")
		wantCode(t, err, fserr.ENOENT, `'ctx_a' has no snapshot "one"`)
		_, err = m.Restore(t.Context(), "ctx_a", "two")
		must(t, err)
		_, err = m.Delete(t.Context(), "ctx_a")
		must(t, err)
		ensure(t, m, "ctx_a")
		if all, err := m.Snapshots(t.Context(), "ctx_a"); err != nil || len(all) != 0 {
			t.Errorf("a new context has the snapshots %+v of an old one, %v", all, err)
		}
		if left := entriesOf(t, m.layout.Staging); len(left) != 1 {
			t.Errorf("staging holds %v", left)
		}
	})
}

func TestSnapshotRefuses(t *testing.T) {
	w := newWorkspace(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	_, err := m.Snapshot(t.Context(), "ctx_a", "Taken")
	must(t, err)
	for _, c := range []struct {
		name string
		id   ID
		code fserr.Code
		says string
	}{
		{"taken", "ctx_a", fserr.EEXIST, `has a snapshot "Taken" already`},
		{"Taken", "ctx_none", fserr.ESTALE, "does not exist"},
		{"", "ctx_a", fserr.EINVAL, "bad name"},
		{"..", "ctx_a", fserr.EINVAL, "bad name"},
		{"../../../etc", "ctx_a", fserr.EINVAL, "bad name"},
		{"a/b", "ctx_a", fserr.EINVAL, "bad name"},
		{"nul\x00", "ctx_a", fserr.EINVAL, "bad name"},
		{strings.Repeat("n", 65), "ctx_a", fserr.EINVAL, "bad name"},
	} {
		_, err := m.Snapshot(t.Context(), c.id, c.name)
		wantCode(t, err, c.code, c.says)
	}
	for _, name := range []string{"none", "..", ""} {
		_, err := m.Restore(t.Context(), "ctx_a", name)
		if err == nil {
			t.Errorf("%q was restored", name)
		}
		if err := m.DeleteSnapshot(t.Context(), "ctx_a", name); err == nil {
			t.Errorf("%q was deleted", name)
		}
	}
	must(t, os.WriteFile(filepath.Join(m.layout.Snapshot("ctx_a", "Taken"), snapshotFile), []byte("{"), 0o600))
	_, err = m.Restore(t.Context(), "ctx_a", "Taken")
	wantCode(t, err, fserr.EIO, "damaged")
}

// TestRestoreWhileAClientWrites: every acknowledged write is in exactly the tree it was made to.
func TestRestoreWhileAClientWrites(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		writers, stop := startWriters(t, m, "ctx_a", 2)
		_, err := m.Snapshot(t.Context(), "ctx_a", "s")
		must(t, err)
		var last Info
		for range 4 {
			last, err = m.Restore(t.Context(), "ctx_a", "s")
			must(t, err)
		}
		fork(t, m, "ctx_a", "ctx_b")
		stop()
		ensure(t, m, "ctx_a")
		got := make([][]int, len(writers))
		for i, wr := range writers {
			must(t, wr.err)
			got[i] = wr.numbers(t, w.folder("ctx_a"))
		}
		_, err = m.Restore(t.Context(), "ctx_a", "s")
		must(t, err)
		ensure(t, m, "ctx_a")
		for i, wr := range writers {
			wr.wantOneMoment(t, w.folder("ctx_a"))
			kept := wr.numbers(t, w.folder("ctx_a"))
			for file, n := range got[i] {
				want := kept[file]
				if wr.made[file].generation == last.Generation {
					want = wr.made[file].n
				}
				if n != want {
					t.Errorf("%s/%d says %d, want %d: %+v was acknowledged, the snapshot has %d", wr.dir, file, n, want, wr.made[file], kept[file])
				}
			}
		}
	})
}

func TestGarbage(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		must(t, m.Close())
		now := time.Now()
		later := func(d time.Duration) func(*Config) {
			return func(c *Config) { c.now = func() time.Time { return now.Add(d) } }
		}
		m = w.open(later(0))
		first := ensure(t, m, "ctx_a").Layer
		w.write("app/more", "more")
		if ensure(t, m, "ctx_b").Layer == first {
			t.Fatal("the second context stands on the first one's layer")
		}
		_, err := m.Snapshot(t.Context(), "ctx_a", "s")
		must(t, err)
		_, err = m.Delete(t.Context(), "ctx_a")
		must(t, err)
		must(t, os.Mkdir(filepath.Join(m.layout.Staging, "context-left"), 0o700))
		must(t, os.MkdirAll(m.layout.Snapshot("ctx_gone", "s"), 0o700))
		want := []string{"layer " + first, "snapshot ctx_gone", "staging context-left"}
		wantGarbage(t, m, GarbageOptions{DryRun: true}, want...)
		wantGarbage(t, m, GarbageOptions{}, want...)
		wantGarbage(t, m, GarbageOptions{})
		if _, err := os.Lstat(m.layers.Dir(first)); !os.IsNotExist(err) {
			t.Errorf("the layer is still there: %v", err)
		}

		// Contexts only when asked for, and never one that was just used.
		wantGarbage(t, m, GarbageOptions{Age: 1, Idle: 1})
		must(t, m.Close())
		m = w.open(later(time.Hour))
		wantGarbage(t, m, GarbageOptions{Age: 2 * time.Hour})
		wantGarbage(t, m, GarbageOptions{Idle: 2 * time.Hour})
		wantGarbage(t, m, GarbageOptions{DryRun: true, Idle: 59 * time.Minute}, "context ctx_b")
		a, err := m.Acquire(t.Context(), "ctx_b", Read)
		must(t, err)
		wantGarbage(t, m, GarbageOptions{Idle: time.Minute})
		a.Release()
		must(t, m.Close())
		m = w.open(later(90 * time.Minute))
		wantGarbage(t, m, GarbageOptions{Age: time.Minute, Idle: 40 * time.Minute}) // its use an hour ago was written down
		wantGarbage(t, m, GarbageOptions{Age: time.Minute, Idle: 20 * time.Minute}, "context ctx_b")
		if info, err := m.Get(t.Context(), "ctx_b"); err != nil || info.State != StateMissing {
			t.Errorf("collected is %+v, %v", info, err)
		}
	})
}

func wantGarbage(t *testing.T, m *Manager, opts GarbageOptions, want ...string) {
	t.Helper()
	found, err := m.CollectGarbage(t.Context(), opts)
	must(t, err)
	var got []string
	for _, g := range found {
		got = append(got, fmt.Sprintf("%s %s", g.Kind, g.Name))
		if g.Bytes <= 0 {
			t.Errorf("%s %s takes %d bytes", g.Kind, g.Name, g.Bytes)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("collected %q, want %q (%+v)", got, want, opts)
	}
}

func TestGarbageWaitsForSeedings(t *testing.T) {
	w := newWorkspace(t)
	m := w.open()
	release, err := m.locks.work(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.CollectGarbage(ctx, GarbageOptions{}); err == nil {
		t.Error("garbage was collected while a context was made")
	}
	release()
	wantGarbage(t, m, GarbageOptions{})
}

func TestSizes(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		before, err := m.Sizes(t.Context(), "ctx_a")
		must(t, err)
		put(t, m, "ctx_a", "app/big", strings.Repeat("x", 1<<20))
		after, err := m.Sizes(t.Context(), "ctx_a")
		must(t, err)
		if grown := after.Own - before.Own; grown < 1<<20 || grown > 1<<20+64<<10 {
			t.Errorf("a file of 1 MiB made %+v of %+v", after, before)
		}
		_, mounts := w.driver.(driver.Mounter)
		if shared := after.Shared > 0; shared != mounts {
			t.Errorf("shared is %d", after.Shared)
		}
		_, err = m.Snapshot(t.Context(), "ctx_a", "s")
		must(t, err)
		last, err := m.Sizes(t.Context(), "ctx_a")
		if err != nil || last.Snapshots < 1<<20 || last.Own != after.Own {
			t.Errorf("with a snapshot it is %+v, %v", last, err)
		}
		_, err = m.Sizes(t.Context(), "ctx_none")
		wantCode(t, err, fserr.ESTALE)
	})
}

// TestKillDuringLife kills at each phase of a fork, a snapshot and a restore: each has happened or has not.
func TestKillDuringLife(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *workspace{"copy": newWorkspace, "overlay": newOverlaid} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.fill("app", 60)
			w.sqlite()
			for i, phase := range lifePhases {
				w.killDuringLife(ID(fmt.Sprintf("ctx_%d", i)), phase)
			}
		})
	}
}

func (w *workspace) killDuringLife(id ID, phase string) {
	t := w.t
	t.Helper()
	m := w.open()
	ensure(t, m, id)
	put(t, m, id, "kept", "in the snapshot")
	kept := tree(t, w.folder(id))
	_, err := m.Snapshot(t.Context(), id, "s")
	must(t, err)
	put(t, m, id, "kept", "changed since")
	changed := tree(t, w.folder(id))
	must(t, m.Close())
	w.killAt(id, phase)

	m = w.open()
	want := changed
	if phase == "swapped" {
		want = kept
	}
	ensure(t, m, id)
	sameTree(t, tree(t, w.folder(id)), want)
	forked, err := m.Get(t.Context(), id+"-fork")
	must(t, err)
	if made := phase == "fork-renamed"; made != (forked.State == StateReady) {
		t.Errorf("killed at %s the fork is %s", phase, forked.State)
	} else if made {
		ensure(t, m, id+"-fork")
		sameTree(t, tree(t, w.folder(id+"-fork")), changed)
	}
	all, err := m.Snapshots(t.Context(), id)
	if err != nil || len(all) != 1 {
		t.Errorf("killed at %s there are the snapshots %+v, %v", phase, all, err)
	}
	_, err = m.Restore(t.Context(), id, "s")
	must(t, err)
	ensure(t, m, id)
	sameTree(t, tree(t, w.folder(id)), kept)
	if left := entriesOf(t, m.layout.Staging); len(left) != 1 {
		t.Errorf("killed at %s staging holds %v", phase, left)
	}
	must(t, m.Close())
}

func TestGarbageOfTemplates(t *testing.T) {
	w := newWorkspace(t)
	w.write("tools/f", "tool")
	w.repo("tools")
	w.write("one/context-template.yml", "deps: {/t: {repo: tools}}\n")
	w.write("two/context-template.yml", "deps: {/other: {repo: tools}}\n")
	m := w.open()
	one, err := m.BuildTemplate(t.Context(), "one", nil)
	must(t, err)
	two, err := m.BuildTemplate(t.Context(), "two", nil)
	must(t, err)
	ensure(t, m, ID("safe_tpl_"+one.Hash[:12]+"_a"))
	wantGarbage(t, m, GarbageOptions{DryRun: true}, "layer "+two.Hash)
	wantGarbage(t, m, GarbageOptions{}, "layer "+two.Hash)
	fork(t, m, ID("safe_tpl_"+one.Hash[:12]+"_a"), "ctx_fork")
	_, err = m.Delete(t.Context(), ID("safe_tpl_"+one.Hash[:12]+"_a"))
	must(t, err)
	wantGarbage(t, m, GarbageOptions{}) // the fork stands on it
	_, err = m.Delete(t.Context(), "ctx_fork")
	must(t, err)
	wantGarbage(t, m, GarbageOptions{}, "layer "+one.Hash)
	ensure(t, m, ID("safe_tpl_"+two.Hash[:12]+"_b")) // built anew
}
