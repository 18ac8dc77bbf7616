package contexts

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata/memory"
)

// madeOf returns the Spec of a context that is seeded from folders.
func madeOf(t testing.TB, from ...string) Spec {
	t.Helper()
	s, err := NewSpec(from, zones.Layout{})
	must(t, err)
	return s
}

func wantSpec(t testing.TB, m *Manager, id ID, want Spec) {
	t.Helper()
	if got, err := m.Spec(t.Context(), id); err != nil || !got.Equal(want) {
		t.Errorf("%s is made of %s, %v; want %s", id, got, err, want)
	}
}

// twoRepositories is a workspace with the repositories app and lib.
func twoRepositories(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t)
	w.fill("app/src", 30)
	w.fill("lib/core/src", 30)
	w.repo("app")
	w.repo("lib")
	return w
}

func TestContextKeepsWhatItIsMadeOf(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	spec, err := NewSpec([]string{"lib/core/", "app"}, zones.Layout{Mode: zones.Sandboxed, Zones: []zones.Zone{
		{Path: "/work", From: []string{zones.Repositories}}, {Path: "/cache", NeverCommit: true, MaxBytes: 1 << 20},
	}})
	must(t, err)
	m := w.open()
	_, err = m.Ensure(t.Context(), "ctx_a", EnsureOptions{Spec: spec}, nil)
	must(t, err)
	wantSpec(t, m, "ctx_a", spec)
	ensure(t, m, "ctx_b")
	wantSpec(t, m, "ctx_b", Spec{})

	fork(t, m, "ctx_a", "ctx_fork")
	_, err = m.Snapshot(t.Context(), "ctx_a", "s")
	must(t, err)
	_, err = m.Restore(t.Context(), "ctx_a", "s", nil)
	must(t, err)
	must(t, m.Close())

	w.store = memory.New() // the database was lost
	m = w.open()
	_, err = m.Repair(t.Context())
	must(t, err)
	for _, id := range []ID{"ctx_a", "ctx_fork"} {
		wantSpec(t, m, id, spec)
		_, err = m.Delete(t.Context(), id, nil)
		must(t, err)
		_, err = m.Spec(t.Context(), id)
		wantCode(t, err, fserr.ESTALE)
		ensure(t, m, id)
		wantSpec(t, m, id, Spec{})
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, ".contexts", ".ctxfs", "specs"))
	if err != nil || len(entries) > 0 {
		t.Errorf("%v stay after the contexts, %v", entries, err)
	}
}

func TestContextIsOfAnotherSpec(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	m := w.open()
	_, err := m.Ensure(t.Context(), "ctx_a", EnsureOptions{Spec: madeOf(t, "app")}, nil)
	must(t, err)
	for _, again := range []Spec{{}, madeOf(t, "app"), madeOf(t, "./app/", "app/src")} {
		_, err = m.Ensure(t.Context(), "ctx_a", EnsureOptions{Spec: again}, nil)
		must(t, err)
	}
	_, err = m.Ensure(t.Context(), "ctx_a", EnsureOptions{OwnerPanel: "a", Spec: madeOf(t, "lib")}, nil)
	wantCode(t, err, fserr.EEXIST, "'ctx_a' is made of app, not of lib", "delete the context")
	if info, err := m.Get(t.Context(), "ctx_a"); err != nil || info.OwnerPanel != "" {
		t.Errorf("a panel that was refused owns the context: %q, %v", info.OwnerPanel, err)
	}
	ensure(t, m, "ctx_b")
	_, err = m.Ensure(t.Context(), "ctx_b", EnsureOptions{Spec: madeOf(t, "lib")}, nil)
	wantCode(t, err, fserr.EEXIST, "'ctx_b' is made of all repositories, not of lib")
}

func TestFirstAccessesWithTwoSpecs(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	held := newCounting()
	held.hold = make(chan struct{})
	w.driver = held
	m := w.open()
	specs := []Spec{madeOf(t, "app"), madeOf(t, "lib")}
	errs := make([]error, len(specs))
	var callers sync.WaitGroup
	for i, spec := range specs {
		callers.Go(func() { _, errs[i] = m.Ensure(t.Context(), "ctx_a", EnsureOptions{Spec: spec}, nil) })
	}
	close(held.hold)
	callers.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			wantSpec(t, m, "ctx_a", specs[i])
			continue
		}
		wantCode(t, err, fserr.EEXIST, "is made of")
	}
	if won != 1 || held.n.Load() != 1 {
		t.Errorf("%d of two callers have the context that %d seedings made: %v", won, held.n.Load(), errs)
	}
}

// A panel's next access after a failed seeding asks for nothing. It must not get the whole workspace.
func TestFailedSeedingKeepsTheSpec(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	failing := newCounting()
	failing.fail.Store(true)
	w.driver = failing
	m := w.open(func(c *Config) { c.Pool = 0 })
	spec := madeOf(t, "app")
	_, err := m.Ensure(t.Context(), "ctx_a", EnsureOptions{Spec: spec}, nil)
	wantCode(t, err, fserr.EIO)
	must(t, m.Close())
	failing.fail.Store(false)
	m = w.open()
	ensure(t, m, "ctx_a")
	wantSpec(t, m, "ctx_a", spec)
}

func TestBadSpecs(t *testing.T) {
	t.Parallel()
	sandboxed := func(zs ...zones.Zone) zones.Layout { return zones.Layout{Mode: zones.Sandboxed, Zones: zs} }
	for name, c := range map[string]struct {
		from   []string
		layout zones.Layout
		want   string
	}{
		"empty":                  {[]string{""}, zones.Layout{}, "no path relative"},
		"absolute":               {[]string{"/etc"}, zones.Layout{}, "no path relative"},
		"above":                  {[]string{"app/../.."}, zones.Layout{}, "no path relative"},
		"back in":                {[]string{"app/../lib"}, zones.Layout{}, "no path relative"},
		"NUL":                    {[]string{"a\x00"}, zones.Layout{}, "no path relative"},
		"git's own":              {[]string{"app/.git/hooks"}, zones.Layout{}, ".git is never seeded"},
		"contexts":               {[]string{".contexts/ctx_a"}, zones.Layout{}, ".contexts is never seeded"},
		"zone from a bad folder": {nil, sandboxed(zones.Zone{Path: "/w", From: []string{"../x"}}), "no path relative"},
		"two scopes":             {[]string{"app"}, sandboxed(zones.Zone{Path: "/w", From: []string{"lib"}}), "zone /w is seeded from lib, and the context from app"},
		"no zone for a scope":    {[]string{"app"}, sandboxed(zones.Zone{Path: "/w"}), "no zone says that it is seeded"},
	} {
		_, err := NewSpec(c.from, c.layout)
		if fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%s: got %v, want EINVAL", name, err)
			continue
		}
		wantCode(t, err, fserr.EINVAL, c.want)
	}
	spec := madeOf(t, "app")
	wantCode(t, spec.Fits("safe_tpl_0123456789ab_a"), fserr.EINVAL, "made from a template")
	zoned, err := NewSpec(nil, zones.Layout{Mode: zones.Sandboxed, Zones: []zones.Zone{{Path: "/workspace", From: []string{zones.Repositories}}}})
	must(t, err)
	wantCode(t, zoned.Fits("safe_tpl_0123456789ab_a"), fserr.EINVAL, "cannot have zones")
	wantCode(t, zoned.Fits("unsafe_noctx_a"), fserr.EINVAL, "/workspace is seeded")
	wantCode(t, spec.Fits("unsafe_noctx_a"), fserr.EINVAL, "starts empty")
	must(t, spec.Fits("ctx_a"))
}
