package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

type contexts struct{ *Store }

const contextColumns = `id, explicit, owner_panel, state, last_error, driver, layer,
	generation, files, bytes, created_at, seeded_in, recovered, forked_from`

// selectContexts reads scanContext's columns; insertContext takes newContextValues.
const (
	selectContexts = `SELECT ` + contextColumns + `, used_at, labels::text FROM @.contexts`
	insertContext  = `INSERT INTO @.contexts (` + contextColumns + `, id_folded, used_at, labels)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17::text::jsonb)`
)

func scanContext(row pgx.CollectableRow) (c metadata.Context, err error) {
	var generation int64
	err = row.Scan(&c.ID, &c.Explicit, &c.OwnerPanel, &c.State, &c.LastError, &c.Driver, &c.Layer,
		&generation, &c.Files, &c.Bytes, when{&c.CreatedAt}, &c.SeededIn, &c.Recovered, &c.ForkedFrom, when{&c.UsedAt}, labels.Column{To: &c.Labels})
	c.Generation = uint64(generation)
	return c, err
}

// contextValues are c's columns in the order of contextColumns. PostgreSQL's integers
// are signed: the generation's bits are kept. An error may quote a path, whose bytes need not be UTF-8.
func contextValues(c metadata.Context) []any {
	return []any{c.ID, c.Explicit, c.OwnerPanel, string(c.State), metadata.Readable(c.LastError), c.Driver, c.Layer,
		int64(c.Generation), c.Files, c.Bytes, stored(c.CreatedAt), int64(c.SeededIn), c.Recovered, c.ForkedFrom}
}

func newContextValues(c metadata.Context) []any {
	return append(contextValues(c), metadata.Fold(c.ID), stored(c.UsedAt), labels.Text(c.Labels))
}

func (s contexts) Create(ctx context.Context, c metadata.Context) error {
	_, err := s.exec(ctx, insertContext, newContextValues(c)...)
	return s.explain(err, "create the record of context", c.ID)
}

func (s contexts) Get(ctx context.Context, id string) (metadata.Context, error) {
	c, err := one(ctx, s.Store, scanContext, selectContexts+` WHERE id = $1`, id)
	return c, s.explain(err, "read the record of context", id)
}

func (s contexts) Folded(ctx context.Context, id string) (metadata.Context, error) {
	c, err := one(ctx, s.Store, scanContext, selectContexts+` WHERE id_folded = $1`, metadata.Fold(id))
	return c, s.explain(err, "read the record of context", id)
}

func (s contexts) Update(ctx context.Context, c metadata.Context) error {
	err := s.touch(ctx, `UPDATE @.contexts SET (`+contextColumns+`) =
		($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) WHERE id = $15`, append(contextValues(c), c.ID)...)
	return s.explain(err, "update the record of context", c.ID)
}

func (s contexts) Used(ctx context.Context, id string, at time.Time) error {
	err := s.touch(ctx, `UPDATE @.contexts SET used_at = $1 WHERE id = $2`, stored(at), id)
	return s.explain(err, "update the record of context", id)
}

func (s contexts) SetLabels(ctx context.Context, id string, change metadata.LabelChange) (map[string]string, error) {
	set, err := s.setLabels(ctx, "contexts", id, change)
	return set, s.explain(err, "label context", id)
}

// Delete is one statement. The panels' tokens go with them (ON DELETE CASCADE).
func (s contexts) Delete(ctx context.Context, id string) error {
	err := s.touch(ctx, `WITH panel AS (DELETE FROM @.panels WHERE context_id = $1 AND EXISTS (SELECT 1 FROM @.contexts WHERE id = $1)),
		site AS (DELETE FROM @.sites WHERE context_id = $1 AND EXISTS (SELECT 1 FROM @.contexts WHERE id = $1))
		DELETE FROM @.contexts WHERE id = $1`, id)
	return s.explain(err, "delete the record of context", id)
}

func (s contexts) List(ctx context.Context) ([]metadata.Context, error) {
	list, err := all(ctx, s.Store, scanContext, selectContexts+` ORDER BY id`)
	return list, s.explain(err, "list the records of", "contexts")
}

type panels struct{ *Store }

const panelColumns = `id, context_id, read_only, opened_at, closed_at, rights`

// selectPanels reads scanPanel's columns; insertPanel takes panelValues, the panel's key and its labels.
const (
	selectPanels = `SELECT ` + panelColumns + `, labels::text FROM @.panels`
	insertPanel  = `INSERT INTO @.panels (` + panelColumns + `, context_folded, id_folded, labels) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)`
)

func scanPanel(row pgx.CollectableRow) (p metadata.Panel, err error) {
	err = row.Scan(&p.ID, &p.ContextID, &p.ReadOnly, when{&p.OpenedAt}, when{&p.ClosedAt}, &p.Rights, labels.Column{To: &p.Labels})
	return p, err
}

// panelValues are p's columns in the order of panelColumns, with context_folded after them.
func panelValues(p metadata.Panel) []any {
	return []any{p.ID, p.ContextID, p.ReadOnly, stored(p.OpenedAt), stored(p.ClosedAt), int64(p.Rights), metadata.Fold(p.ContextID)}
}

func (s panels) Bind(ctx context.Context, p metadata.Panel) error {
	_, err := s.exec(ctx, insertPanel, append(panelValues(p), metadata.Fold(p.ID), labels.Text(p.Labels))...)
	return s.explain(err, "bind panel", p.ID)
}

func (s panels) Get(ctx context.Context, id string) (metadata.Panel, error) {
	p, err := one(ctx, s.Store, scanPanel, selectPanels+` WHERE id = $1`, id)
	return p, s.explain(err, "read the record of panel", id)
}

func (s panels) Folded(ctx context.Context, id string) (metadata.Panel, error) {
	p, err := one(ctx, s.Store, scanPanel, selectPanels+` WHERE id_folded = $1`, metadata.Fold(id))
	return p, s.explain(err, "read the record of panel", id)
}

func (s panels) OfContext(ctx context.Context, contextID string) ([]metadata.Panel, error) {
	list, err := all(ctx, s.Store, scanPanel, selectPanels+` WHERE context_folded = $1 ORDER BY id`, metadata.Fold(contextID))
	return list, s.explain(err, "list the panels of context", contextID)
}

func (s panels) Update(ctx context.Context, p metadata.Panel) error {
	err := s.touch(ctx, `UPDATE @.panels SET (`+panelColumns+`, context_folded) = ($1, $2, $3, $4, $5, $6, $7) WHERE id = $8`,
		append(panelValues(p), p.ID)...)
	return s.explain(err, "update the record of panel", p.ID)
}

func (s panels) SetLabels(ctx context.Context, id string, change metadata.LabelChange) (map[string]string, error) {
	set, err := s.setLabels(ctx, "panels", id, change)
	return set, s.explain(err, "label panel", id)
}

func (s panels) List(ctx context.Context) ([]metadata.Panel, error) {
	list, err := all(ctx, s.Store, scanPanel, selectPanels+` ORDER BY id`)
	return list, s.explain(err, "list the records of", "panels")
}

type tokens struct{ *Store }

const (
	tokenColumns = `hash, panel_id, context_id, read_only, issued_at, expires_at, rights`
	insertToken  = `INSERT INTO @.tokens (` + tokenColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7)`
)

// tokenValues are t's columns in the order of tokenColumns.
func tokenValues(t metadata.Token) []any {
	return []any{t.Hash[:], t.PanelID, t.ContextID, t.ReadOnly, stored(t.IssuedAt), millis(t.ExpiresAt), int64(t.Rights)}
}

func scanToken(row pgx.CollectableRow) (t metadata.Token, err error) {
	var hash []byte
	err = row.Scan(&hash, &t.PanelID, &t.ContextID, &t.ReadOnly, when{&t.IssuedAt}, when{&t.ExpiresAt}, &t.Rights)
	if err == nil && copy(t.Hash[:], hash) != len(t.Hash) {
		err = errors.New("a token's hash is too short")
	}
	return t, err
}

// expiredAtOnce bounds the expired tokens that one Add drops.
const expiredAtOnce = 1000

func (s tokens) Add(ctx context.Context, t metadata.Token, now time.Time) error {
	err := s.do(ctx, writes,
		// Two calls that drop the same tokens do not wait for each other.
		statement{sql: `DELETE FROM @.tokens WHERE hash = ANY (ARRAY(SELECT hash FROM @.tokens WHERE expires_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`,
			args: []any{millis(now), int64(expiredAtOnce)}},
		statement{sql: insertToken, args: tokenValues(t)})
	return s.explain(err, "store a token of panel", t.PanelID)
}

func (s tokens) Get(ctx context.Context, hash [32]byte) (metadata.Token, error) {
	t, err := one(ctx, s.Store, scanToken, `SELECT `+tokenColumns+` FROM @.tokens WHERE hash = $1`, hash[:])
	return t, s.explain(err, "read the record of", "token")
}

func (s tokens) DeletePanel(ctx context.Context, panelID string) (int, error) {
	// A panel's sites are of its context, by which there is an index.
	n, err := s.exec(ctx, `WITH site AS (DELETE FROM @.sites WHERE panel_id = $1 AND context_id = (SELECT context_id FROM @.panels WHERE id = $1))
		DELETE FROM @.tokens WHERE panel_id = $1`, panelID)
	return int(n), s.explain(err, "delete the tokens of panel", panelID)
}

func (s tokens) List(ctx context.Context, panelID string) ([]metadata.Token, error) {
	list, err := all(ctx, s.Store, scanToken,
		`SELECT `+tokenColumns+` FROM @.tokens WHERE panel_id = $1 ORDER BY issued_at NULLS FIRST, hash`, panelID)
	return list, s.explain(err, "list the tokens of panel", panelID)
}

func (s tokens) Live(ctx context.Context, now time.Time) (map[string]int, error) {
	live := map[string]int{}
	_, err := all(ctx, s.Store, func(row pgx.CollectableRow) (n int, err error) {
		var id string
		err = row.Scan(&id, &n)
		live[id] = n
		return n, err
	}, `SELECT panel_id, count(*) FROM @.tokens WHERE expires_at > $1 GROUP BY panel_id`, millis(now))
	return live, s.explain(err, "count the live", "tokens")
}

type layers struct{ *Store }

const (
	layerColumns = `digest, kind, files, bytes, created_at`
	insertLayer  = `INSERT INTO @.layers (` + layerColumns + `) VALUES ($1, $2, $3, $4, $5)`
)

// layerValues are l's columns in the order of layerColumns.
func layerValues(l metadata.Layer) []any {
	return []any{l.Digest, l.Kind, l.Files, l.Bytes, stored(l.CreatedAt)}
}

func scanLayer(row pgx.CollectableRow) (l metadata.Layer, err error) {
	err = row.Scan(&l.Digest, &l.Kind, &l.Files, &l.Bytes, when{&l.CreatedAt})
	return l, err
}

func (s layers) Put(ctx context.Context, l metadata.Layer) error {
	_, err := s.exec(ctx, insertLayer+`
		ON CONFLICT (digest) DO UPDATE SET (kind, files, bytes, created_at) = (excluded.kind, excluded.files, excluded.bytes, excluded.created_at)`, layerValues(l)...)
	return s.explain(err, "store the record of layer", l.Digest)
}

func (s layers) Get(ctx context.Context, digest string) (metadata.Layer, error) {
	l, err := one(ctx, s.Store, scanLayer, `SELECT `+layerColumns+` FROM @.layers WHERE digest = $1`, digest)
	return l, s.explain(err, "read the record of layer", digest)
}

func (s layers) Delete(ctx context.Context, digest string) error {
	var gone, there bool
	err := s.do(ctx, writes, statement{
		// The last part sees the table as it was before the statement.
		sql: `WITH gone AS (DELETE FROM @.layers WHERE digest = $1 AND NOT EXISTS (SELECT 1 FROM @.contexts WHERE layer = $1) RETURNING 1)
			SELECT EXISTS (SELECT 1 FROM gone), EXISTS (SELECT 1 FROM @.layers WHERE digest = $1)`,
		args: []any{digest}, row: func(row pgx.CollectableRow) error { return row.Scan(&gone, &there) },
	})
	switch {
	case err == nil && !there:
		err = metadata.ErrNotFound
	case err == nil && !gone:
		err = metadata.ErrConflict
	}
	return s.explain(err, "delete the record of layer", digest)
}
