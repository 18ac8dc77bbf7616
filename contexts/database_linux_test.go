package contexts

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
)

// onFaulty is a small workspace whose database can fail.
func onFaulty(t *testing.T) (*workspace, *metadatatest.Faulty) {
	t.Helper()
	w := small(t)
	db := metadatatest.NewFaulty(memory.New())
	w.store = db
	return w, db
}

// TestForkThatCannotBeRecordedLeavesNothing: its caller is told that it failed, so it must be possible to fork again.
func TestForkThatCannotBeRecordedLeavesNothing(t *testing.T) {
	t.Parallel()
	w, db := onFaulty(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	put(t, m, "ctx_a", "app/new", "new")
	db.After(func(call string) bool { return call == "Contexts.Create" }, metadatatest.Fault{Err: metadata.ErrUnavailable})
	if _, err := m.Fork(t.Context(), "ctx_a", "ctx_b", EnsureOptions{}); fserr.CodeOf(err) == 0 {
		t.Error("a fork that is not recorded succeeded")
	}
	if _, err := os.Lstat(w.folder("ctx_b")); !os.IsNotExist(err) {
		t.Errorf("it left a folder: %v", err)
	}
	db.Set(metadatatest.Fault{})
	fork(t, m, "ctx_a", "ctx_b")
	wantFile(t, m, "ctx_b", "app/new", "new")
	wantSwept(t, m)
}

// TestForkThatAnotherCallerRecordedStays: that caller may use it.
func TestForkThatAnotherCallerRecordedStays(t *testing.T) {
	t.Parallel()
	w, db := onFaulty(t)
	w.store = metadata.Wrap(db, func(ctx context.Context, call string, f func(context.Context) error) error {
		err := f(ctx)
		if call == "Contexts.Create" && errors.Is(err, metadata.ErrConflict) {
			db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
		}
		return err
	})
	m := w.open(func(c *Config) {
		c.Events.Step = func(step string) {
			if step == "fork-renamed" {
				must(t, db.Contexts().Create(t.Context(), metadata.Context{ID: "ctx_b", State: metadata.ContextReady}))
			}
		}
	})
	ensure(t, m, "ctx_a")
	if _, err := m.Fork(t.Context(), "ctx_a", "ctx_b", EnsureOptions{}); !errors.Is(err, metadata.ErrUnavailable) {
		t.Errorf("the fork got %v, want ErrUnavailable", err)
	}
	if _, err := os.Lstat(w.folder("ctx_b")); err != nil {
		t.Errorf("its folder: %v", err)
	}
}

// TestRebuildEndsADeletion: the database went away when the folder was gone, and its record was not.
func TestRebuildEndsADeletion(t *testing.T) {
	t.Parallel()
	w, db := onFaulty(t)
	w.store = metadata.Wrap(db, func(ctx context.Context, _ string, f func(context.Context) error) error {
		if _, err := os.Lstat(w.folder("ctx_a")); ctx.Value(deleting{}) != nil && os.IsNotExist(err) {
			return metadata.ErrUnavailable
		}
		return f(ctx)
	})
	m := w.open()
	ensure(t, m, "ctx_a")
	if _, err := m.Delete(context.WithValue(t.Context(), deleting{}, true), "ctx_a", nil); !errors.Is(err, metadata.ErrUnavailable) {
		t.Errorf("the deletion got %v, want ErrUnavailable", err)
	}
	if r, err := m.Rebuild(t.Context()); err != nil || len(r.Deleted) != 1 {
		t.Errorf("rebuilt %+v, %v", r, err)
	}
	if _, err := w.store.Contexts().Get(t.Context(), "ctx_a"); !errors.Is(err, metadata.ErrNotFound) {
		t.Errorf("its record: %v", err)
	}
}

// deleting marks the ctx of a deletion.
type deleting struct{}

// TestUseIsRecordedOnceTheDatabaseAnswers: the use of an open context waits for no database, and is not forgotten.
func TestUseIsRecordedOnceTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	w, db := onFaulty(t)
	start := time.Now()
	var passed atomic.Int64
	m := w.open(func(c *Config) { c.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) } })
	ensure(t, m, "ctx_a")
	wantFile(t, m, "ctx_a", "app/f", "1")
	db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
	calls := db.Calls()
	passed.Store(int64(time.Hour))
	wantFile(t, m, "ctx_a", "app/f", "1")
	clocktest.Await(t, "recording the use was tried", func() bool { return db.Calls() > calls })
	db.Set(metadatatest.Fault{})
	clocktest.Await(t, "the later use is recorded", func() bool {
		rec, err := w.store.Contexts().Get(t.Context(), "ctx_a")
		must(t, err)
		return rec.UsedAt.Sub(start) > 50*time.Minute // clock: both are of the clock that the test sets
	})
}

// TestRebuildFollowsTheFolders: what the database has lost is recorded again, and what it shows again is deleted again.
func TestRebuildFollowsTheFolders(t *testing.T) {
	t.Parallel()
	w, _ := onFaulty(t)
	m := w.open()
	ctx := t.Context()
	var gone metadata.Context
	for _, id := range []ID{"ctx_kept", "ctx_lost", "ctx_gone", "ctx_half"} {
		ensure(t, m, id)
	}
	gone, err := w.store.Contexts().Get(ctx, "ctx_gone")
	must(t, err)
	_, err = m.Delete(ctx, "ctx_gone", nil)
	must(t, err)
	must(t, w.store.Contexts().Create(ctx, gone))
	must(t, w.store.Contexts().Delete(ctx, "ctx_lost"))
	half, err := w.store.Contexts().Get(ctx, "ctx_half")
	must(t, err)
	layer := half.Layer
	half.State, half.Layer = metadata.ContextSeeding, ""
	must(t, w.store.Contexts().Update(ctx, half))

	r, err := m.Rebuild(ctx)
	if err != nil || len(r.Recorded) != 1 || r.Recorded[0] != "ctx_lost" || len(r.Deleted) != 1 || r.Deleted[0] != "ctx_gone" || r.Settled != 1 || !r.Lost() {
		t.Errorf("rebuilt %+v, %v", r, err)
	}
	if half, err = w.store.Contexts().Get(ctx, "ctx_half"); err != nil || half.State != metadata.ContextReady || half.Layer != layer {
		t.Errorf("the record of a seeding that ended is %+v, %v; its layer was %s", half, err, layer)
	}
	if r, err = m.Rebuild(ctx); err != nil || r.Lost() || r.Settled != 0 {
		t.Errorf("rebuilt %+v again, %v", r, err)
	}
}

// TestRebuildCorrectsTheLayer: after lost commits, a record may be that of an earlier context of the ID, with another layer.
func TestRebuildCorrectsTheLayer(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"rebuild", "repair"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w, _ := onFaulty(t)
			m := w.open()
			ctx := t.Context()
			ensure(t, m, "ctx_a")
			rec, err := w.store.Contexts().Get(ctx, "ctx_a")
			must(t, err)
			right := rec.Layer
			rec.Layer = strings.Repeat("0", len(right))
			must(t, w.store.Contexts().Update(ctx, rec))

			keep, err := m.cat.LayersInUse(ctx)
			if err != nil || !keep[right] {
				t.Errorf("layers in use are %v, %v, without that of the manifest, %s", keep, err, right)
			}
			var corrected []ID
			if way == "repair" {
				must(t, m.Close())
				m = w.open()
				r, err := m.Repair(ctx)
				must(t, err)
				corrected = r.Recovered
			} else {
				r, err := m.Rebuild(ctx)
				must(t, err)
				corrected = r.Recorded
			}
			if !slices.Equal(corrected, []ID{"ctx_a"}) {
				t.Errorf("corrected %v", corrected)
			}
			if rec, err = w.store.Contexts().Get(ctx, "ctx_a"); err != nil || rec.Layer != right {
				t.Errorf("the record names the layer %s, %v; it is %s", rec.Layer, err, right)
			}
			if r, err := m.Rebuild(ctx); err != nil || r.Lost() {
				t.Errorf("rebuilt %+v again, %v", r, err)
			}
		})
	}
}
