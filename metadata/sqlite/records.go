package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

type contexts struct{ *Store }

const contextColumns = `id, explicit, owner_panel, state, last_error, driver, layer,
	generation, files, bytes, created_at, seeded_in, recovered, forked_from`

// selectContexts reads scanContext's columns; insertContext takes newContextValues.
const (
	selectContexts = `SELECT ` + contextColumns + `, used_at, labels FROM contexts`
	insertContext  = `INSERT INTO contexts (` + contextColumns + `, id_folded, used_at, labels) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func scanContext(row scanner) (c metadata.Context, err error) {
	var generation int64
	err = row.Scan(&c.ID, &c.Explicit, &c.OwnerPanel, &c.State, &c.LastError, &c.Driver, &c.Layer,
		&generation, &c.Files, &c.Bytes, millis{&c.CreatedAt}, &c.SeededIn, &c.Recovered, &c.ForkedFrom, millis{&c.UsedAt}, labels.Column{To: &c.Labels})
	c.Generation = uint64(generation)
	return c, err
}

// contextValues are c's columns in the order of contextColumns. SQLite's integers
// are signed: the generation's bits are kept.
func contextValues(c metadata.Context) []any {
	return []any{c.ID, c.Explicit, c.OwnerPanel, string(c.State), c.LastError, c.Driver, c.Layer,
		int64(c.Generation), c.Files, c.Bytes, c.CreatedAt.UnixMilli(), int64(c.SeededIn), c.Recovered, c.ForkedFrom}
}

func newContextValues(c metadata.Context) []any {
	return append(contextValues(c), metadata.Fold(c.ID), c.UsedAt.UnixMilli(), labels.Text(c.Labels))
}

func (s contexts) Create(ctx context.Context, c metadata.Context) error {
	_, err := exec(ctx, s.write, insertContext, newContextValues(c)...)
	return s.explain(err, "create the record of context", c.ID)
}

func (s contexts) Get(ctx context.Context, id string) (metadata.Context, error) {
	c, err := one(ctx, s.read, scanContext, selectContexts+` WHERE id = ?`, id)
	return c, s.explain(err, "read the record of context", id)
}

func (s contexts) Folded(ctx context.Context, id string) (metadata.Context, error) {
	c, err := one(ctx, s.read, scanContext, selectContexts+` WHERE id_folded = ?`, metadata.Fold(id))
	return c, s.explain(err, "read the record of context", id)
}

func (s contexts) Update(ctx context.Context, c metadata.Context) error {
	err := s.later(ctx, `UPDATE contexts SET (`+contextColumns+`) =
		(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?`, append(contextValues(c), c.ID)...)
	return s.explain(err, "update the record of context", c.ID)
}

func (s contexts) Used(ctx context.Context, id string, at time.Time) error {
	err := s.later(ctx, `UPDATE contexts SET used_at = ? WHERE id = ?`, at.UnixMilli(), id)
	return s.explain(err, "update the record of context", id)
}

func (s contexts) SetLabels(ctx context.Context, id string, change metadata.LabelChange) (map[string]string, error) {
	set, err := s.setLabels(ctx, "contexts", id, change)
	return set, s.explain(err, "label context", id)
}

func (s contexts) Delete(ctx context.Context, id string) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		if err := touch(ctx, tx, `DELETE FROM contexts WHERE id = ?`, id); err != nil {
			return err
		}
		if _, err := exec(ctx, tx, `DELETE FROM sites WHERE context_id = ?`, id); err != nil {
			return err
		}
		// The panels' tokens go with them (ON DELETE CASCADE).
		_, err := exec(ctx, tx, `DELETE FROM panels WHERE context_id = ?`, id)
		return err
	})
	return s.explain(err, "delete the record of context", id)
}

func (s contexts) List(ctx context.Context) ([]metadata.Context, error) {
	list, err := all(ctx, s.read, scanContext, selectContexts+` ORDER BY id`)
	return list, s.explain(err, "list the records of", "contexts")
}

type panels struct{ *Store }

const panelColumns = `id, context_id, read_only, opened_at, closed_at, rights`

// selectPanels reads scanPanel's columns; insertPanel takes panelValues, the panel's key and its labels.
const (
	selectPanels = `SELECT ` + panelColumns + `, labels FROM panels`
	insertPanel  = `INSERT INTO panels (` + panelColumns + `, context_folded, id_folded, labels) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func scanPanel(row scanner) (p metadata.Panel, err error) {
	err = row.Scan(&p.ID, &p.ContextID, &p.ReadOnly, millis{&p.OpenedAt}, millis{&p.ClosedAt}, &p.Rights, labels.Column{To: &p.Labels})
	return p, err
}

// panelValues are p's columns in the order of panelColumns, with context_folded after them.
func panelValues(p metadata.Panel) []any {
	return []any{p.ID, p.ContextID, p.ReadOnly, p.OpenedAt.UnixMilli(), p.ClosedAt.UnixMilli(), int64(p.Rights), metadata.Fold(p.ContextID)}
}

func (s panels) Bind(ctx context.Context, p metadata.Panel) error {
	_, err := exec(ctx, s.write, insertPanel, append(panelValues(p), metadata.Fold(p.ID), labels.Text(p.Labels))...)
	return s.explain(err, "bind panel", p.ID)
}

func (s panels) Get(ctx context.Context, id string) (metadata.Panel, error) {
	p, err := one(ctx, s.read, scanPanel, selectPanels+` WHERE id = ?`, id)
	return p, s.explain(err, "read the record of panel", id)
}

func (s panels) Folded(ctx context.Context, id string) (metadata.Panel, error) {
	p, err := one(ctx, s.read, scanPanel, selectPanels+` WHERE id_folded = ?`, metadata.Fold(id))
	return p, s.explain(err, "read the record of panel", id)
}

func (s panels) OfContext(ctx context.Context, contextID string) ([]metadata.Panel, error) {
	list, err := all(ctx, s.read, scanPanel, selectPanels+` WHERE context_folded = ? ORDER BY id`, metadata.Fold(contextID))
	return list, s.explain(err, "list the panels of context", contextID)
}

func (s panels) Update(ctx context.Context, p metadata.Panel) error {
	err := touch(ctx, s.write, `UPDATE panels SET (`+panelColumns+`, context_folded) = (?, ?, ?, ?, ?, ?, ?) WHERE id = ?`,
		append(panelValues(p), p.ID)...)
	return s.explain(err, "update the record of panel", p.ID)
}

func (s panels) SetLabels(ctx context.Context, id string, change metadata.LabelChange) (map[string]string, error) {
	set, err := s.setLabels(ctx, "panels", id, change)
	return set, s.explain(err, "label panel", id)
}

func (s panels) List(ctx context.Context) ([]metadata.Panel, error) {
	list, err := all(ctx, s.read, scanPanel, selectPanels+` ORDER BY id`)
	return list, s.explain(err, "list the records of", "panels")
}

type tokens struct{ *Store }

const (
	tokenColumns = `hash, panel_id, context_id, read_only, issued_at, expires_at, rights`
	insertToken  = `INSERT INTO tokens (` + tokenColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?)`
)

// tokenValues are t's columns in the order of tokenColumns.
func tokenValues(t metadata.Token) []any {
	return []any{t.Hash[:], t.PanelID, t.ContextID, t.ReadOnly, t.IssuedAt.UnixMilli(), t.ExpiresAt.UnixMilli(), int64(t.Rights)}
}

func scanToken(row scanner) (t metadata.Token, err error) {
	var hash []byte
	err = row.Scan(&hash, &t.PanelID, &t.ContextID, &t.ReadOnly, millis{&t.IssuedAt}, millis{&t.ExpiresAt}, &t.Rights)
	if err == nil && copy(t.Hash[:], hash) != len(t.Hash) {
		err = errors.New("a token's hash is too short")
	}
	return t, err
}

func (s tokens) Add(ctx context.Context, t metadata.Token, now time.Time) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		if _, err := exec(ctx, tx, `DELETE FROM tokens WHERE expires_at < ?`, now.UnixMilli()); err != nil {
			return err
		}
		_, err := exec(ctx, tx, insertToken, tokenValues(t)...)
		return err
	})
	return s.explain(err, "store a token of panel", t.PanelID)
}

func (s tokens) Get(ctx context.Context, hash [32]byte) (metadata.Token, error) {
	t, err := one(ctx, s.read, scanToken, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash[:])
	return t, s.explain(err, "read the record of", "token")
}

func (s tokens) DeletePanel(ctx context.Context, panelID string) (int, error) {
	var n int64
	err := s.within(ctx, func(tx *sql.Tx) (err error) {
		// A panel's sites are of its context, by which there is an index.
		_, err = exec(ctx, tx, `DELETE FROM sites WHERE panel_id = ? AND context_id = (SELECT context_id FROM panels WHERE id = ?)`, panelID, panelID)
		if err == nil {
			n, err = exec(ctx, tx, `DELETE FROM tokens WHERE panel_id = ?`, panelID)
		}
		return err
	})
	return int(n), s.explain(err, "delete the tokens of panel", panelID)
}

func (s tokens) List(ctx context.Context, panelID string) ([]metadata.Token, error) {
	list, err := all(ctx, s.read, scanToken,
		`SELECT `+tokenColumns+` FROM tokens WHERE panel_id = ? ORDER BY issued_at, hash`, panelID)
	return list, s.explain(err, "list the tokens of panel", panelID)
}

func (s tokens) Live(ctx context.Context, now time.Time) (map[string]int, error) {
	live := map[string]int{}
	_, err := all(ctx, s.read, func(row scanner) (n int, err error) {
		var id string
		err = row.Scan(&id, &n)
		live[id] = n
		return n, err
	}, `SELECT panel_id, count(*) FROM tokens WHERE expires_at > ? GROUP BY panel_id`, now.UnixMilli())
	return live, s.explain(err, "count the live", "tokens")
}

type layers struct{ *Store }

const (
	layerColumns = `digest, kind, files, bytes, created_at`
	insertLayer  = `INSERT OR REPLACE INTO layers (` + layerColumns + `) VALUES (?, ?, ?, ?, ?)`
)

// layerValues are l's columns in the order of layerColumns.
func layerValues(l metadata.Layer) []any {
	return []any{l.Digest, l.Kind, l.Files, l.Bytes, l.CreatedAt.UnixMilli()}
}

func scanLayer(row scanner) (l metadata.Layer, err error) {
	err = row.Scan(&l.Digest, &l.Kind, &l.Files, &l.Bytes, millis{&l.CreatedAt})
	return l, err
}

func (s layers) Put(ctx context.Context, l metadata.Layer) error {
	_, err := exec(ctx, s.write, insertLayer, layerValues(l)...)
	return s.explain(err, "store the record of layer", l.Digest)
}

func (s layers) Get(ctx context.Context, digest string) (metadata.Layer, error) {
	l, err := one(ctx, s.read, scanLayer, `SELECT `+layerColumns+` FROM layers WHERE digest = ?`, digest)
	return l, s.explain(err, "read the record of layer", digest)
}

func (s layers) Delete(ctx context.Context, digest string) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		if err := touch(ctx, tx, `DELETE FROM layers WHERE digest = ?`, digest); err != nil {
			return err
		}
		var used bool
		row := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM contexts WHERE layer = ?)`, digest)
		if err := row.Scan(&used); err != nil {
			return err
		}
		if used {
			return metadata.ErrConflict
		}
		return nil
	})
	return s.explain(err, "delete the record of layer", digest)
}
