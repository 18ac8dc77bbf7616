package sites_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/sites"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endingStore ends the panel between the store of a site's record and the check that follows.
type endingStore struct {
	metadata.Store
	end func()
}

func (s endingStore) Sites() metadata.Sites { return endingSites{s.Store.Sites(), s.end} }

type endingSites struct {
	metadata.Sites
	end func()
}

func (s endingSites) Add(ctx context.Context, site metadata.Site) error {
	err := s.Sites.Add(ctx, site)
	s.end()
	return err
}

func newStore(t *testing.T) *memory.Store {
	t.Helper()
	store := memory.New()
	err := store.Contexts().Create(t.Context(), metadata.Context{ID: "ctx_p"})
	if err == nil {
		err = store.Panels().Bind(t.Context(), metadata.Panel{ID: "p", ContextID: "ctx_p"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func newRegistry(t *testing.T, store metadata.Store) *sites.Registry {
	t.Helper()
	r, err := sites.New(t.Context(), sites.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStoreHasNoCapability(t *testing.T) {
	store := newStore(t)
	r := newRegistry(t, store)
	site, capability, err := r.Open(t.Context(), sites.Request{Context: "ctx_p", Panel: "p"})
	if err != nil || !sites.IsCapability(capability) {
		t.Fatal(capability, err)
	}
	if found, ok := r.Find(capability); !ok || found.ID != site.ID {
		t.Errorf("found %+v", found)
	}
	for _, wrong := range []string{"", site.ID, capability[:25], capability + "a"} {
		if _, ok := r.Find(wrong); ok {
			t.Errorf("%q opens the site", wrong)
		}
	}
	if id := site.Visitor(); !id.ReadOnly || id.Context != "ctx_p" || id.Panel != "p" || id.Owner == "p" || !id.ExpiresAt.Equal(site.ExpiresAt) {
		t.Errorf("its visitors are %+v", id)
	}
}

func TestSiteOfAPanelThatEndsMeanwhile(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, store metadata.Store) error{
		"closed": func(ctx context.Context, store metadata.Store) error {
			return store.Panels().Update(ctx, metadata.Panel{ID: "p", ContextID: "ctx_p", ClosedAt: time.Now()})
		},
		"deleted": func(ctx context.Context, store metadata.Store) error { return store.Contexts().Delete(ctx, "ctx_p") },
		"revoked": func(ctx context.Context, store metadata.Store) error {
			_, err := store.Tokens().DeletePanel(ctx, "p")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, token := newStore(t), [32]byte{1}
			if err := store.Tokens().Add(t.Context(), metadata.Token{Hash: token, PanelID: "p", ContextID: "ctx_p", ExpiresAt: time.Now().Add(time.Hour)}, time.Now()); err != nil {
				t.Fatal(err)
			}
			r := newRegistry(t, endingStore{store, func() {
				if err := end(t.Context(), store); err != nil {
					t.Error(err)
				}
			}})
			_, _, err := r.Open(t.Context(), sites.Request{Context: "ctx_p", Panel: "p", Token: token})
			if fserr.CodeOf(err) != fserr.ECANCELED || len(r.List()) != 0 {
				t.Errorf("%v, open: %v", err, r.List())
			}
			if list, err := store.Sites().List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("records: %v, %v", list, err)
			}
		})
	}
}

// TestRecordThatStaysIsReported closes a panel while the store removes no site.
func TestRecordThatStaysIsReported(t *testing.T) {
	broken := errors.New("the disk is full")
	store := metadata.Wrap(newStore(t), func(ctx context.Context, call string, f func(context.Context) error) error {
		if call == "Sites.Delete" {
			return broken
		}
		return f(ctx)
	})
	var failed []string
	r, err := sites.New(t.Context(), sites.Config{Store: store, Failed: func(s sites.Site, err error) {
		if errors.Is(err, broken) {
			failed = append(failed, s.ID)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	site, _, err := r.Open(t.Context(), sites.Request{Context: "ctx_p", Panel: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if r.PanelClosed("p"); len(r.List()) != 0 || !slices.Equal(failed, []string{site.ID}) {
		t.Errorf("open: %v, failed: %v", r.List(), failed)
	}
}

func TestSnapshotDeletedEndsItsSitesAlone(t *testing.T) {
	store := newStore(t)
	r := newRegistry(t, store)
	open := func(snapshot string) string {
		t.Helper()
		site, _, err := r.Open(t.Context(), sites.Request{Context: "ctx_p", Options: sites.Options{Snapshot: snapshot, Taken: 7}})
		if err != nil {
			t.Fatal(err)
		}
		if id := site.Visitor(); id.Snapshot != snapshot || id.SnapshotTaken != 7 {
			t.Errorf("its visitors are %+v", id)
		}
		return site.ID
	}
	open("s")
	open("s")
	kept := []string{open(""), open("other")}
	r.SnapshotDeleted("ctx_q", "s")
	if list := r.List(); len(list) != 4 {
		t.Errorf("a snapshot of another context was deleted, and %v are open", list)
	}
	r.SnapshotDeleted("ctx_p", "s")
	r.SnapshotDeleted("ctx_p", "")
	if list := newRegistry(t, store).List(); len(list) != 2 || !slices.Contains(kept, list[0].ID) || !slices.Contains(kept, list[1].ID) {
		t.Errorf("open: %v, want %v", list, kept)
	}
	_, _, err := r.Open(t.Context(), sites.Request{Context: "ctx_p", Options: sites.Options{Snapshot: "s", LiveReload: true}})
	if fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("live reload of a snapshot: %v", err)
	}
}

func TestDamagedAndExpiredRecordsAreDropped(t *testing.T) {
	store := newStore(t)
	soon := time.Now().Add(time.Hour)
	for _, rec := range []metadata.Site{
		{ID: "damaged", Hash: [32]byte{1}, ContextID: "ctx_p", Options: []byte("{"), ExpiresAt: soon},
		{ID: "expired", Hash: [32]byte{2}, ContextID: "ctx_p", Options: []byte("{}"), ExpiresAt: time.Now()},
		{ID: "whole", Hash: [32]byte{3}, ContextID: "ctx_p", Options: []byte("{}"), ExpiresAt: soon},
	} {
		if err := store.Sites().Add(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if list := newRegistry(t, store).List(); len(list) != 1 || list[0].ID != "whole" {
		t.Errorf("open: %v", list)
	}
	if list, err := store.Sites().List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("records: %v, %v", list, err)
	}
}

func TestContextHasBoundedSites(t *testing.T) {
	r := newRegistry(t, newStore(t))
	var opened sync.WaitGroup
	for range 2 * sites.MaxPerContext {
		opened.Go(func() { _, _, _ = r.Open(t.Context(), sites.Request{Context: contexts.ID("ctx_p")}) })
	}
	opened.Wait()
	if n := len(r.List()); n != sites.MaxPerContext {
		t.Errorf("%d sites", n)
	}
}

func TestExpiredSitesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := newRegistry(t, store)
		for range 3 * sites.MaxPerContext {
			if _, _, err := r.Open(t.Context(), sites.Request{Context: "ctx_p", TTL: time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond) // of the test's own clock
		}
		if list, err := store.Sites().List(t.Context()); err != nil || len(list) > 1 {
			t.Errorf("%d records, %v", len(list), err)
		}
	})
}
