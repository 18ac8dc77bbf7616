package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// setLabels changes the labels of a record of a table. It changes them again if another caller did so since it read them, so that no
// transaction is open while change runs.
func (s *Store) setLabels(ctx context.Context, table, id string, change metadata.LabelChange) (map[string]string, error) {
	scan := func(row pgx.CollectableRow) (set map[string]string, err error) {
		err = row.Scan(labels.Column{To: &set})
		return set, err
	}
	for {
		old, err := one(ctx, s, scan, `SELECT labels::text FROM @.`+table+` WHERE id = $1`, id)
		if err != nil {
			return nil, err
		}
		set, err := change(old)
		if err != nil {
			return nil, err
		}
		n, err := s.exec(ctx, `UPDATE @.`+table+` SET labels = $1::text::jsonb WHERE id = $2 AND labels = $3::text::jsonb`, labels.Text(set), id, labels.Text(old))
		if err != nil || n > 0 {
			return set, err
		}
	}
}
