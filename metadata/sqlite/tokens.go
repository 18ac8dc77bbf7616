package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

type tokens struct{ *Store }

const tokenColumns = `hash, panel_id, context_id, read_only, issued_at, expires_at`

func scanToken(row scanner) (t metadata.Token, err error) {
	var hash []byte
	err = row.Scan(&hash, &t.PanelID, &t.ContextID, &t.ReadOnly, millis{&t.IssuedAt}, millis{&t.ExpiresAt})
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
		_, err := exec(ctx, tx, `INSERT INTO tokens (`+tokenColumns+`) VALUES (?, ?, ?, ?, ?, ?)`,
			t.Hash[:], t.PanelID, t.ContextID, t.ReadOnly, t.IssuedAt.UnixMilli(), t.ExpiresAt.UnixMilli())
		return err
	})
	return s.explain(err, "store a token of panel", t.PanelID)
}

func (s tokens) Get(ctx context.Context, hash [32]byte) (metadata.Token, error) {
	t, err := one(ctx, s.read, scanToken, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash[:])
	return t, s.explain(err, "read the record of", "token")
}

func (s tokens) Delete(ctx context.Context, hash [32]byte) error {
	_, err := exec(ctx, s.write, `DELETE FROM tokens WHERE hash = ?`, hash[:])
	return s.explain(err, "delete the record of", "token")
}

func (s tokens) DeletePanel(ctx context.Context, panelID string) (int, error) {
	n, err := exec(ctx, s.write, `DELETE FROM tokens WHERE panel_id = ?`, panelID)
	return int(n), s.explain(err, "delete the tokens of panel", panelID)
}

func (s tokens) List(ctx context.Context, panelID string) ([]metadata.Token, error) {
	list, err := all(ctx, s.read, scanToken,
		`SELECT `+tokenColumns+` FROM tokens WHERE panel_id = ? ORDER BY issued_at, hash`, panelID)
	return list, s.explain(err, "list the tokens of panel", panelID)
}
