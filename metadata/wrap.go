package metadata

import (
	"context"
	"time"
)

// Wrap returns store with around in the place of each call. around gets the call's name, such as "Contexts.Get". It
// calls f, which does the call, at most once and with a context of its choice, and returns the call's error. Close is not wrapped.
func Wrap(store Store, around func(ctx context.Context, call string, f func(context.Context) error) error) Store {
	return &wrapped{store, around}
}

type wrapped struct {
	store  Store
	around func(ctx context.Context, call string, f func(context.Context) error) error
}

// Close closes the store.
func (s *wrapped) Close() error { return s.store.Close() }

// wrappedCall is a call that returns something.
func wrappedCall[T any](ctx context.Context, s *wrapped, call string, f func(context.Context) (T, error)) (out T, err error) {
	err = s.around(ctx, call, func(ctx context.Context) error {
		var err error
		out, err = f(ctx)
		return err
	})
	return out, err
}

func (s *wrapped) Contexts() Contexts { return wrappedContexts{s} }

type wrappedContexts struct{ s *wrapped }

func (r wrappedContexts) of() Contexts { return r.s.store.Contexts() }

func (r wrappedContexts) Create(ctx context.Context, c Context) error {
	return r.s.around(ctx, "Contexts.Create", func(ctx context.Context) error { return r.of().Create(ctx, c) })
}

func (r wrappedContexts) Get(ctx context.Context, id string) (Context, error) {
	return wrappedCall(ctx, r.s, "Contexts.Get", func(ctx context.Context) (Context, error) { return r.of().Get(ctx, id) })
}

func (r wrappedContexts) Folded(ctx context.Context, id string) (Context, error) {
	return wrappedCall(ctx, r.s, "Contexts.Folded", func(ctx context.Context) (Context, error) { return r.of().Folded(ctx, id) })
}

func (r wrappedContexts) Update(ctx context.Context, c Context) error {
	return r.s.around(ctx, "Contexts.Update", func(ctx context.Context) error { return r.of().Update(ctx, c) })
}

func (r wrappedContexts) Used(ctx context.Context, id string, at time.Time) error {
	return r.s.around(ctx, "Contexts.Used", func(ctx context.Context) error { return r.of().Used(ctx, id, at) })
}

func (r wrappedContexts) SetLabels(ctx context.Context, id string, change LabelChange) (map[string]string, error) {
	return wrappedCall(ctx, r.s, "Contexts.SetLabels", func(ctx context.Context) (map[string]string, error) { return r.of().SetLabels(ctx, id, change) })
}

func (r wrappedContexts) Delete(ctx context.Context, id string) error {
	return r.s.around(ctx, "Contexts.Delete", func(ctx context.Context) error { return r.of().Delete(ctx, id) })
}

func (r wrappedContexts) List(ctx context.Context) ([]Context, error) {
	return wrappedCall(ctx, r.s, "Contexts.List", func(ctx context.Context) ([]Context, error) { return r.of().List(ctx) })
}

func (s *wrapped) Panels() Panels { return wrappedPanels{s} }

type wrappedPanels struct{ s *wrapped }

func (r wrappedPanels) of() Panels { return r.s.store.Panels() }

func (r wrappedPanels) Bind(ctx context.Context, p Panel) error {
	return r.s.around(ctx, "Panels.Bind", func(ctx context.Context) error { return r.of().Bind(ctx, p) })
}

func (r wrappedPanels) Get(ctx context.Context, id string) (Panel, error) {
	return wrappedCall(ctx, r.s, "Panels.Get", func(ctx context.Context) (Panel, error) { return r.of().Get(ctx, id) })
}

func (r wrappedPanels) Folded(ctx context.Context, id string) (Panel, error) {
	return wrappedCall(ctx, r.s, "Panels.Folded", func(ctx context.Context) (Panel, error) { return r.of().Folded(ctx, id) })
}

func (r wrappedPanels) OfContext(ctx context.Context, contextID string) ([]Panel, error) {
	return wrappedCall(ctx, r.s, "Panels.OfContext", func(ctx context.Context) ([]Panel, error) { return r.of().OfContext(ctx, contextID) })
}

func (r wrappedPanels) Update(ctx context.Context, p Panel) error {
	return r.s.around(ctx, "Panels.Update", func(ctx context.Context) error { return r.of().Update(ctx, p) })
}

func (r wrappedPanels) SetLabels(ctx context.Context, id string, change LabelChange) (map[string]string, error) {
	return wrappedCall(ctx, r.s, "Panels.SetLabels", func(ctx context.Context) (map[string]string, error) { return r.of().SetLabels(ctx, id, change) })
}

func (r wrappedPanels) List(ctx context.Context) ([]Panel, error) {
	return wrappedCall(ctx, r.s, "Panels.List", func(ctx context.Context) ([]Panel, error) { return r.of().List(ctx) })
}

func (s *wrapped) Tokens() Tokens { return wrappedTokens{s} }

type wrappedTokens struct{ s *wrapped }

func (r wrappedTokens) of() Tokens { return r.s.store.Tokens() }

func (r wrappedTokens) Add(ctx context.Context, t Token, now time.Time) error {
	return r.s.around(ctx, "Tokens.Add", func(ctx context.Context) error { return r.of().Add(ctx, t, now) })
}

func (r wrappedTokens) Get(ctx context.Context, hash [32]byte) (Token, error) {
	return wrappedCall(ctx, r.s, "Tokens.Get", func(ctx context.Context) (Token, error) { return r.of().Get(ctx, hash) })
}

func (r wrappedTokens) DeletePanel(ctx context.Context, panelID string) (int, error) {
	return wrappedCall(ctx, r.s, "Tokens.DeletePanel", func(ctx context.Context) (int, error) { return r.of().DeletePanel(ctx, panelID) })
}

func (r wrappedTokens) List(ctx context.Context, panelID string) ([]Token, error) {
	return wrappedCall(ctx, r.s, "Tokens.List", func(ctx context.Context) ([]Token, error) { return r.of().List(ctx, panelID) })
}

func (r wrappedTokens) Live(ctx context.Context, now time.Time) (map[string]int, error) {
	return wrappedCall(ctx, r.s, "Tokens.Live", func(ctx context.Context) (map[string]int, error) { return r.of().Live(ctx, now) })
}

func (s *wrapped) Layers() Layers { return wrappedLayers{s} }

type wrappedLayers struct{ s *wrapped }

func (r wrappedLayers) of() Layers { return r.s.store.Layers() }

func (r wrappedLayers) Put(ctx context.Context, l Layer) error {
	return r.s.around(ctx, "Layers.Put", func(ctx context.Context) error { return r.of().Put(ctx, l) })
}

func (r wrappedLayers) Get(ctx context.Context, digest string) (Layer, error) {
	return wrappedCall(ctx, r.s, "Layers.Get", func(ctx context.Context) (Layer, error) { return r.of().Get(ctx, digest) })
}

func (r wrappedLayers) Delete(ctx context.Context, digest string) error {
	return r.s.around(ctx, "Layers.Delete", func(ctx context.Context) error { return r.of().Delete(ctx, digest) })
}

func (s *wrapped) Sites() Sites { return wrappedSites{s} }

type wrappedSites struct{ s *wrapped }

func (r wrappedSites) of() Sites { return r.s.store.Sites() }

func (r wrappedSites) Add(ctx context.Context, t Site) error {
	return r.s.around(ctx, "Sites.Add", func(ctx context.Context) error { return r.of().Add(ctx, t) })
}

func (r wrappedSites) Renew(ctx context.Context, id string, expires time.Time) error {
	return r.s.around(ctx, "Sites.Renew", func(ctx context.Context) error { return r.of().Renew(ctx, id, expires) })
}

func (r wrappedSites) Delete(ctx context.Context, id string) error {
	return r.s.around(ctx, "Sites.Delete", func(ctx context.Context) error { return r.of().Delete(ctx, id) })
}

func (r wrappedSites) List(ctx context.Context) ([]Site, error) {
	return wrappedCall(ctx, r.s, "Sites.List", func(ctx context.Context) ([]Site, error) { return r.of().List(ctx) })
}
