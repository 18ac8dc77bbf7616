package contexts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// hall is a Manager whose clock a test sets.
type hall struct {
	*Manager
	t      *testing.T
	passed atomic.Int64
	// step, if not nil, is called at each step of a change.
	step atomic.Pointer[func(step string)]
}

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{t: t}
	w := newWorkspace(t)
	w.fill("app", 1)
	w.repo("app")
	h.Manager = w.open(func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(h.passed.Load())) }
		c.Events.Step = func(step string) {
			if f := h.step.Load(); f != nil {
				(*f)(step)
			}
		}
	})
	return h
}

func (h *hall) pass(d time.Duration) { h.passed.Add(int64(d)) }

// use begins and ends an operation.
func (h *hall) use(id ID) {
	h.t.Helper()
	a, err := h.Acquire(h.t.Context(), id, Read)
	must(h.t, err)
	a.Release()
}

// token gives a context a panel with a token.
func (h *hall) token(id ID, life time.Duration) {
	h.t.Helper()
	now, store := h.cat.Now(), h.cat.Store
	must(h.t, store.Panels().Bind(h.t.Context(), metadata.Panel{ID: "of " + string(id), ContextID: string(id), OpenedAt: now}))
	must(h.t, store.Tokens().Add(h.t.Context(), metadata.Token{Hash: [32]byte{id[4], 1}, PanelID: "of " + string(id), ContextID: string(id), IssuedAt: now, ExpiresAt: now.Add(life)}, now))
}

// collect returns the verdicts as text: "request" for a context that was removed by that rule, "stays: token, handle" for others.
func (h *hall) collect(opts GarbageOptions) map[ID]string {
	h.t.Helper()
	out := map[ID]string{}
	opts.Verdict = func(v Verdict) {
		text := string(v.Rule)
		if !v.Removed {
			reasons := make([]string, len(v.Kept))
			for i, k := range v.Kept {
				reasons[i] = string(k.Reason)
				if k.Text == "" {
					h.t.Errorf("%s: reason %s has no text", v.ID, k.Reason)
				}
			}
			text = "stays: " + strings.Join(reasons, ", ")
		}
		out[v.ID] = text
	}
	_, err := h.CollectGarbage(h.t.Context(), opts)
	must(h.t, err)
	return out
}

func (h *hall) want(what string, got, want map[ID]string) {
	h.t.Helper()
	if !maps.Equal(got, want) {
		h.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// left are the contexts that exist.
func (h *hall) left() (ids []ID) {
	h.t.Helper()
	list, err := h.List(h.t.Context())
	must(h.t, err)
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}

// TestRulesOfACollection has ctx_old, made 40 h ago, used 20 h ago; ctx_used, made 40 h ago, used 1 h ago; ctx_panel as ctx_old with a panel's token; and
// ctx_new, made 1 h ago.
func TestRulesOfACollection(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	for _, id := range []ID{"ctx_old", "ctx_used", "ctx_panel"} {
		ensure(t, h.Manager, id)
	}
	h.token("ctx_panel", 100*time.Hour)
	h.pass(20 * time.Hour)
	h.use("ctx_old")
	h.use("ctx_panel")
	h.pass(19 * time.Hour)
	h.use("ctx_used")
	h.pass(time.Minute)
	ensure(t, h.Manager, "ctx_new")
	h.pass(time.Hour)
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		opts GarbageOptions
		want map[ID]string
	}{
		"none":         {GarbageOptions{}, map[ID]string{"ctx_old": "no_rule", "ctx_used": "no_rule", "ctx_panel": "no_rule", "ctx_new": "no_rule"}},
		"age":          {GarbageOptions{Age: day}, map[ID]string{"ctx_old": "request", "ctx_used": "request", "ctx_panel": "token", "ctx_new": "too_young"}},
		"idle":         {GarbageOptions{Idle: 2 * time.Hour}, map[ID]string{"ctx_old": "request", "ctx_used": "recently_used", "ctx_panel": "request", "ctx_new": "recently_used"}},
		"age and idle": {GarbageOptions{Age: 30 * time.Minute, Idle: 30 * time.Minute}, map[ID]string{"ctx_old": "request", "ctx_used": "request", "ctx_panel": "request", "ctx_new": "request"}},
		"TTL":          {GarbageOptions{TTL: day}, map[ID]string{"ctx_old": "ttl", "ctx_used": "ttl", "ctx_panel": "token", "ctx_new": "too_young"}},
		"idle TTL":     {GarbageOptions{IdleTTL: 2 * time.Hour}, map[ID]string{"ctx_old": "idle_ttl", "ctx_used": "recently_used", "ctx_panel": "idle_ttl", "ctx_new": "recently_used"}},
		"both TTLs":    {GarbageOptions{TTL: day, IdleTTL: 2 * time.Hour}, map[ID]string{"ctx_old": "idle_ttl", "ctx_used": "ttl", "ctx_panel": "idle_ttl", "ctx_new": "recently_used"}},
		"size, below":  {GarbageOptions{MaxBytes: 400, Size: hundred}, map[ID]string{"ctx_old": "under_limit", "ctx_used": "under_limit", "ctx_panel": "under_limit", "ctx_new": "under_limit"}},
		"size, by one": {GarbageOptions{MaxBytes: 399, Size: hundred}, map[ID]string{"ctx_old": "max_bytes", "ctx_used": "under_limit", "ctx_panel": "under_limit", "ctx_new": "under_limit"}},
		"size, two of": {GarbageOptions{MaxBytes: 250, Size: hundred}, map[ID]string{"ctx_old": "max_bytes", "ctx_panel": "token", "ctx_used": "max_bytes", "ctx_new": "under_limit"}},
		"size after TTL": {
			GarbageOptions{IdleTTL: 2 * time.Hour, MaxBytes: 100, Size: hundred},
			map[ID]string{"ctx_old": "idle_ttl", "ctx_panel": "idle_ttl", "ctx_used": "max_bytes", "ctx_new": "under_limit"},
		},
		"forced": {GarbageOptions{Age: day, Force: true}, map[ID]string{"ctx_old": "request", "ctx_used": "request", "ctx_panel": "request", "ctx_new": "too_young"}},
	} {
		c.opts.DryRun = true
		got := h.collect(c.opts)
		for id, text := range got {
			first, _, _ := strings.Cut(strings.TrimPrefix(text, "stays: "), ",")
			got[id] = first
		}
		h.want(name, got, c.want)
	}
	if len(h.left()) != 4 {
		t.Errorf("dry runs left %v", h.left())
	}
	h.want("idle TTL", h.collect(GarbageOptions{IdleTTL: 2 * time.Hour}), map[ID]string{"ctx_old": "idle_ttl", "ctx_panel": "idle_ttl"})
	h.want("size", h.collect(GarbageOptions{MaxBytes: 100, Size: hundred}), map[ID]string{"ctx_used": "max_bytes"})
	if got := h.left(); !slices.Equal(got, []ID{"ctx_new"}) {
		t.Errorf("left are %v", got)
	}
}

// hundred takes every context to have 100 bytes.
func hundred(context.Context, ID) (int64, error) { return 100, nil }

func TestCollectionSelectsByLabels(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	for id, set := range map[ID]map[string]string{"ctx_a": {"task": "1"}, "ctx_b": {"task": "1", "keep": ""}, "ctx_c": nil} {
		_, err := h.Ensure(t.Context(), id, EnsureOptions{Labels: set}, nil)
		must(t, err)
	}
	h.pass(time.Hour)
	by := func(terms ...string) labels.Selector {
		s, err := labels.Parse(terms)
		must(t, err)
		return s
	}
	h.want("by label", h.collect(GarbageOptions{DryRun: true, IdleTTL: time.Minute, Labels: by("task=1", "!keep")}), map[ID]string{"ctx_a": "idle_ttl"})
	// Contexts that are not selected count for the limit, and stay.
	h.want("by size", h.collect(GarbageOptions{MaxBytes: 200, Size: hundred, Labels: by("keep")}), map[ID]string{"ctx_b": "max_bytes"})
	if got := h.left(); !slices.Equal(got, []ID{"ctx_a", "ctx_c"}) {
		t.Errorf("left are %v", got)
	}
}

// TestWhatHoldsAContextKeepsIt has a context that each rule selects, and that something holds.
func TestWhatHoldsAContextKeepsIt(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	ensure(t, h.Manager, "ctx_a")
	a, err := h.Acquire(t.Context(), "ctx_a", Read)
	must(t, err)
	h.pass(100 * time.Hour)
	rules := map[string]GarbageOptions{
		"request": {Idle: time.Hour}, "ttl": {TTL: time.Hour}, "idle_ttl": {IdleTTL: time.Hour}, "max_bytes": {MaxBytes: 1, Size: hundred},
	}
	for rule, opts := range rules {
		h.want("an operation, "+rule, h.collect(opts), map[ID]string{"ctx_a": "stays: operation"})
	}
	a.Release()
	for _, reason := range []KeepReason{KeepSession, KeepHandle, KeepProcess, KeepSubmitted, KeepDecisions, KeepStaged, KeepSite} {
		for rule, opts := range rules {
			opts.Look = func(context.Context) (Holds, error) {
				return func(_ context.Context, id ID, _ []string) ([]Kept, error) {
					return []Kept{{Reason: reason, Text: "held: " + string(id)}}, nil
				}, nil
			}
			h.want(rule, h.collect(opts), map[ID]string{"ctx_a": "stays: " + string(reason)})
		}
	}
	broken := &fserr.Error{Code: fserr.EIO}
	for name, look := range map[string]func(context.Context) (Holds, error){
		"a look": func(context.Context) (Holds, error) { return nil, broken },
		"a context": func(context.Context) (Holds, error) {
			return func(context.Context, ID, []string) ([]Kept, error) { return nil, broken }, nil
		},
	} {
		found, err := h.CollectGarbage(t.Context(), GarbageOptions{Idle: time.Hour, Look: look})
		for _, g := range found {
			err = errors.Join(err, g.Err)
		}
		if fserr.CodeOf(err) != fserr.EIO || len(h.left()) != 1 {
			t.Errorf("after a failed look at %s: %v, left are %v", name, err, h.left())
		}
	}
	look := func(context.Context) (Holds, error) {
		return func(context.Context, ID, []string) ([]Kept, error) {
			return []Kept{{Reason: KeepSite, Text: "held"}}, nil
		}, nil
	}
	h.want("forced", h.collect(GarbageOptions{Idle: time.Hour, Look: look, Force: true}), map[ID]string{"ctx_a": "request"})
}

// TestAContextThatIsOpenedDuringACollectionStays has an access between the collection's first look and its last one. The access waits no longer than
// the last look takes, and finds its context as it was.
func TestAContextThatIsOpenedDuringACollectionStays(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(h *hall) error{
		"by a panel": func(h *hall) error {
			_, err := h.Ensure(t.Context(), "ctx_a", EnsureOptions{}, nil)
			return err
		},
		"by an operation": func(h *hall) error {
			a, err := h.Acquire(t.Context(), "ctx_a", Read)
			if err == nil {
				a.Release()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHall(t)
			before := ensure(t, h.Manager, "ctx_a")
			must(t, writeMark(before.Info))
			h.pass(time.Hour)
			opened := false
			look := func(context.Context) (Holds, error) {
				return func(context.Context, ID, []string) ([]Kept, error) {
					if !opened { // the first look: nothing holds the context yet
						opened = true
						return nil, open(h)
					}
					return nil, nil
				}, nil
			}
			h.want("collection", h.collect(GarbageOptions{Idle: 30 * time.Minute, Look: look}), map[ID]string{"ctx_a": "stays: recently_used"})
			after, err := h.Get(t.Context(), "ctx_a")
			must(t, err)
			if !opened || after.State != StateReady || !hasMark(after) {
				t.Errorf("the context is %+v", after)
			}
			h.use("ctx_a")
		})
	}
}

// TestCollectionsRaceWithOpenings opens contexts while they are collected. An opening either gets the context as it was, or a new one; and a context
// that it got is not removed afterwards.
func TestCollectionsRaceWithOpenings(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	const rounds = 20
	for i := range rounds {
		id := ID(fmt.Sprint("ctx_", i))
		must(t, writeMark(ensure(t, h.Manager, id).Info))
	}
	h.pass(time.Hour)
	done := make(chan error, 1)
	go func() {
		_, err := h.CollectGarbage(t.Context(), GarbageOptions{Idle: 30 * time.Minute})
		done <- err
	}()
	for i := range rounds {
		id := ID(fmt.Sprint("ctx_", rounds-1-i))
		e := ensure(t, h.Manager, id)
		if info, err := h.Get(t.Context(), id); err != nil || info.State != StateReady || e.Seeded == hasMark(info) {
			t.Errorf("%s was opened (new: %t), and is %+v, %v", id, e.Seeded, info, err)
		}
	}
	must(t, <-done)
	if got := h.left(); len(got) != rounds {
		t.Errorf("%d of %d contexts that were opened are left", len(got), rounds)
	}
}

// TestASlowRemovalBlocksNoOtherContext holds a removal up while its context is taken. A caller that arrives meanwhile waits, and gets the context as
// it was.
func TestASlowRemovalBlocksNoOtherContext(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(h *hall) error{
		"a panel":      func(h *hall) error { return reopen(h) },
		"an operation": func(h *hall) error { return enter(h, "ctx_a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHall(t)
			must(t, writeMark(ensure(t, h.Manager, "ctx_a").Info))
			h.pass(time.Hour)
			ensure(t, h.Manager, "ctx_b")
			looking, release := make(chan struct{}), make(chan struct{})
			hold := func(step string) {
				if step == "looked" {
					close(looking)
					<-release
				}
			}
			h.step.Store(&hold)
			done := make(chan map[ID]string, 1)
			go func() { done <- h.collect(GarbageOptions{Idle: 30 * time.Minute}) }()
			select {
			case <-looking:
			case got := <-done:
				t.Fatalf("the collection ended without a last look: %v", got)
			}
			opened := make(chan error, 1)
			go func() { opened <- open(h) }()
			inTime(t, "an operation in another context", func(context.Context) error { return enter(h, "ctx_b") })
			inTime(t, "a new context", func(ctx context.Context) error {
				_, err := h.Ensure(ctx, "ctx_c", EnsureOptions{}, nil)
				return err
			})
			inTime(t, "the caller's arrival", func(ctx context.Context) error { return h.arrived(ctx, "ctx_a") })
			close(release)
			h.want("collection", <-done, map[ID]string{"ctx_a": "stays: recently_used"})
			must(t, <-opened)
			if info, err := h.Get(t.Context(), "ctx_a"); err != nil || !hasMark(info) {
				t.Errorf("the context that a caller waited for is %+v, %v", info, err)
			}
		})
	}
}

// TestContextThatIsBeingSeededStays has a seeding take two days. A collection keeps the context by any rule and by force.
func TestContextThatIsBeingSeededStays(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	seeding, release := make(chan struct{}), make(chan struct{})
	hold := func(step string) {
		if step == "copied" {
			close(seeding)
			<-release
		}
	}
	h.step.Store(&hold)
	done := make(chan error, 1)
	go func() {
		_, err := h.Ensure(t.Context(), "ctx_a", EnsureOptions{}, nil)
		done <- err
	}()
	select {
	case <-seeding:
	case err := <-done:
		t.Fatalf("the seeding ended without a copy: %v", err)
	}
	h.pass(48 * time.Hour)
	for name, opts := range map[string]GarbageOptions{
		"TTL": {TTL: time.Hour}, "forced": {TTL: time.Hour, Force: true}, "idle": {Idle: time.Hour}, "size": {MaxBytes: 1, Size: hundred},
	} {
		// The rest of the collection would wait for the seeding.
		ctx, cancel := context.WithTimeout(t.Context(), promptly)
		var got []Verdict
		opts.Verdict = func(v Verdict) {
			got = append(got, v)
			cancel()
		}
		_, err := h.CollectGarbage(ctx, opts)
		cancel()
		if len(got) != 1 || got[0].Removed || len(got[0].Kept) != 1 || got[0].Kept[0].Reason != KeepSeeding || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	close(release)
	must(t, <-done)
	if got := h.left(); len(got) != 1 {
		t.Errorf("the contexts are %v", got)
	}
}

// enter begins and ends an operation that changes a context.
func enter(h *hall, id ID) error {
	a, err := h.Acquire(h.t.Context(), id, Write)
	if err == nil {
		a.Release()
	}
	return err
}

// reopen opens ctx_a, which must be there.
func reopen(h *hall) error {
	e, err := h.Ensure(h.t.Context(), "ctx_a", EnsureOptions{}, nil)
	if err == nil && e.Seeded {
		err = errors.New("the context was made anew")
	}
	return err
}

// arrived waits until the use of a context that was idle for long is known.
func (h *hall) arrived(ctx context.Context, id ID) error {
	rec, err := h.cat.Store.Contexts().Get(ctx, string(id))
	for err == nil && h.cat.Now().Sub(h.gates.LastUse(rec)) > 30*time.Minute {
		runtime.Gosched()
		err = ctx.Err()
	}
	return err
}

// TestWorkOfOtherProgramsKeepsAContext has contexts that no call has used for days, and whose files were changed an hour ago. ctx_b's were changed
// before ctx_a's, which was used earlier.
func TestWorkOfOtherProgramsKeepsAContext(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 1)
	w.repo("app")
	m := w.open()
	b, a := ensure(t, m, "ctx_b").Info, ensure(t, m, "ctx_a").Info
	for changed(t, a) <= changed(t, b) { // the clock of files is coarse
		must(t, os.WriteFile(filepath.Join(a.Folder, "work"), []byte("w"), 0o600))
	}
	must(t, m.Close())
	h := &hall{t: t}
	h.pass(time.Hour)
	h.Manager = w.open(func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(h.passed.Load())) }
	})
	for id, days := range map[ID]int{"ctx_a": 9, "ctx_b": 8} {
		rec, err := w.store.Contexts().Get(t.Context(), string(id))
		must(t, err)
		rec.CreatedAt = rec.CreatedAt.AddDate(0, 0, -10)
		must(t, w.store.Contexts().Update(t.Context(), rec))
		must(t, w.store.Contexts().Used(t.Context(), rec.ID, time.Now().AddDate(0, 0, -days)))
	}
	stay := map[ID]string{"ctx_a": "stays: recently_used", "ctx_b": "stays: recently_used"}
	for name, opts := range map[string]GarbageOptions{
		"request": {Idle: 2 * time.Hour}, "idle TTL": {IdleTTL: 2 * time.Hour}, "forced": {Idle: 2 * time.Hour, Force: true},
	} {
		h.want(name, h.collect(opts), stay)
		opts.DryRun = true
		h.want(name+", dry", h.collect(opts), stay)
	}
	limit := GarbageOptions{MaxBytes: 100, Size: hundred}
	h.passed.Store(0)
	h.want("limit, while they work", h.collect(limit), map[ID]string{})
	h.pass(time.Hour)
	h.want("limit", h.collect(limit), map[ID]string{"ctx_b": "max_bytes"})
	h.pass(2 * time.Hour)
	h.want("idle TTL, later", h.collect(GarbageOptions{IdleTTL: 2 * time.Hour}), map[ID]string{"ctx_a": "idle_ttl"})
}

// changed is when a context's files were changed last.
func changed(t *testing.T, i Info) int64 {
	t.Helper()
	u, err := disk.Measure(t.Context(), i.Folder, func(string) error { return nil })
	must(t, err)
	return u.Newest.UnixNano()
}

// TestACollectionFollowsTheRecordOfNow changes labels, and makes another rule apply, while a context is measured.
func TestACollectionFollowsTheRecordOfNow(t *testing.T) {
	t.Parallel()
	selected, err := labels.Parse([]string{"!keep"})
	must(t, err)
	for name, c := range map[string]struct {
		meanwhile func(h *hall) error
		want      string
	}{
		"labelled": {func(h *hall) error {
			_, err := h.SetLabels(h.t.Context(), "ctx_a", map[string]string{"keep": ""}, nil)
			return err
		}, "stays: no_rule"},
		"used by another process": {func(h *hall) error {
			return h.cat.Store.Contexts().Used(h.t.Context(), "ctx_a", h.cat.Now().Add(-MinIdle-time.Minute))
		}, "stays: recently_used"},
	} {
		h := newHall(t)
		ensure(t, h.Manager, "ctx_a")
		h.pass(3 * time.Hour)
		done := false
		look := func(context.Context) (Holds, error) {
			return func(context.Context, ID, []string) ([]Kept, error) {
				if done {
					return nil, nil
				}
				done = true
				return nil, c.meanwhile(h)
			}, nil
		}
		opts := GarbageOptions{TTL: time.Hour, IdleTTL: time.Hour, Labels: selected, Look: look}
		h.want(name, h.collect(opts), map[ID]string{"ctx_a": c.want})
	}
}

// TestACollectionEndsNoOperationOfAContextThatItKeeps begins one after the first look.
func TestACollectionEndsNoOperationOfAContextThatItKeeps(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	ensure(t, h.Manager, "ctx_a")
	h.pass(time.Hour)
	var a *Access
	look := func(context.Context) (Holds, error) {
		return func(context.Context, ID, []string) (_ []Kept, err error) {
			if a == nil {
				a, err = h.Acquire(t.Context(), "ctx_a", Write)
				h.pass(time.Hour)
			}
			return nil, err
		}, nil
	}
	h.want("collection", h.collect(GarbageOptions{Idle: 30 * time.Minute, Look: look}), map[ID]string{"ctx_a": "stays: operation"})
	if a.Closing().Err() != nil {
		t.Error("the operation was asked to end")
	}
	a.Release()
}

// TestNewLabelsAreThoseOfTheSeeding: a call that makes a context, and one that repeats it after a failure, label it. A later call does not.
func TestNewLabelsAreThoseOfTheSeeding(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 1)
	w.repo("app")
	broken := newCounting()
	w.driver = broken
	broken.fail.Store(true)
	m := w.open()
	open := func(key string) (map[string]string, error) {
		e, err := m.Ensure(t.Context(), "ctx_a", EnsureOptions{NewLabels: map[string]string{key: ""}}, nil)
		return e.Labels, err
	}
	if _, err := open("first"); err == nil {
		t.Fatal("a seeding by a broken driver did not fail")
	}
	broken.fail.Store(false)
	for _, key := range []string{"again", "later"} {
		got, err := open(key)
		must(t, err)
		if want := map[string]string{"first": "", "again": ""}; !maps.Equal(got, want) {
			t.Errorf("after the call with %q the labels are %v, want %v", key, got, want)
		}
	}
}

// TestANewContextIsNotIdle has contexts that are new, and whose records say that they were used long ago.
func TestANewContextIsNotIdle(t *testing.T) {
	t.Parallel()
	for name, renew := range map[string]func(h *hall){
		"made anew under an old record": func(h *hall) {
			rec, err := h.cat.Store.Contexts().Get(t.Context(), "ctx_a")
			must(t, err)
			must(t, h.cat.Store.Contexts().Used(t.Context(), "ctx_a", rec.CreatedAt))
			h.pass(100 * time.Hour)
			rec.CreatedAt = h.cat.Now()
			must(t, h.cat.Store.Contexts().Update(t.Context(), rec))
		},
		"restored": func(h *hall) {
			_, err := h.Snapshot(t.Context(), "ctx_a", "s")
			must(t, err)
			h.pass(100 * time.Hour)
			_, err = h.Restore(t.Context(), "ctx_a", "s", nil)
			must(t, err)
		},
		"seeded for long": func(h *hall) {
			slow := func(step string) {
				if step == "copied" {
					h.pass(100 * time.Hour)
				}
			}
			_, err := h.Delete(t.Context(), "ctx_a", nil)
			must(t, err)
			h.step.Store(&slow)
			ensure(t, h.Manager, "ctx_a")
		},
	} {
		h := newHall(t)
		ensure(t, h.Manager, "ctx_a")
		renew(h)
		h.want(name, h.collect(GarbageOptions{DryRun: true, IdleTTL: time.Hour}), map[ID]string{"ctx_a": "stays: recently_used"})
	}
}

// markOf is a file that a new context does not have.
func markOf(i Info) string { return filepath.Join(i.Folder, "mark") }

func writeMark(i Info) error { return os.WriteFile(markOf(i), nil, 0o600) }

func hasMark(i Info) bool {
	_, err := os.Lstat(markOf(i))
	return err == nil
}
