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
	c.CreatedAt, c.UsedAt = stored(c.CreatedAt), time.Time{}
	return s.writing(ctx, "create the record of context", c.ID, func() error {
		return s.Store.contexts.add(c.ID, c)
	})
}

func (s contexts) Get(ctx context.Context, id string) (c metadata.Context, err error) {
	err = s.reading(ctx, "read the record of context", id, func() (err error) {
		c, err = find(s.Store.contexts.records, id)
		return err
	})
	return c, err
}

func (s contexts) Folded(ctx context.Context, id string) (c metadata.Context, err error) {
	err = s.reading(ctx, "read the record of context", id, func() (err error) {
		c, err = s.Store.contexts.byFold(id)
		return err
	})
	return c, err
}

func (s contexts) Update(ctx context.Context, c metadata.Context) error {
	c.CreatedAt = stored(c.CreatedAt)
	return s.writing(ctx, "update the record of context", c.ID, func() error {
		old, err := find(s.Store.contexts.records, c.ID)
		if err != nil {
			return err
		}
		c.UsedAt = old.UsedAt
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

func (s contexts) Delete(ctx context.Context, id string) error {
	return s.writing(ctx, "delete the record of context", id, func() error {
		if err := s.Store.contexts.remove(id); err != nil {
			return err
		}
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

func (s contexts) List(ctx context.Context) (list []metadata.Context, err error) {
	err = s.reading(ctx, "list the records of", "contexts", func() error {
		list = s.Store.contexts.sorted()
		return nil
	})
	return list, err
}

type panels struct{ *Store }

func storedPanel(p metadata.Panel) metadata.Panel {
	p.OpenedAt, p.ClosedAt = stored(p.OpenedAt), stored(p.ClosedAt)
	return p
}

func (s panels) Bind(ctx context.Context, p metadata.Panel) error {
	return s.writing(ctx, "bind panel", p.ID, func() error {
		return s.Store.panels.add(p.ID, storedPanel(p))
	})
}

func (s panels) Get(ctx context.Context, id string) (p metadata.Panel, err error) {
	err = s.reading(ctx, "read the record of panel", id, func() (err error) {
		p, err = find(s.Store.panels.records, id)
		return err
	})
	return p, err
}

func (s panels) Folded(ctx context.Context, id string) (p metadata.Panel, err error) {
	err = s.reading(ctx, "read the record of panel", id, func() (err error) {
		p, err = s.Store.panels.byFold(id)
		return err
	})
	return p, err
}

func (s panels) OfContext(ctx context.Context, contextID string) (list []metadata.Panel, err error) {
	key := metadata.Fold(contextID)
	err = s.reading(ctx, "list the panels of context", contextID, func() error {
		list = collect(s.Store.panels.records, func(p metadata.Panel) bool { return metadata.Fold(p.ContextID) == key },
			func(a, b metadata.Panel) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	return list, err
}

func (s panels) Update(ctx context.Context, p metadata.Panel) error {
	return s.writing(ctx, "update the record of panel", p.ID, func() error {
		return s.Store.panels.replace(p.ID, storedPanel(p))
	})
}

func (s panels) List(ctx context.Context) (list []metadata.Panel, err error) {
	err = s.reading(ctx, "list the records of", "panels", func() error {
		list = s.Store.panels.sorted()
		return nil
	})
	return list, err
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

func (s tokens) Get(ctx context.Context, hash [32]byte) (t metadata.Token, err error) {
	err = s.reading(ctx, "read the record of", "token", func() (err error) {
		t, err = find(s.Store.tokens, hash)
		return err
	})
	return t, err
}

func (s tokens) DeletePanel(ctx context.Context, panelID string) (n int, err error) {
	err = s.writing(ctx, "delete the tokens of panel", panelID, func() error {
		n = len(s.Store.tokens)
		maps.DeleteFunc(s.Store.tokens, func(_ [32]byte, t metadata.Token) bool { return t.PanelID == panelID })
		n -= len(s.Store.tokens)
		return nil
	})
	return n, err
}

func (s tokens) List(ctx context.Context, panelID string) (list []metadata.Token, err error) {
	err = s.reading(ctx, "list the tokens of panel", panelID, func() error {
		list = collect(s.Store.tokens, func(t metadata.Token) bool { return t.PanelID == panelID }, byIssue)
		return nil
	})
	return list, err
}

type layers struct{ *Store }

func (s layers) Put(ctx context.Context, l metadata.Layer) error {
	l.CreatedAt = stored(l.CreatedAt)
	return s.writing(ctx, "store the record of layer", l.Digest, func() error {
		s.Store.layers[l.Digest] = l
		return nil
	})
}

func (s layers) Get(ctx context.Context, digest string) (l metadata.Layer, err error) {
	err = s.reading(ctx, "read the record of layer", digest, func() (err error) {
		l, err = find(s.Store.layers, digest)
		return err
	})
	return l, err
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
