package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

// scanner is a row of *sql.Row or *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// one reads a single record; none is ErrNotFound.
func one[T any](ctx context.Context, db *sql.DB, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	record, err := scan(db.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = metadata.ErrNotFound
	}
	return record, err
}

// all reads records in the query's order; none is an empty list.
func all[T any](ctx context.Context, on querier, scan func(scanner) (T, error), query string, args ...any) (list []T, err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		record, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, record)
	}
	return list, rows.Err()
}

// querier and executor are a *sql.DB or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// touch runs a statement that must change at least one row; none is ErrNotFound.
func touch(ctx context.Context, on executor, query string, args ...any) error {
	n, err := exec(ctx, on, query, args...)
	if err == nil && n == 0 {
		err = metadata.ErrNotFound
	}
	return err
}

// exec runs a statement and returns the number of rows changed.
func exec(ctx context.Context, on executor, query string, args ...any) (int64, error) {
	result, err := on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// later runs a statement as touch does. If ctx is from metadata.Later, its commit waits for no disk. A later commit that does flushes it: both are
// in the same log, of which a power failure leaves the beginning.
func (s *Store) later(ctx context.Context, query string, args ...any) (err error) {
	if !metadata.IsLater(ctx) {
		return touch(ctx, s.write, query, args...)
	}
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	whole := context.WithoutCancel(ctx) // a statement that is cancelled may have had its effect
	if _, err := conn.ExecContext(whole, "PRAGMA synchronous = NORMAL"); err != nil {
		return err
	}
	err = touch(ctx, conn, query, args...)
	if _, e := conn.ExecContext(whole, "PRAGMA synchronous = FULL"); e != nil {
		err = errors.Join(err, e, conn.Raw(func(any) error { return driver.ErrBadConn })) // the next connection flushes
	}
	return err
}

// within runs fn in one writing transaction, undone when fn fails.
func (s *Store) within(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// millis scans a column of milliseconds into a time. The zero time is stored as
// its own (negative) number and comes back zero.
type millis struct{ to *time.Time }

// Scan implements sql.Scanner.
func (m millis) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return errors.New("a time is stored as no integer")
	}
	*m.to = time.UnixMilli(n).UTC()
	return nil
}
