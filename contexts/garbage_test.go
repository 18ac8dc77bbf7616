package contexts

import (
	"slices"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// aged opens a workspace an hour after two contexts were made there.
func aged(t *testing.T, onPhase func(string)) *Manager {
	t.Helper()
	w := newWorkspace(t)
	w.fill("app", 3)
	w.repo("app")
	m := w.open()
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_b")
	must(t, m.Close())
	return w.open(func(c *Config) {
		c.now = func() time.Time { return time.Now().Add(time.Hour) }
		c.onPhase = onPhase
	})
}

func collected(found []Garbage) (ids []string) {
	for _, g := range found {
		if g.Kind == GarbageContext {
			ids = append(ids, g.Name)
		}
	}
	return ids
}

// TestGarbageLooksAgain: while one context is collected another one is deleted and made anew.
func TestGarbageLooksAgain(t *testing.T) {
	var m *Manager
	again := true
	m = aged(t, func(phase string) {
		if phase == "trashed" && again {
			again = false
			_, err := m.Delete(t.Context(), "ctx_b")
			must(t, err)
			ensure(t, m, "ctx_b")
		}
	})
	found, err := m.CollectGarbage(t.Context(), GarbageOptions{Idle: 30 * time.Minute})
	must(t, err)
	if got := collected(found); again || !slices.Equal(got, []string{"ctx_a"}) {
		t.Errorf("collected %q", got)
	}
	if info, err := m.Get(t.Context(), "ctx_b"); err != nil || info.State != StateReady {
		t.Errorf("the context that was just made is %+v, %v", info, err)
	}
}

// TestGarbageGoesOn past a context that this server cannot remove.
func TestGarbageGoesOn(t *testing.T) {
	m := aged(t, func(string) {})
	rec, err := m.cfg.Store.Contexts().Get(t.Context(), "ctx_a")
	must(t, err)
	rec.Driver = "another"
	must(t, m.cfg.Store.Contexts().Update(t.Context(), rec))
	found, err := m.CollectGarbage(t.Context(), GarbageOptions{Idle: 30 * time.Minute})
	wantCode(t, err, fserr.EOPNOTSUPP, "another")
	if got := collected(found); !slices.Equal(got, []string{"ctx_b"}) {
		t.Errorf("collected %q", got)
	}
}

// TestGarbageSparesWhatWasRecovered: when its record was lost, so was when it was used.
func TestGarbageSparesWhatWasRecovered(t *testing.T) {
	m := aged(t, func(string) {})
	must(t, m.cfg.Store.Contexts().Delete(t.Context(), "ctx_a"))
	_, err := m.Repair(t.Context())
	must(t, err)
	found, err := m.CollectGarbage(t.Context(), GarbageOptions{Idle: 30 * time.Minute})
	must(t, err)
	if got := collected(found); !slices.Equal(got, []string{"ctx_b"}) {
		t.Errorf("collected %q", got)
	}
}

// TestRestoreKeepsTheOwner: a panel's first access comes while the copy is made.
func TestRestoreKeepsTheOwner(t *testing.T) {
	w := newWorkspace(t)
	w.fill("app", 3)
	w.repo("app")
	var m *Manager
	m = w.open(func(c *Config) {
		c.onPhase = func(phase string) {
			if phase == "restoring" {
				_, err := m.Ensure(t.Context(), "ctx_a", EnsureOptions{OwnerPanel: "a"}, nil)
				must(t, err)
			}
		}
	})
	before := ensure(t, m, "ctx_a")
	_, err := m.Snapshot(t.Context(), "ctx_a", "s")
	must(t, err)
	info, err := m.Restore(t.Context(), "ctx_a", "s")
	must(t, err)
	kept, err := m.Get(t.Context(), "ctx_a")
	must(t, err)
	if info.OwnerPanel != "a" || kept.OwnerPanel != "a" || kept.Generation <= before.Generation {
		t.Errorf("restored is %+v, kept %+v", info, kept)
	}
}
