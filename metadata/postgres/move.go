package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

var _ metadata.Mover = (*Store)(nil)

// moveTime bounds one statement of a move; atOnce is the number of records in one round trip.
const moveTime, atOnce = 5 * time.Minute, 500

// Each implements metadata.Mover.
func (s *Store) Each(ctx context.Context, f func(record any) error) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, bound(moveTime)); err != nil {
			return err
		}
		for _, read := range []func() error{
			func() error { return visit(ctx, s, tx, f, scanContext, selectContexts+` ORDER BY id`) },
			func() error { return visit(ctx, s, tx, f, scanPanel, selectPanels+` ORDER BY id`) },
			func() error {
				return visit(ctx, s, tx, f, scanToken, `SELECT `+tokenColumns+` FROM @.tokens ORDER BY hash`)
			},
			func() error {
				return visit(ctx, s, tx, f, scanLayer, `SELECT `+layerColumns+` FROM @.layers ORDER BY digest`)
			},
			func() error { return visit(ctx, s, tx, f, scanSite, `SELECT `+siteColumns+` FROM @.sites ORDER BY id`) },
		} {
			if err := read(); err != nil {
				return err
			}
		}
		return nil
	})
	return s.explain(err, "read all records of", s.at.String())
}

// visit passes rows on as they arrive.
func visit[T any](ctx context.Context, s *Store, tx pgx.Tx, f func(any) error, scan func(pgx.CollectableRow) (T, error), query string) error {
	rows, err := tx.Query(ctx, s.sql(query))
	if err != nil {
		return err
	}
	defer rows.Close()
	return each(rows, func(row pgx.CollectableRow) error {
		record, err := scan(row)
		if err != nil {
			return err
		}
		return f(record)
	})
}

// Fill implements metadata.Mover.
func (s *Store) Fill(ctx context.Context, read func(add func(record any) error) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, bound(moveTime)); err != nil {
			return err
		}
		var full bool
		err := tx.QueryRow(ctx, s.sql(`SELECT EXISTS (SELECT 1 FROM @.contexts) OR EXISTS (SELECT 1 FROM @.panels) OR EXISTS (SELECT 1 FROM @.tokens)
			OR EXISTS (SELECT 1 FROM @.layers) OR EXISTS (SELECT 1 FROM @.sites)`)).Scan(&full)
		if err != nil {
			return err
		}
		if full {
			return metadata.ErrNotEmpty
		}
		w := &writer{s: s, tx: tx, batch: &pgx.Batch{}}
		if err := read(func(record any) error { return w.add(ctx, record) }); err != nil {
			return err
		}
		return w.flush(ctx)
	})
	return s.explain(err, "fill", s.at.String())
}

// writer inserts records, many in one round trip.
type writer struct {
	s     *Store
	tx    pgx.Tx
	batch *pgx.Batch
}

func (w *writer) add(ctx context.Context, record any) error {
	query, args, err := insertion(record)
	if err != nil {
		return err
	}
	if !storable(args) {
		return fmt.Errorf("%v: %w", args[0], errUnstorable)
	}
	w.batch.Queue(w.s.sql(query), args...)
	if w.batch.Len() < atOnce {
		return nil
	}
	return w.flush(ctx)
}

func (w *writer) flush(ctx context.Context) error {
	if w.batch.Len() == 0 {
		return nil
	}
	err := w.tx.SendBatch(ctx, w.batch).Close()
	w.batch = &pgx.Batch{}
	return err
}

// insertion is the statement that adds a record.
func insertion(record any) (query string, args []any, err error) {
	switch r := record.(type) {
	case metadata.Context:
		return insertContext, newContextValues(r), nil
	case metadata.Panel:
		return insertPanel, append(panelValues(r), metadata.Fold(r.ID), labels.Text(r.Labels)), nil
	case metadata.Token:
		return insertToken, tokenValues(r), nil
	case metadata.Layer:
		return insertLayer, layerValues(r), nil
	case metadata.Site:
		return insertSite, siteValues(r), nil
	}
	return "", nil, fmt.Errorf("a record of type %T is unknown", record)
}
