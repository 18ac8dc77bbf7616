package contexts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

func TestGarbage(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *workspace, m *Manager) {
		must(t, m.Close())
		now := time.Now()
		later := func(d time.Duration) func(*Config) {
			return func(c *Config) { c.Now = func() time.Time { return now.Add(d) } }
		}
		m = w.open(later(0))
		first := ensure(t, m, "ctx_a").Layer
		w.write("app/more", "more")
		if ensure(t, m, "ctx_b").Layer == first {
			t.Fatal("the second context stands on the first one's layer")
		}
		_, err := m.Snapshot(t.Context(), "ctx_a", "s")
		must(t, err)
		_, err = m.Delete(t.Context(), "ctx_a", nil)
		must(t, err)
		must(t, os.Mkdir(filepath.Join(m.cat.Layout.Staging, "context-left"), 0o700))
		must(t, os.MkdirAll(m.cat.Layout.Snapshot("ctx_gone", "s"), 0o700))
		want := []string{"layer " + first, "snapshot ctx_gone", "staging context-left"}
		wantGarbage(t, m, GarbageOptions{DryRun: true}, want...)
		wantGarbage(t, m, GarbageOptions{}, want...)
		wantGarbage(t, m, GarbageOptions{})
		if _, err := os.Lstat(m.seeder.Layers.Dir(first)); !os.IsNotExist(err) {
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
	release, err := m.cat.Locks.Share(t.Context(), catalog.WorkLock)
	must(t, err)
	// clock: the caller gives up, whenever that is
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

func TestGarbageOfTemplates(t *testing.T) {
	w := newWorkspace(t)
	w.write("tools/f", "tool")
	w.repo("tools")
	w.write("one/context-template.yml", "deps: {/t: {repo: tools}}\n")
	w.write("two/context-template.yml", "deps: {/other: {repo: tools}}\n")
	m := w.open()
	one, err := m.Templates().Build(t.Context(), "one", nil)
	must(t, err)
	two, err := m.Templates().Build(t.Context(), "two", nil)
	must(t, err)
	ensure(t, m, ID("safe_tpl_"+one.Hash[:12]+"_a"))
	wantGarbage(t, m, GarbageOptions{DryRun: true}, "layer "+two.Hash)
	wantGarbage(t, m, GarbageOptions{}, "layer "+two.Hash)
	fork(t, m, ID("safe_tpl_"+one.Hash[:12]+"_a"), "ctx_fork")
	_, err = m.Delete(t.Context(), ID("safe_tpl_"+one.Hash[:12]+"_a"), nil)
	must(t, err)
	wantGarbage(t, m, GarbageOptions{}) // the fork stands on it
	_, err = m.Delete(t.Context(), "ctx_fork", nil)
	must(t, err)
	wantGarbage(t, m, GarbageOptions{}, "layer "+one.Hash)
	ensure(t, m, ID("safe_tpl_"+two.Hash[:12]+"_b")) // built anew
}

// TestKilledChecksAreSwept leaves directories as checks do that were killed, and one that a check still has locked.
func TestKilledChecksAreSwept(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	left := filepath.Join(m.cat.Layout.Dir, rootfs.ReservedPrefix+"check-1")
	running := filepath.Join(m.cat.Layout.Dir, rootfs.ReservedPrefix+"check-2")
	must(t, os.MkdirAll(filepath.Join(running, "state"), 0o700))
	release, err := catalog.LockDirectory(t.Context(), running)
	must(t, err)
	defer release()
	for _, how := range []string{"start", "collection", "repair"} {
		must(t, os.MkdirAll(filepath.Join(left, "folder"), 0o700))
		switch how {
		case "start":
			must(t, m.Close())
			m = w.open()
		case "collection":
			wantGarbage(t, m, GarbageOptions{DryRun: true}, "staging "+filepath.Base(left))
			wantGarbage(t, m, GarbageOptions{}, "staging "+filepath.Base(left))
		case "repair":
			_, err := m.Repair(t.Context())
			must(t, err)
		}
		if _, err := os.Lstat(left); !os.IsNotExist(err) {
			t.Errorf("after a %s it is there: %v", how, err)
		}
		if _, err := os.Lstat(running); err != nil {
			t.Errorf("a %s took the one that runs: %v", how, err)
		}
	}
}
