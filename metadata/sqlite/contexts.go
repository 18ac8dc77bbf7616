package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

type contexts struct{ *Store }

const contextColumns = `id, explicit, owner_panel, state, last_error, driver, layer,
	generation, files, bytes, created_at, seeded_in, recovered, forked_from`

// selectContexts reads scanContext's columns.
const selectContexts = `SELECT ` + contextColumns + `, used_at FROM contexts`

func scanContext(row scanner) (c metadata.Context, err error) {
	var generation int64
	err = row.Scan(&c.ID, &c.Explicit, &c.OwnerPanel, &c.State, &c.LastError, &c.Driver, &c.Layer,
		&generation, &c.Files, &c.Bytes, millis{&c.CreatedAt}, &c.SeededIn, &c.Recovered, &c.ForkedFrom, millis{&c.UsedAt})
	c.Generation = uint64(generation)
	return c, err
}

// contextValues are c's columns in the order of contextColumns. SQLite's integers
// are signed: the generation's bits are kept.
func contextValues(c metadata.Context) []any {
	return []any{c.ID, c.Explicit, c.OwnerPanel, string(c.State), c.LastError, c.Driver, c.Layer,
		int64(c.Generation), c.Files, c.Bytes, c.CreatedAt.UnixMilli(), int64(c.SeededIn), c.Recovered, c.ForkedFrom}
}

func (s contexts) Create(ctx context.Context, c metadata.Context) error {
	_, err := exec(ctx, s.write, `INSERT INTO contexts (`+contextColumns+`, id_folded)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(contextValues(c), metadata.Fold(c.ID))...)
	return s.explain(err, "create the record of context", c.ID)
}

func (s contexts) Get(ctx context.Context, id string) (metadata.Context, error) {
	c, err := one(ctx, s.read, scanContext, selectContexts+` WHERE id = ?`, id)
	return c, s.explain(err, "read the record of context", id)
}

func (s contexts) Update(ctx context.Context, c metadata.Context) error {
	err := touch(ctx, s.write, `UPDATE contexts SET (`+contextColumns+`) =
		(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?`, append(contextValues(c), c.ID)...)
	return s.explain(err, "update the record of context", c.ID)
}

func (s contexts) Used(ctx context.Context, id string, at time.Time) error {
	err := touch(ctx, s.write, `UPDATE contexts SET used_at = ? WHERE id = ?`, at.UnixMilli(), id)
	return s.explain(err, "update the record of context", id)
}

func (s contexts) Delete(ctx context.Context, id string) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		if err := touch(ctx, tx, `DELETE FROM contexts WHERE id = ?`, id); err != nil {
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
