package contexts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// aged opens a workspace an hour after two contexts were made there.
func aged(t *testing.T, onPhase func(string)) *Manager {
	t.Helper()
	return agedOn(t, onPhase, func(s metadata.Store) metadata.Store { return s })
}

// agedOn is aged with a store that wrap returns.
func agedOn(t *testing.T, onPhase func(string), wrap func(metadata.Store) metadata.Store) *Manager {
	t.Helper()
	w := newWorkspace(t)
	w.fill("app", 3)
	w.repo("app")
	m := w.open()
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_b")
	must(t, m.Close())
	return w.open(func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Hour) }
		c.Events.Step, c.Store = onPhase, wrap(c.Store)
	})
}

func collected(found []Garbage) (ids []string) {
	for _, g := range found {
		if g.Kind == GarbageContext && g.Err == nil {
			ids = append(ids, g.Name)
		}
	}
	return ids
}

// TestGarbageLooksAgain: while one context is collected another one is deleted and made anew.
func TestGarbageLooksAgain(t *testing.T) {
	t.Parallel()
	var m *Manager
	again := true
	m = aged(t, func(phase string) {
		if phase == "trashed" && again {
			again = false
			_, err := m.Delete(t.Context(), "ctx_b", nil)
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

// TestGarbageSparesWhatWasRecovered: when its record was lost, so was when it was used.
func TestGarbageSparesWhatWasRecovered(t *testing.T) {
	t.Parallel()
	m := aged(t, func(string) {})
	must(t, m.cat.Store.Contexts().Delete(t.Context(), "ctx_a"))
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
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 3)
	w.repo("app")
	var m *Manager
	m = w.open(func(c *Config) {
		c.Events.Step = func(phase string) {
			if phase == "restoring" {
				_, err := m.Ensure(t.Context(), "ctx_a", EnsureOptions{OwnerPanel: "a"}, nil)
				must(t, err)
			}
		}
	})
	before := ensure(t, m, "ctx_a")
	_, err := m.Snapshot(t.Context(), "ctx_a", "s")
	must(t, err)
	info, err := m.Restore(t.Context(), "ctx_a", "s", nil)
	must(t, err)
	kept, err := m.Get(t.Context(), "ctx_a")
	must(t, err)
	if info.OwnerPanel != "a" || kept.OwnerPanel != "a" || kept.Generation <= before.Generation {
		t.Errorf("restored is %+v, kept %+v", info, kept)
	}
}

// TestGarbageHoldsUpNoNewContext makes a context while leftovers are measured and removed, at a collection and at a start.
func TestGarbageHoldsUpNoNewContext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts *GarbageOptions
	}{{"collection", &GarbageOptions{}}, {"dry run", &GarbageOptions{DryRun: true}}, {"start", nil}} {
		t.Run(c.name, func(t *testing.T) {
			w := small(t)
			leave := func() {
				t.Helper()
				for i := range 3 {
					w.fill(filepath.Join(".contexts/.ctxfs/staging", fmt.Sprint("context-", i)), 10)
				}
			}
			clearing, hold := make(chan struct{}, 3), make(chan struct{})
			hooked := func(cfg *Config) {
				cfg.Events.Step = func(phase string) {
					if phase == "clearing" {
						clearing <- struct{}{}
						<-hold
					}
				}
			}
			m := w.open(hooked)
			done := make(chan error, 1)
			leave()
			if c.opts == nil {
				must(t, m.Close())
				m = w.open(hooked)
				close(done)
			} else {
				go func() {
					_, err := m.CollectGarbage(context.Background(), *c.opts)
					done <- err
				}()
			}
			<-clearing
			inTime(t, "a new context", func(ctx context.Context) error {
				_, err := m.Ensure(ctx, "ctx_new", EnsureOptions{}, nil)
				return err
			})
			close(hold)
			must(t, <-done)
			if c.opts == nil || !c.opts.DryRun {
				wantSwept(t, m)
			} else if left, err := filepath.Glob(filepath.Join(m.cat.Layout.Staging, "*-*")); err != nil || len(left) == 0 {
				t.Errorf("staging holds %v, %v", left, err)
			}
		})
	}
}

// TestGarbageIsRemovedWithoutItsCaller cancels a collection when it has moved the garbage out of the way.
func TestGarbageIsRemovedWithoutItsCaller(t *testing.T) {
	t.Parallel()
	w := small(t)
	ctx, cancel := context.WithCancel(t.Context())
	m := w.open(func(cfg *Config) {
		cfg.Events.Step = func(phase string) {
			if phase == "clearing" {
				cancel()
			}
		}
	})
	for i := range 3 {
		w.fill(filepath.Join(".contexts/.ctxfs/staging", fmt.Sprint("context-", i)), 10)
	}
	if _, err := m.CollectGarbage(ctx, GarbageOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the collection ended with %v, want that of its caller", err)
	}
	wantSwept(t, m)
}

// TestGarbageTellsOfEachItem: one that cannot be removed does not hide the others.
func TestGarbageTellsOfEachItem(t *testing.T) {
	t.Parallel()
	m := aged(t, func(string) {})
	rec, err := m.cat.Store.Contexts().Get(t.Context(), "ctx_a")
	must(t, err)
	rec.Driver = "another"
	must(t, m.cat.Store.Contexts().Update(t.Context(), rec))
	found, err := m.CollectGarbage(t.Context(), GarbageOptions{Idle: 30 * time.Minute})
	must(t, err)
	var failed []Garbage
	for _, g := range found {
		if g.Err != nil {
			failed = append(failed, g)
		}
	}
	if got := collected(found); !slices.Equal(got, []string{"ctx_b"}) || len(failed) != 1 || failed[0].Name != "ctx_a" {
		t.Fatalf("collected %q, failed %+v", got, failed)
	}
	wantCode(t, failed[0].Err, fserr.EOPNOTSUPP, "another")
}

// TestARemovedContextIsReportedWithoutItsRecord: the folder is gone, and the record could not be removed, for once or at all.
func TestARemovedContextIsReportedWithoutItsRecord(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		broken error
		failed int
	}{"full disk": {fserr.ENOSPC, 0}, "broken database": {fserr.EIO, 1}} {
		calls := 0
		m := agedOn(t, func(string) {}, func(s metadata.Store) metadata.Store {
			return metadata.Wrap(s, func(ctx context.Context, op string, do func(context.Context) error) error {
				if op == "Contexts.Delete" {
					if calls++; calls == 1 {
						return row.broken
					}
				}
				return do(ctx)
			})
		})
		var removed []ID
		found, err := m.CollectGarbage(t.Context(), GarbageOptions{Idle: 30 * time.Minute, Verdict: func(v Verdict) {
			if v.Removed && v.Bytes > 0 {
				removed = append(removed, v.ID)
			}
		}})
		must(t, err)
		if !slices.Equal(removed, []ID{"ctx_a", "ctx_b"}) || len(collected(found)) != 2-row.failed {
			t.Errorf("%s: removed are %q, found %+v", name, removed, found)
		}
	}
}

// TestAgeAloneSparesLivePanels: without Idle, a context stays as long as a panel has a token for it.
func TestAgeAloneSparesLivePanels(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := aged(t, func(string) {})
	store := m.cat.Store
	now := m.cat.Now()
	for id, expires := range map[ID]time.Time{"ctx_a": now.Add(time.Hour), "ctx_b": now.Add(-time.Second)} {
		must(t, store.Panels().Bind(ctx, metadata.Panel{ID: "panel" + string(id), ContextID: string(id), OpenedAt: now}))
		must(t, store.Tokens().Add(ctx, metadata.Token{
			Hash: [32]byte{id[4]}, PanelID: "panel" + string(id), ContextID: string(id), IssuedAt: now.Add(-time.Hour), ExpiresAt: expires,
		}, now.Add(-time.Hour)))
	}
	for _, dry := range []bool{true, false} {
		found, err := m.CollectGarbage(ctx, GarbageOptions{DryRun: dry, Age: 30 * time.Minute})
		must(t, err)
		if got := collected(found); !slices.Equal(got, []string{"ctx_b"}) {
			t.Errorf("with an age alone it collected %q", got)
		}
	}
	found, err := m.CollectGarbage(ctx, GarbageOptions{Age: 30 * time.Minute, Idle: 30 * time.Minute})
	must(t, err)
	if got := collected(found); !slices.Equal(got, []string{"ctx_a"}) {
		t.Errorf("with an idle time it collected %q", got)
	}
}

// TestObserversKeepNothingFromGarbage: a context that is only looked at is idle, until it is used.
func TestObserversKeepNothingFromGarbage(t *testing.T) {
	t.Parallel()
	m := aged(t, func(string) {})
	idle := func(want ...string) {
		t.Helper()
		found, err := m.CollectGarbage(t.Context(), GarbageOptions{DryRun: true, Idle: 30 * time.Minute})
		must(t, err)
		if got := collected(found); !slices.Equal(got, want) {
			t.Errorf("idle are %q, not %q: %+v", got, want, found)
		}
	}
	look := func(ctx context.Context, id ID) {
		t.Helper()
		a, err := m.Acquire(ctx, id, Read)
		must(t, err)
		a.Release()
	}
	look(Observe(t.Context()), "ctx_a")
	look(t.Context(), "ctx_b")
	idle("ctx_a")
	look(t.Context(), "ctx_a")
	idle()
}
