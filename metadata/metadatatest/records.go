package metadatatest

import (
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

func panelRoundTrip(s suite) {
	want := metadata.Panel{ID: "editor", ContextID: "ctx_editor", ReadOnly: true, Rights: 1 << 31, OpenedAt: epoch}
	s.must(s.store.Panels().Bind(s.Context(), want))
	want.OpenedAt = kept(want.OpenedAt)
	got, err := s.store.Panels().Get(s.Context(), "editor")
	s.must(err)
	s.equal(got, want)
	if !got.ClosedAt.IsZero() {
		s.Errorf("closed at %v, want the zero time", got.ClosedAt)
	}

	want.ClosedAt, want.ReadOnly, want.Rights, want.ContextID = kept(epoch.Add(time.Hour)), false, 5, "ctx_other"
	s.must(s.store.Panels().Update(s.Context(), want))
	got, err = s.store.Panels().Get(s.Context(), "editor")
	s.must(err)
	s.equal(got, want)
}

func panelConflicts(s suite) {
	s.bind("c", "Editor", "s", "Kelvin")
	for _, id := range []string{"Editor", "editor", "S", "ſ", "\u212Aelvin"} {
		s.refused(s.store.Panels().Bind(s.Context(), metadata.Panel{ID: id}), metadata.ErrConflict)
	}
}

func panelFolded(s suite) {
	s.bind("c", "Editor", "s")
	for id, want := range map[string]string{"Editor": "Editor", "eDITOR": "Editor", "S": "s", "ſ": "s"} {
		got, err := s.store.Panels().Folded(s.Context(), id)
		s.must(err)
		s.equal(got.ID, want)
	}
	for _, id := range []string{"edito", "", "e%"} {
		_, err := s.store.Panels().Folded(s.Context(), id)
		s.refused(err, metadata.ErrNotFound)
	}
}

func panelsOfContext(s suite) {
	s.bind("ctx_A", "b", "Z")
	s.bind("ctx_a", "a")
	s.bind("ctx_ab", "c")
	moved := metadata.Panel{ID: "c", ContextID: "CTX_a"}
	s.must(s.store.Panels().Update(s.Context(), moved))
	list, err := s.store.Panels().OfContext(s.Context(), "ctx_A")
	s.must(err)
	s.equal(list, []metadata.Panel{{ID: "Z", ContextID: "ctx_A"}, {ID: "a", ContextID: "ctx_a"}, {ID: "b", ContextID: "ctx_A"}, moved})
	list, err = s.store.Panels().OfContext(s.Context(), "ctx_ab")
	s.must(err)
	s.equal(len(list), 0)
}

func panelAbsent(s suite) {
	s.bind("c", "editor")
	for _, id := range []string{"absent", "EDITOR", ""} {
		_, err := s.store.Panels().Get(s.Context(), id)
		s.refused(err, metadata.ErrNotFound)
		s.refused(s.store.Panels().Update(s.Context(), metadata.Panel{ID: id}), metadata.ErrNotFound)
	}
}

func panelList(s suite) {
	s.bind("c", "b", "a", "Z")
	list, err := s.store.Panels().List(s.Context())
	s.must(err)
	s.equal(list, []metadata.Panel{{ID: "Z", ContextID: "c"}, {ID: "a", ContextID: "c"}, {ID: "b", ContextID: "c"}})
}

func tokenRoundTrip(s suite) {
	s.bind("c", "p")
	want := metadata.Token{
		Hash: [32]byte{0: 1, 31: 0xff}, PanelID: "p", ContextID: "c", ReadOnly: true, Rights: 1<<31 | 1,
		IssuedAt: epoch, ExpiresAt: epoch.Add(time.Hour),
	}
	tokens := s.store.Tokens()
	s.must(tokens.Add(s.Context(), want, epoch))
	s.refused(tokens.Add(s.Context(), want, epoch), metadata.ErrConflict)
	got, err := tokens.Get(s.Context(), want.Hash)
	s.must(err)
	want.IssuedAt, want.ExpiresAt = kept(want.IssuedAt), kept(want.ExpiresAt)
	s.equal(got, want)

	_, err = tokens.Get(s.Context(), [32]byte{0: 1})
	s.refused(err, metadata.ErrNotFound)
}

func tokenNeedsPanel(s suite) {
	t := metadata.Token{Hash: [32]byte{1}, PanelID: "nobody", ExpiresAt: epoch.Add(time.Hour)}
	s.refused(s.store.Tokens().Add(s.Context(), t, epoch), metadata.ErrNotFound)
	_, err := s.store.Tokens().Get(s.Context(), t.Hash)
	s.refused(err, metadata.ErrNotFound)
}

func tokenExpiry(s suite) {
	s.bind("c", "p")
	s.grant("p", 1, time.Minute)
	s.grant("p", 2, time.Hour)
	_, err := s.store.Tokens().Get(s.Context(), [32]byte{1})
	s.must(err)

	fresh := metadata.Token{Hash: [32]byte{3}, PanelID: "p", IssuedAt: epoch.Add(time.Hour), ExpiresAt: epoch.Add(2 * time.Hour)}
	s.must(s.store.Tokens().Add(s.Context(), fresh, epoch.Add(time.Hour)))
	_, err = s.store.Tokens().Get(s.Context(), [32]byte{1})
	s.refused(err, metadata.ErrNotFound)
	_, err = s.store.Tokens().Get(s.Context(), [32]byte{2})
	s.must(err)
}

func tokenLive(s suite) {
	s.bind("c", "p", "q", "none")
	s.grant("p", 1, time.Minute)
	s.grant("p", 2, time.Hour)
	s.grant("p", 3, 2*time.Hour)
	s.grant("q", 4, 2*time.Hour)
	for at, want := range map[time.Duration]map[string]int{0: {"p": 3, "q": 1}, time.Hour: {"p": 1, "q": 1}, 3 * time.Hour: {}} {
		live, err := s.store.Tokens().Live(s.Context(), epoch.Add(at))
		s.must(err)
		s.equal(live, want)
	}
}

func tokenPanel(s suite) {
	s.bind("c", "p", "q")
	later := metadata.Token{Hash: [32]byte{1}, PanelID: "p", IssuedAt: epoch.Add(time.Minute), ExpiresAt: epoch.Add(time.Hour)}
	s.must(s.store.Tokens().Add(s.Context(), later, epoch))
	s.grant("p", 9, time.Hour)
	s.grant("q", 5, time.Hour)

	list, err := s.store.Tokens().List(s.Context(), "p")
	s.must(err)
	var order []byte
	for _, t := range list {
		order = append(order, t.Hash[0])
	}
	s.equal(order, []byte{9, 1})

	n, err := s.store.Tokens().DeletePanel(s.Context(), "p")
	s.must(err)
	s.equal(n, 2)
	list, err = s.store.Tokens().List(s.Context(), "p")
	s.must(err)
	s.equal(len(list), 0)
	_, err = s.store.Tokens().Get(s.Context(), [32]byte{5})
	s.must(err)
}

func layerRoundTrip(s suite) {
	want := metadata.Layer{Digest: "sha256:1", Kind: "workspace", Files: 2, Bytes: 1 << 40, CreatedAt: epoch}
	layers := s.store.Layers()
	s.must(layers.Put(s.Context(), want))
	want.Files, want.CreatedAt = 5, kept(want.CreatedAt)
	s.must(layers.Put(s.Context(), want))
	got, err := layers.Get(s.Context(), "sha256:1")
	s.must(err)
	s.equal(got, want)

	s.must(layers.Delete(s.Context(), "sha256:1"))
	_, err = layers.Get(s.Context(), "sha256:1")
	s.refused(err, metadata.ErrNotFound)
	s.refused(layers.Delete(s.Context(), "sha256:1"), metadata.ErrNotFound)
}

func layerInUse(s suite) {
	s.must(s.store.Layers().Put(s.Context(), metadata.Layer{Digest: "used"}))
	s.must(s.store.Contexts().Create(s.Context(), metadata.Context{ID: "c", Layer: "used"}))
	s.refused(s.store.Layers().Delete(s.Context(), "used"), metadata.ErrConflict)
	_, err := s.store.Layers().Get(s.Context(), "used")
	s.must(err)
	s.must(s.store.Contexts().Delete(s.Context(), "c"))
	s.must(s.store.Layers().Delete(s.Context(), "used"))
}
