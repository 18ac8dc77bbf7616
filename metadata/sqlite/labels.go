package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// setLabels changes the labels of a record of a table.
func (s *Store) setLabels(ctx context.Context, table, id string, change metadata.LabelChange) (set map[string]string, err error) {
	err = s.within(ctx, func(tx *sql.Tx) error {
		switch err := tx.QueryRowContext(ctx, `SELECT labels FROM `+table+` WHERE id = ?`, id).Scan(labels.Column{To: &set}); {
		case errors.Is(err, sql.ErrNoRows):
			return metadata.ErrNotFound
		case err != nil:
			return err
		}
		if set, err = change(set); err != nil {
			return err
		}
		return touch(ctx, tx, `UPDATE `+table+` SET labels = ? WHERE id = ?`, labels.Text(set), id)
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}
