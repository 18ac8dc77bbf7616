package panels

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/keyed"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// DefaultTTL is a token's life when neither Config nor the request says otherwise.
const DefaultTTL = 24 * time.Hour

// Contexts makes and describes contexts (contexts.Manager).
type Contexts interface {
	// Ensure makes a context unless it exists, and describes it.
	Ensure(ctx context.Context, id contexts.ID, opts contexts.EnsureOptions, progress func(contexts.Progress)) (contexts.Ensured, error)
	// Get describes a context. Its state is StateMissing if there is none.
	Get(ctx context.Context, id contexts.ID) (contexts.Info, error)
	// Distinct fails with EEXIST if another context has an ID that differs from id only by case.
	Distinct(ctx context.Context, id contexts.ID) error
}

// Templates resolves the templates of panels (contexts.Templates).
type Templates interface {
	// Find returns the path of the template beside a panel's source; found is false if there is none.
	Find(panelID string) (path string, found bool, err error)
	// Resolve resolves the template at path as it is now. From then on contexts of its hash can be made.
	Resolve(ctx context.Context, path string) (*template.Resolved, error)
	// Known reports whether contexts can be made of a hash, given in full or its first 12 digits.
	Known(hash string) (bool, error)
}

// Config of New. Contexts and Store are required.
type Config struct {
	Contexts Contexts
	// Templates resolves panels' templates; nil means that there are none.
	Templates Templates
	// Store keeps bindings and tokens; the Registry does not close it.
	Store metadata.Store
	// DefaultTTL of tokens; 0 means DefaultTTL.
	DefaultTTL time.Duration
	// Closed, if not nil, is called after a panel was closed, its context was deleted, or its tokens were revoked. why is one of the errors below.
	Closed func(panelID string, why error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Why what a panel began has ended.
var (
	errClosed  = &fserr.Error{Code: fserr.EACCES, Detail: "the panel was closed", Hint: "its host opens it anew by OpenPanel"}
	errDeleted = &fserr.Error{Code: fserr.EACCES, Detail: "the panel was closed, since its context was deleted", Hint: "its host opens it anew by OpenPanel"}
	errRights  = &fserr.Error{Code: fserr.EACCES, Detail: "the panel lost a right", Hint: "its host opened it again without the right; use the token that the host got then"}
	errMoved   = &fserr.Error{Code: fserr.EACCES, Detail: "the panel got another context", Hint: "its host opened it again; use the token that the host got then"}
)

// Registry implements Service on a metadata.Store. It is safe for concurrent use.
type Registry struct {
	cfg Config
	// panels and contexts have locks by folded ID for look-then-bind, which no unique key of the store covers whole. A caller takes a
	// panel's lock before that of a context.
	panels, contexts keyed.Locks
	cache            tokenCache
	known            knownPanels
}

var _ Service = (*Registry)(nil)

// New returns a Registry.
func New(cfg Config) *Registry {
	if cfg.DefaultTTL <= 0 {
		cfg.DefaultTTL = DefaultTTL
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Closed == nil {
		cfg.Closed = func(string, error) {}
	}
	r := &Registry{cfg: cfg}
	r.cache.tokens.Max, r.known.panels.Max = maxCached, maxCached
	return r
}

// Open implements Service.
func (r *Registry) Open(ctx context.Context, req OpenRequest, progress func(contexts.Progress)) (Opened, error) {
	if req.TTL < 0 {
		return Opened{}, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad token life %s: it must not be negative", req.TTL)}
	}
	if _, err := labels.Apply(nil, req.Labels, nil); err != nil {
		return Opened{}, err
	}
	b, err := r.bind(ctx, req, true)
	if err != nil {
		return Opened{}, err
	}
	e, err := r.cfg.Contexts.Ensure(ctx, b.id(), ensureOptions(b.owner, req), progress)
	if err != nil {
		return Opened{}, err
	}
	tok, err := r.issue(ctx, b.rec, b.rec.ReadOnly || req.ReadOnly, req.TTL)
	if err != nil {
		return Opened{}, err
	}
	p, err := r.described(ctx, b.rec)
	if err != nil {
		return Opened{}, err
	}
	return Opened{Panel: p, Token: tok, Seeded: e.Seeded || b.seeded, Took: e.Took, Files: e.Files, Bytes: e.Bytes, Zones: e.Zones, TemplateUnasked: b.unasked}, nil
}

// ensureOptions are those of a panel's context. A context that belongs to no panel is labelled only by the request that made it.
func ensureOptions(owner string, req OpenRequest) contexts.EnsureOptions {
	opts := contexts.EnsureOptions{OwnerPanel: owner, Spec: req.Spec}
	if owner != "" {
		opts.Labels = req.Labels
	} else {
		opts.NewLabels = req.Labels
	}
	return opts
}

// Bind implements Service.
func (r *Registry) Bind(ctx context.Context, panelID string) (Panel, error) {
	b, err := r.bind(ctx, OpenRequest{PanelID: panelID}, false)
	if err != nil {
		return Panel{}, err
	}
	return r.described(ctx, b.rec)
}

// Renew implements Service.
func (r *Registry) Renew(ctx context.Context, panelID string, ttl time.Duration) (Token, error) {
	rec, err := r.get(ctx, panelID)
	if err != nil {
		return Token{}, err
	}
	if ttl < 0 {
		return Token{}, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad token life %s: it must not be negative", ttl)}
	}
	if !rec.ClosedAt.IsZero() {
		return Token{}, &fserr.Error{Code: fserr.ENOENT, Detail: fmt.Sprintf("panel %q is closed", panelID), Hint: "call OpenPanel"}
	}
	return r.issue(ctx, rec, rec.ReadOnly, ttl)
}

// Close implements Service.
func (r *Registry) Close(ctx context.Context, panelID string) (int, error) {
	n, err := r.close(ctx, panelID)
	r.cache.dropPanel(panelID)
	if err == nil {
		r.cfg.Closed(panelID, errClosed)
	}
	return n, err
}

func (r *Registry) close(ctx context.Context, panelID string) (int, error) {
	unlock, err := r.lockPanel(ctx, panelID)
	if err != nil {
		return 0, err
	}
	defer unlock()
	rec, err := r.get(ctx, panelID)
	if err != nil {
		return 0, err
	}
	// The tokens go first: whatever ends the server here, no closed panel has a token that holds.
	n, err := r.revoke(ctx, rec)
	if err != nil {
		return n, err
	}
	if rec.ClosedAt.IsZero() {
		rec.ClosedAt = r.cfg.Now()
		if err := r.cfg.Store.Panels().Update(ctx, rec); err != nil {
			return n, fmt.Errorf("close panel %q: %w", panelID, err)
		}
		r.known.keep(rec)
	}
	return n, nil
}

// SetLabels implements Service.
func (r *Registry) SetLabels(ctx context.Context, panelID string, put map[string]string, remove []string) (map[string]string, error) {
	unlock, err := r.lockPanel(ctx, panelID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return r.setLabels(ctx, panelID, put, remove)
}

// setLabels is SetLabels under the panel's lock.
func (r *Registry) setLabels(ctx context.Context, panelID string, put map[string]string, remove []string) (map[string]string, error) {
	set, err := r.cfg.Store.Panels().SetLabels(ctx, panelID, func(old map[string]string) (map[string]string, error) {
		return labels.Apply(old, put, remove)
	})
	switch {
	case errors.Is(err, metadata.ErrNotFound):
		return nil, unknownPanel(panelID)
	case err != nil:
		return nil, fmt.Errorf("label panel %.80q: %w", panelID, err)
	}
	r.known.label(panelID, set)
	return set, nil
}

// List implements Service.
func (r *Registry) List(ctx context.Context) ([]Panel, error) {
	recs, err := r.cfg.Store.Panels().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list panels: %w", err)
	}
	live, err := r.cfg.Store.Tokens().Live(ctx, r.cfg.Now())
	if err != nil {
		return nil, fmt.Errorf("list panels: %w", err)
	}
	out := make([]Panel, 0, len(recs))
	for _, rec := range recs {
		out = append(out, describe(rec, live[rec.ID]))
	}
	return out, nil
}

// ContextDeleted closes the panels of a context that was deleted, with their records (contexts.Events.Deleted).
func (r *Registry) ContextDeleted(panelIDs []string) {
	for _, id := range panelIDs {
		r.known.deleted(id, r.cfg.Now())
		r.cache.dropPanel(id)
		r.cfg.Closed(id, errDeleted)
	}
}

// lockPanel takes the lock of a panel, under which its binding and its tokens change.
func (r *Registry) lockPanel(ctx context.Context, panelID string) (unlock func(), err error) {
	if unlock, err = r.panels.Lock(ctx, metadata.Fold(panelID)); err != nil {
		return nil, fmt.Errorf("wait for another call about panel %.80q: %w", panelID, err)
	}
	return unlock, nil
}

func (r *Registry) get(ctx context.Context, panelID string) (metadata.Panel, error) {
	rec, err := r.cfg.Store.Panels().Get(ctx, panelID)
	if errors.Is(err, metadata.ErrNotFound) {
		return rec, unknownPanel(panelID)
	}
	if err != nil {
		return rec, fmt.Errorf("read panel %.80q: %w", panelID, err)
	}
	return rec, nil
}

func unknownPanel(panelID string) error {
	return &fserr.Error{Code: fserr.ENOENT, Detail: fmt.Sprintf("no panel %.80q", panelID), Hint: "call OpenPanel"}
}

// described returns a panel with the number of its live tokens.
func (r *Registry) described(ctx context.Context, rec metadata.Panel) (Panel, error) {
	toks, err := r.cfg.Store.Tokens().List(ctx, rec.ID)
	if err != nil {
		return Panel{}, fmt.Errorf("list the tokens of panel %q: %w", rec.ID, err)
	}
	live, now := 0, r.cfg.Now()
	for _, t := range toks {
		if t.ExpiresAt.After(now) {
			live++
		}
	}
	return describe(rec, live), nil
}

func describe(rec metadata.Panel, liveTokens int) Panel {
	return Panel{
		ID: rec.ID, ContextID: contexts.ID(rec.ContextID), ReadOnly: rec.ReadOnly, Rights: rec.Rights,
		Open: rec.ClosedAt.IsZero(), OpenedAt: rec.OpenedAt, Tokens: liveTokens, Labels: rec.Labels,
	}
}
