package memory

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

type contexts struct{ *Store }

func (s contexts) Create(ctx context.Context, c metadata.Context) error {
	c.CreatedAt, c.UsedAt = stored(c.CreatedAt), stored(c.UsedAt)
	return s.writing(ctx, "create the record of context", c.ID, func() error {
		c.Labels = storedLabels(c.Labels)
		return s.Store.contexts.add(c.ID, c)
	})
}

func (s contexts) Get(ctx context.Context, id string) (metadata.Context, error) {
	return reading(ctx, s.Store, "read the record of context", id, func() (metadata.Context, error) { return find(s.Store.contexts.records, id) })
}

func (s contexts) Folded(ctx context.Context, id string) (metadata.Context, error) {
	return reading(ctx, s.Store, "read the record of context", id, func() (metadata.Context, error) { return s.Store.contexts.byFold(id) })
}

func (s contexts) Update(ctx context.Context, c metadata.Context) error {
	c.CreatedAt = stored(c.CreatedAt)
	return s.writing(ctx, "update the record of context", c.ID, func() error {
		old, err := find(s.Store.contexts.records, c.ID)
		if err != nil {
			return err
		}
		c.UsedAt, c.Labels = old.UsedAt, old.Labels
		return s.Store.contexts.replace(c.ID, c)
	})
}

func (s contexts) Used(ctx context.Context, id string, at time.Time) error {
	return s.writing(ctx, "update the record of context", id, func() error {
		c, err := find(s.Store.contexts.records, id)
		if err != nil {
			return err
		}
		c.UsedAt = stored(at)
		return s.Store.contexts.replace(id, c)
	})
}

func (s contexts) SetLabels(ctx context.Context, id string, change metadata.LabelChange) (set map[string]string, err error) {
	err = s.writing(ctx, "label context", id, func() error {
		c, err := find(s.Store.contexts.records, id)
		if err == nil {
			set, err = change(c.Labels)
		}
		if err != nil {
			return err
		}
		set = storedLabels(set)
		c.Labels = set
		return s.Store.contexts.replace(id, c)
	})
	return set, err
}

func (s contexts) Delete(ctx context.Context, id string) error {
	return s.writing(ctx, "delete the record of context", id, func() error {
		if err := s.Store.contexts.remove(id); err != nil {
			return err
		}
		maps.DeleteFunc(s.Store.sites, func(_ string, site metadata.Site) bool { return site.ContextID == id })
		for _, p := range s.Store.panels.sorted() {
			if p.ContextID == id {
				s.dropPanel(p.ID)
			}
		}
		return nil
	})
}

// dropPanel removes a panel and its tokens.
func (s *Store) dropPanel(id string) {
	_ = s.panels.remove(id) // it was just listed
	maps.DeleteFunc(s.tokens, func(_ [32]byte, t metadata.Token) bool { return t.PanelID == id })
}

func (s contexts) List(ctx context.Context) ([]metadata.Context, error) {
	return reading(ctx, s.Store, "list the records of", "contexts", func() ([]metadata.Context, error) {
		return s.Store.contexts.sorted(), nil
	})
}

type panels struct{ *Store }

func storedPanel(p metadata.Panel) metadata.Panel {
	p.OpenedAt, p.ClosedAt = stored(p.OpenedAt), stored(p.ClosedAt)
	return p
}

func (s panels) Bind(ctx context.Context, p metadata.Panel) error {
	return s.writing(ctx, "bind panel", p.ID, func() error {
		p.Labels = storedLabels(p.Labels)
		return s.Store.panels.add(p.ID, storedPanel(p))
	})
}

func (s panels) Get(ctx context.Context, id string) (metadata.Panel, error) {
	return reading(ctx, s.Store, "read the record of panel", id, func() (metadata.Panel, error) { return find(s.Store.panels.records, id) })
}

func (s panels) Folded(ctx context.Context, id string) (metadata.Panel, error) {
	return reading(ctx, s.Store, "read the record of panel", id, func() (metadata.Panel, error) { return s.Store.panels.byFold(id) })
}

func (s panels) OfContext(ctx context.Context, contextID string) ([]metadata.Panel, error) {
	key := metadata.Fold(contextID)
	return reading(ctx, s.Store, "list the panels of context", contextID, func() ([]metadata.Panel, error) {
		return collect(s.Store.panels.records, func(p metadata.Panel) bool { return metadata.Fold(p.ContextID) == key },
			func(a, b metadata.Panel) int { return cmp.Compare(a.ID, b.ID) }), nil
	})
}

func (s panels) Update(ctx context.Context, p metadata.Panel) error {
	return s.writing(ctx, "update the record of panel", p.ID, func() error {
		old, err := find(s.Store.panels.records, p.ID)
		if err != nil {
			return err
		}
		p.Labels = old.Labels
		return s.Store.panels.replace(p.ID, storedPanel(p))
	})
}

func (s panels) SetLabels(ctx context.Context, id string, change metadata.LabelChange) (set map[string]string, err error) {
	err = s.writing(ctx, "label panel", id, func() error {
		p, err := find(s.Store.panels.records, id)
		if err == nil {
			set, err = change(p.Labels)
		}
		if err != nil {
			return err
		}
		set = storedLabels(set)
		p.Labels = set
		return s.Store.panels.replace(id, p)
	})
	return set, err
}

func (s panels) List(ctx context.Context) ([]metadata.Panel, error) {
	return reading(ctx, s.Store, "list the records of", "panels", func() ([]metadata.Panel, error) {
		return s.Store.panels.sorted(), nil
	})
}

type tokens struct{ *Store }

func (s tokens) Add(ctx context.Context, t metadata.Token, now time.Time) error {
	t.IssuedAt, t.ExpiresAt = stored(t.IssuedAt), stored(t.ExpiresAt)
	return s.writing(ctx, "store a token of panel", t.PanelID, func() error {
		if _, err := find(s.Store.panels.records, t.PanelID); err != nil {
			return err
		}
		if old, ok := s.Store.tokens[t.Hash]; ok && !old.ExpiresAt.Before(stored(now)) {
			return metadata.ErrConflict
		}
		maps.DeleteFunc(s.Store.tokens, func(_ [32]byte, old metadata.Token) bool {
			return old.ExpiresAt.Before(stored(now))
		})
		s.Store.tokens[t.Hash] = t
		return nil
	})
}

func (s tokens) Get(ctx context.Context, hash [32]byte) (metadata.Token, error) {
	return reading(ctx, s.Store, "read the record of", "token", func() (metadata.Token, error) { return find(s.Store.tokens, hash) })
}

func (s tokens) DeletePanel(ctx context.Context, panelID string) (n int, err error) {
	err = s.writing(ctx, "delete the tokens of panel", panelID, func() error {
		n = len(s.Store.tokens)
		maps.DeleteFunc(s.Store.tokens, func(_ [32]byte, t metadata.Token) bool { return t.PanelID == panelID })
		maps.DeleteFunc(s.Store.sites, func(_ string, site metadata.Site) bool {
			return site.PanelID == panelID && site.ContextID == s.Store.panels.records[panelID].ContextID
		})
		n -= len(s.Store.tokens)
		return nil
	})
	return n, err
}

func (s tokens) List(ctx context.Context, panelID string) ([]metadata.Token, error) {
	return reading(ctx, s.Store, "list the tokens of panel", panelID, func() ([]metadata.Token, error) {
		return collect(s.Store.tokens, func(t metadata.Token) bool { return t.PanelID == panelID }, byIssue), nil
	})
}

func (s tokens) Live(ctx context.Context, now time.Time) (map[string]int, error) {
	return reading(ctx, s.Store, "count the live", "tokens", func() (map[string]int, error) {
		live := map[string]int{}
		for _, t := range s.Store.tokens {
			if t.ExpiresAt.After(stored(now)) {
				live[t.PanelID]++
			}
		}
		return live, nil
	})
}

type layers struct{ *Store }

func (s layers) Put(ctx context.Context, l metadata.Layer) error {
	l.CreatedAt = stored(l.CreatedAt)
	return s.writing(ctx, "store the record of layer", l.Digest, func() error {
		s.Store.layers[l.Digest] = l
		return nil
	})
}

func (s layers) Get(ctx context.Context, digest string) (metadata.Layer, error) {
	return reading(ctx, s.Store, "read the record of layer", digest, func() (metadata.Layer, error) { return find(s.Store.layers, digest) })
}

func (s layers) Delete(ctx context.Context, digest string) error {
	return s.writing(ctx, "delete the record of layer", digest, func() error {
		if _, err := find(s.Store.layers, digest); err != nil {
			return err
		}
		for _, c := range s.Store.contexts.records {
			if c.Layer == digest {
				return metadata.ErrConflict
			}
		}
		delete(s.Store.layers, digest)
		return nil
	})
}
