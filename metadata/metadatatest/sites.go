package metadatatest

import (
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

func siteRoundTrip(s suite) {
	want := metadata.Site{
		ID: "site_b", Hash: [32]byte{0: 1, 31: 0xff}, ContextID: "c", PanelID: "p", Options: []byte(`{"root":"/app"}`),
		OpenedAt: epoch, ExpiresAt: epoch.Add(time.Hour),
	}
	older := metadata.Site{ID: "site_z", Hash: [32]byte{2}, ContextID: "c", Options: []byte("{}"), OpenedAt: epoch.Add(-time.Hour), ExpiresAt: epoch}
	sites := s.store.Sites()
	s.must(sites.Add(s.Context(), want))
	s.must(sites.Add(s.Context(), older))
	s.refused(sites.Add(s.Context(), metadata.Site{ID: "site_b", Hash: [32]byte{3}, Options: []byte("{}")}), metadata.ErrConflict)
	s.refused(sites.Add(s.Context(), metadata.Site{ID: "site_c", Hash: want.Hash, Options: []byte("{}")}), metadata.ErrConflict)
	s.must(sites.Renew(s.Context(), "site_b", epoch.Add(2*time.Hour)))
	s.refused(sites.Renew(s.Context(), "site_c", epoch), metadata.ErrNotFound)
	want.OpenedAt, want.ExpiresAt = kept(epoch), kept(epoch.Add(2*time.Hour))
	older.OpenedAt, older.ExpiresAt = kept(older.OpenedAt), kept(older.ExpiresAt)
	list, err := sites.List(s.Context())
	s.must(err)
	s.equal(list, []metadata.Site{older, want})

	s.must(sites.Delete(s.Context(), "site_z"))
	s.refused(sites.Delete(s.Context(), "site_z"), metadata.ErrNotFound)
	list, err = sites.List(s.Context())
	s.must(err)
	s.equal(list, []metadata.Site{want})
}

// siteEndsWithTokens revokes the tokens of a panel: its sites go with them, and those of hosts and other panels stay.
func siteEndsWithTokens(s suite) {
	s.bind("c", "p", "q")
	s.grant("p", 1, time.Hour)
	for i, panel := range []string{"p", "q", ""} {
		s.must(s.store.Sites().Add(s.Context(), metadata.Site{
			ID: "site_" + panel, Hash: [32]byte{byte(i)}, ContextID: "c", PanelID: panel, Options: []byte("{}"), OpenedAt: epoch.Add(time.Duration(i) * time.Hour),
		}))
	}
	n, err := s.store.Tokens().DeletePanel(s.Context(), "p")
	s.must(err)
	s.equal(n, 1)
	list, err := s.store.Sites().List(s.Context())
	s.must(err)
	s.equal(len(list), 2)
	s.equal(list[0].PanelID, "q")
	s.equal(list[1].PanelID, "")
}

func siteCascade(s suite) {
	s.create("c", "d")
	for i, contextID := range []string{"c", "d"} {
		s.must(s.store.Sites().Add(s.Context(), metadata.Site{ID: "site_" + contextID, Hash: [32]byte{byte(i)}, ContextID: contextID, Options: []byte("{}")}))
	}
	s.must(s.store.Contexts().Delete(s.Context(), "c"))
	list, err := s.store.Sites().List(s.Context())
	s.must(err)
	s.equal(len(list), 1)
	s.equal(list[0].ID, "site_d")
}
