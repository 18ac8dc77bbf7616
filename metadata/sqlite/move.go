package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

var _ metadata.Mover = (*Store)(nil)

// Each implements metadata.Mover.
func (s *Store) Each(ctx context.Context, f func(record any) error) error {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.explain(err, "read all records of", s.path)
	}
	for _, read := range []func() error{
		func() error { return visit(ctx, tx, f, scanContext, selectContexts+` ORDER BY id`) },
		func() error { return visit(ctx, tx, f, scanPanel, selectPanels+` ORDER BY id`) },
		func() error { return visit(ctx, tx, f, scanToken, `SELECT `+tokenColumns+` FROM tokens ORDER BY hash`) },
		func() error {
			return visit(ctx, tx, f, scanLayer, `SELECT `+layerColumns+` FROM layers ORDER BY digest`)
		},
		func() error { return visit(ctx, tx, f, scanSite, `SELECT `+siteColumns+` FROM sites ORDER BY id`) },
	} {
		if err == nil {
			err = read()
		}
	}
	return s.explain(errors.Join(err, tx.Rollback()), "read all records of", s.path)
}

// visit passes rows on as they are read.
func visit[T any](ctx context.Context, on querier, f func(any) error, scan func(scanner) (T, error), query string) (err error) {
	rows, err := on.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		record, err := scan(rows)
		if err != nil {
			return err
		}
		if err := f(record); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Fill implements metadata.Mover.
func (s *Store) Fill(ctx context.Context, read func(add func(record any) error) error) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		var full bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM contexts) OR EXISTS (SELECT 1 FROM panels) OR EXISTS (SELECT 1 FROM tokens)
			OR EXISTS (SELECT 1 FROM layers) OR EXISTS (SELECT 1 FROM sites)`).Scan(&full)
		if err != nil {
			return err
		}
		if full {
			return metadata.ErrNotEmpty
		}
		return read(func(record any) error { return insert(ctx, tx, record) })
	})
	return s.explain(err, "fill", s.path)
}

func insert(ctx context.Context, tx *sql.Tx, record any) error {
	var query string
	var args []any
	switch r := record.(type) {
	case metadata.Context:
		query, args = insertContext, newContextValues(r)
	case metadata.Panel:
		query, args = insertPanel, append(panelValues(r), metadata.Fold(r.ID), labels.Text(r.Labels))
	case metadata.Token:
		query, args = insertToken, tokenValues(r)
	case metadata.Layer:
		query, args = insertLayer, layerValues(r)
	case metadata.Site:
		query, args = insertSite, siteValues(r)
	default:
		return fmt.Errorf("a record of type %T is unknown", record)
	}
	_, err := exec(ctx, tx, query, args...)
	return err
}
