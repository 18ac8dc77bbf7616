// Package metadatatest is the suite that every metadata.Store passes.
package metadatatest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/metadata"
)

// epoch is when the suite's records were made: finer than a store keeps, and not UTC.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 8_900_000, time.FixedZone("elsewhere", 3600))

// suite is one test's store.
type suite struct {
	*testing.T
	store metadata.Store
}

// Run runs the suite. open returns a new, empty store for each test; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) metadata.Store) {
	for _, test := range []struct {
		name string
		run  func(suite)
	}{
		{"a context comes back as it was stored", contextRoundTrip},
		{"context IDs that differ by case conflict", contextConflicts},
		{"a context is found without its case", contextFolded},
		{"an absent context is not found", contextAbsent},
		{"contexts are listed by ID", contextList},
		{"labels come back as they were stored", labelRoundTrip},
		{"an update keeps labels", labelUpdate},
		{"a refused change of labels changes nothing", labelRefused},
		{"concurrent changes of labels are all kept", labelRace},
		{"deleting a context takes its panels and tokens along", contextCascade},
		{"one of many concurrent creations wins", contextRace},
		{"a panel comes back as it was stored", panelRoundTrip},
		{"panel IDs that differ by case conflict", panelConflicts},
		{"a panel is found without its case", panelFolded},
		{"the panels of a context are found without its case", panelsOfContext},
		{"an absent panel is not found", panelAbsent},
		{"panels are listed by ID", panelList},
		{"a token comes back as it was stored", tokenRoundTrip},
		{"a token needs its panel", tokenNeedsPanel},
		{"adding a token drops expired ones", tokenExpiry},
		{"a panel's tokens are listed and deleted together", tokenPanel},
		{"the live tokens of all panels are counted", tokenLive},
		{"a layer comes back as it was stored", layerRoundTrip},
		{"a layer in use is kept", layerInUse},
		{"a site comes back as it was stored", siteRoundTrip},
		{"sites end with their context", siteCascade},
		{"sites end with their panel's tokens", siteEndsWithTokens},
		{"a cancelled call changes nothing", cancelled},
		{"a closed store fails", closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			test.run(suite{t, store})
		})
	}
}

// must stops the test at an error.
func (s suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// refused demands that err is want.
func (s suite) refused(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("got error %v, want %v", err, want)
	}
}

// equal demands that got is want.
func (s suite) equal(got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("differs (-want +got):\n%s", diff)
	}
}

// kept is t as a store gives it back.
func kept(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (s suite) create(ids ...string) {
	s.Helper()
	for _, id := range ids {
		s.must(s.store.Contexts().Create(s.Context(), metadata.Context{ID: id}))
	}
}

func (s suite) bind(contextID string, ids ...string) {
	s.Helper()
	for _, id := range ids {
		s.must(s.store.Panels().Bind(s.Context(), metadata.Panel{ID: id, ContextID: contextID}))
	}
}

// grant stores a token of panel whose hash begins with n; it expires after life.
func (s suite) grant(panel string, n byte, life time.Duration) {
	s.Helper()
	t := metadata.Token{Hash: [32]byte{n}, PanelID: panel, IssuedAt: epoch, ExpiresAt: epoch.Add(life)}
	s.must(s.store.Tokens().Add(s.Context(), t, epoch))
}

func contextRoundTrip(s suite) {
	want := metadata.Context{
		ID: "ctx_panels~editor", Explicit: true, OwnerPanel: "editor", State: metadata.ContextSeeding,
		LastError: "disk full", Driver: "copy", Layer: "sha256:1", Generation: 1<<64 - 1,
		Files: 3, Bytes: 1 << 40, CreatedAt: epoch, UsedAt: epoch.Add(time.Hour), SeededIn: 1234567 * time.Nanosecond, Recovered: true, ForkedFrom: "ctx_a",
	}
	s.must(s.store.Contexts().Create(s.Context(), want))
	want.CreatedAt, want.UsedAt = kept(want.CreatedAt), kept(want.UsedAt)
	got, err := s.store.Contexts().Get(s.Context(), want.ID)
	s.must(err)
	s.equal(got, want)

	s.must(s.store.Contexts().Used(s.Context(), want.ID, epoch))
	s.refused(s.store.Contexts().Used(s.Context(), "absent", epoch), metadata.ErrNotFound)
	want = metadata.Context{ID: want.ID, State: metadata.ContextReady}
	s.must(s.store.Contexts().Update(s.Context(), want))
	want.UsedAt = kept(epoch)
	got, err = s.store.Contexts().Get(s.Context(), want.ID)
	s.must(err)
	s.equal(got, want)
}

func contextConflicts(s suite) {
	s.create("Straße")
	for _, id := range []string{"Straße", "sTRAßE"} {
		s.refused(s.store.Contexts().Create(s.Context(), metadata.Context{ID: id}), metadata.ErrConflict)
	}
	s.must(s.store.Contexts().Delete(s.Context(), "Straße"))
	s.create("sTRAßE", "strasse")
}

func contextFolded(s suite) {
	s.create("ctx_a", "ctx_ab", "Straße")
	for id, want := range map[string]string{"ctx_a": "ctx_a", "CTX_A": "ctx_a", "ctx_aB": "ctx_ab", "STRAẞE": "Straße"} {
		got, err := s.store.Contexts().Folded(s.Context(), id)
		s.must(err)
		s.equal(got.ID, want)
	}
	s.must(s.store.Contexts().Delete(s.Context(), "ctx_a"))
	for _, id := range []string{"ctx_a", "ctx", ""} {
		_, err := s.store.Contexts().Folded(s.Context(), id)
		s.refused(err, metadata.ErrNotFound)
	}
}

func contextAbsent(s suite) {
	s.create("present")
	contexts := s.store.Contexts()
	for _, id := range []string{"absent", "Present", ""} {
		_, err := contexts.Get(s.Context(), id)
		s.refused(err, metadata.ErrNotFound)
		s.refused(contexts.Update(s.Context(), metadata.Context{ID: id}), metadata.ErrNotFound)
		s.refused(contexts.Delete(s.Context(), id), metadata.ErrNotFound)
	}
}

func contextList(s suite) {
	list, err := s.store.Contexts().List(s.Context())
	s.must(err)
	s.equal(len(list), 0)
	s.create("b", "ä", "A")
	list, err = s.store.Contexts().List(s.Context())
	s.must(err)
	var ids []string
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	s.equal(ids, []string{"A", "b", "ä"})
}

func contextCascade(s suite) {
	s.create("doomed", "other")
	s.bind("doomed", "one", "two")
	s.bind("other", "three")
	s.grant("one", 1, time.Hour)
	s.grant("three", 3, time.Hour)
	s.must(s.store.Contexts().Delete(s.Context(), "doomed"))

	panels, err := s.store.Panels().List(s.Context())
	s.must(err)
	s.equal(panels, []metadata.Panel{{ID: "three", ContextID: "other"}})
	_, err = s.store.Tokens().Get(s.Context(), [32]byte{1})
	s.refused(err, metadata.ErrNotFound)
	_, err = s.store.Tokens().Get(s.Context(), [32]byte{3})
	s.must(err)
	s.bind("other", "ONE")
}

func contextRace(s suite) {
	const callers = 50
	results := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		id := "race"
		if i%2 == 0 {
			id = "RACE"
		}
		all.Go(func() { results[i] = s.store.Contexts().Create(s.Context(), metadata.Context{ID: id}) })
	}
	all.Wait()
	results = slices.DeleteFunc(results, func(err error) bool { return errors.Is(err, metadata.ErrConflict) })
	if len(results) != 1 || results[0] != nil {
		s.Errorf("results but conflicts: %v, want one success", results)
	}
}

func cancelled(s suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.refused(s.store.Contexts().Create(ctx, metadata.Context{ID: "late"}), context.Canceled)
	_, err := s.store.Contexts().Get(s.Context(), "late")
	s.refused(err, metadata.ErrNotFound)
}

func closed(s suite) {
	s.create("there")
	s.must(s.store.Close())
	if _, err := s.store.Contexts().Get(s.Context(), "there"); err == nil {
		s.Error("a closed store answered")
	}
	if err := s.store.Panels().Bind(s.Context(), metadata.Panel{ID: "p"}); err == nil {
		s.Error("a closed store took a record")
	}
}
