package panels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/internal/recent"
	"github.com/ctxfs/ctxfs/metadata"
)

// knownPanels are the panels that this server bound or changed last. They outlive a database that lost its last commits.
type knownPanels struct {
	mu     sync.Mutex
	panels recent.Map[string, knownPanel]
}

type knownPanel struct {
	rec metadata.Panel
	// revokedAt is when tokens were revoked last; zero if they were not.
	revokedAt time.Time
	// gone means that the panel's context was deleted.
	gone bool
}

// change changes what is known of a panel.
func (k *knownPanels) change(id string, f func(p *knownPanel)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, _, _ := k.panels.Get(id)
	f(&p)
	k.panels.Put(id, p)
}

// keep notes a panel's record as the database has it.
func (k *knownPanels) keep(rec metadata.Panel) {
	k.change(rec.ID, func(p *knownPanel) { p.rec, p.gone = rec, false })
}

// revoked notes that the tokens of a panel ended. Its record may follow.
func (k *knownPanels) revoked(rec metadata.Panel, at time.Time) {
	k.change(rec.ID, func(p *knownPanel) { p.rec, p.revokedAt, p.gone = rec, at, false })
}

// label notes the labels of a panel, if it is known.
func (k *knownPanels) label(id string, set map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, _, ok := k.panels.Get(id); ok {
		p.rec.Labels = set
		k.panels.Put(id, p)
	}
}

// deleted notes that a panel went with its context.
func (k *knownPanels) deleted(id string, at time.Time) {
	k.change(id, func(p *knownPanel) {
		p.rec.ID, p.rec.ClosedAt, p.revokedAt, p.gone = id, at, at, true
	})
}

func (k *knownPanels) get(id string) (knownPanel, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, _, ok := k.panels.Get(id)
	return p, ok
}

func (k *knownPanels) all() map[string]knownPanel {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Collect(k.panels.All())
}

// Restored counts what Restore repaired.
type Restored struct {
	// Panels were bound again, or got their state back.
	Panels int
	// Tokens were stored again, Revoked were revoked again.
	Tokens, Revoked int
}

// ErrNotRevoked means that a token which was revoked may work again.
var ErrNotRevoked = errors.New("not all revoked tokens could be revoked again")

// Restore gives a database that may have lost its last commits what this server knows of panels: bindings, tokens and revocations. Panels
// that are not in memory stay as the database has them. lost says that commits were lost for sure; else it looks only at panels whose
// records differ.
//
// All revocations come first. An error of one panel does not keep the others from being restored, unless the database is away again. The
// error wraps ErrNotRevoked if a revocation is missing.
func (r *Registry) Restore(ctx context.Context, lost bool) (Restored, error) {
	var out Restored
	ids, err := r.doubtful(ctx, lost)
	if err != nil {
		return out, fmt.Errorf("%w: list panels: %w", ErrNotRevoked, err)
	}
	var errs []error
	kept := map[string]int{}
	for _, id := range ids {
		if kept[id], err = r.revokeAgain(ctx, id, &out); err != nil {
			errs = append(errs, fmt.Errorf("%w: panel %q: %w", ErrNotRevoked, id, err))
		}
		if errors.Is(err, metadata.ErrUnavailable) || ctx.Err() != nil {
			return out, errors.Join(errs...)
		}
	}
	live := r.cache.live(r.cfg.Now())
	for _, id := range ids {
		if err := r.restore(ctx, id, live[id], &out); err != nil {
			errs = append(errs, fmt.Errorf("restore panel %q: %w", id, err))
			if errors.Is(err, metadata.ErrUnavailable) || ctx.Err() != nil {
				break
			}
			continue
		}
		out.Tokens -= kept[id]
	}
	return out, errors.Join(errs...)
}

// doubtful lists the panels that may have to be restored.
func (r *Registry) doubtful(ctx context.Context, lost bool) (ids []string, err error) {
	list, err := r.cfg.Store.Panels().List(ctx)
	if err != nil {
		return nil, err
	}
	stored := make(map[string]metadata.Panel, len(list))
	for _, rec := range list {
		stored[rec.ID] = rec
	}
	for id, k := range r.known.all() {
		rec, ok := stored[id]
		if lost || !(k.gone && !ok || ok && same(rec, k.rec)) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// same compares records as a store keeps them.
func same(a, b metadata.Panel) bool {
	at := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return a.ContextID == b.ContextID && maps.Equal(a.Labels, b.Labels) && a.ReadOnly == b.ReadOnly && a.Rights == b.Rights && at(a.OpenedAt) == at(b.OpenedAt) && at(a.ClosedAt) == at(b.ClosedAt)
}

// outlasts reports whether a token was issued after the tokens of its panel were revoked last.
func (k knownPanel) outlasts(t metadata.Token) bool {
	return k.revokedAt.IsZero() || t.IssuedAt.After(k.revokedAt)
}

// revokeAgain revokes the tokens of a panel that were revoked before. The later ones go with them: kept counts those, which restore stores
// again from the cache.
func (r *Registry) revokeAgain(ctx context.Context, id string, out *Restored) (kept int, err error) {
	unlock, err := r.lockPanel(ctx, id)
	if err != nil {
		return 0, err
	}
	defer unlock()
	k, _ := r.known.get(id) // it may have changed since it was listed
	if k.revokedAt.IsZero() {
		return 0, nil
	}
	had, err := r.cfg.Store.Tokens().List(ctx, id)
	if err != nil {
		return 0, err
	}
	revoked := 0
	for _, t := range had {
		cached, epoch, ok := r.cache.get(t.Hash)
		if ok {
			t = cached // with the time as it was
		}
		if !k.outlasts(t) {
			revoked++
			continue
		}
		r.cache.put(t, epoch)
		kept++
	}
	if revoked == 0 {
		return 0, nil
	}
	if _, err := r.cfg.Store.Tokens().DeletePanel(ctx, id); err != nil {
		return 0, err
	}
	out.Revoked += revoked
	return kept, nil
}

// restore restores a panel and its tokens.
func (r *Registry) restore(ctx context.Context, id string, live []metadata.Token, out *Restored) error {
	unlock, err := r.lockPanel(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	k, _ := r.known.get(id)
	old, err := r.bindingOf(ctx, id)
	switch {
	case err != nil || old == nil && k.gone:
		return err
	case k.gone:
		closed := *old
		closed.ClosedAt = k.rec.ClosedAt
		k.rec = closed
	}
	if err := r.restoreRecord(ctx, k.rec, old != nil, out); err != nil {
		return err
	}
	return r.restoreTokens(ctx, k, live, out)
}

// restoreTokens stores the tokens of a panel that the database lacks.
func (r *Registry) restoreTokens(ctx context.Context, k knownPanel, live []metadata.Token, out *Restored) error {
	had, err := r.cfg.Store.Tokens().List(ctx, k.rec.ID)
	if err != nil {
		return err
	}
	stored := map[[32]byte]bool{}
	for _, t := range had {
		stored[t.Hash] = true
	}
	for _, t := range live {
		if stored[t.Hash] || !k.outlasts(t) {
			continue
		}
		if err := r.cfg.Store.Tokens().Add(ctx, t, r.cfg.Now()); err != nil {
			return err
		}
		out.Tokens++
	}
	return nil
}

// restoreRecord binds a panel again, or gives its record the state that it had.
func (r *Registry) restoreRecord(ctx context.Context, rec metadata.Panel, bound bool, out *Restored) error {
	if !bound {
		out.Panels++
		return r.cfg.Store.Panels().Bind(ctx, rec)
	}
	now, err := r.cfg.Store.Panels().Get(ctx, rec.ID)
	if err != nil || same(now, rec) {
		return err
	}
	out.Panels++
	if err := r.cfg.Store.Panels().Update(ctx, rec); err != nil {
		return err
	}
	_, err = r.cfg.Store.Panels().SetLabels(ctx, rec.ID, func(map[string]string) (map[string]string, error) { return rec.Labels, nil })
	return err
}

// RevokeAll revokes the tokens of all panels and returns how many. Only a start calls it: it ends nothing that is under way.
func (r *Registry) RevokeAll(ctx context.Context) (int, error) {
	list, err := r.cfg.Store.Panels().List(ctx)
	if err != nil {
		return 0, fmt.Errorf("list panels: %w", err)
	}
	all := 0
	for _, rec := range list {
		n, err := r.revoke(ctx, rec)
		if err != nil {
			return all, err
		}
		all += n
	}
	return all, nil
}
