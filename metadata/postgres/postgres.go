// Package postgres keeps metadata in a schema of a PostgreSQL database, version 13 or later.
//
// It owns the tables of one schema, their migrations, and the lease of the server that uses them. Each method is one
// transaction, and most are one round trip. Nothing outlives a transaction on a connection: the store works behind a
// pooler in transaction mode. No error has a password in its text.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// callTime bounds a call, with the wait for a connection; listTime bounds one that reads a whole table.
const callTime, listTime = 5 * time.Second, time.Minute

// Store is a metadata.Store in a PostgreSQL schema.
type Store struct {
	pool *pgxpool.Pool
	at   *Address
}

var _ metadata.Store = (*Store)(nil)

// Open connects to the database and brings the schema up to date. It changes nothing, and the error says what to do, if the
// database is a replica, is older than version 13, or if a newer ctxfs or another program made the schema's tables; such an
// error wraps ErrRefused. One that wraps metadata.ErrUnavailable means that the database did not answer. The schema of another contexts
// directory than the claim's stays as it is, and so does that of a running server: the error is then that of Take.
func Open(ctx context.Context, at *Address, c Claim) (*Store, error) { return open(ctx, at, c, own()) }

func open(ctx context.Context, at *Address, c Claim, migrations fs.FS) (*Store, error) {
	pool, err := pgxpool.NewWithConfig(ctx, at.pool.Copy())
	if err != nil {
		return nil, at.failed("open the database", err)
	}
	s := &Store{pool: pool, at: at}
	if err := s.prepare(ctx, c, migrations); err != nil {
		pool.Close()
		return nil, at.failed("open the database", err)
	}
	return s, nil
}

// Address returns where the store is.
func (s *Store) Address() *Address { return s.at }

// Contexts returns the context records.
func (s *Store) Contexts() metadata.Contexts { return contexts{s} }

// Panels returns the panel records.
func (s *Store) Panels() metadata.Panels { return panels{s} }

// Tokens returns the token records.
func (s *Store) Tokens() metadata.Tokens { return tokens{s} }

// Layers returns the layer records.
func (s *Store) Layers() metadata.Layers { return layers{s} }

// Sites returns the site records.
func (s *Store) Sites() metadata.Sites { return sites{s} }

// Close closes all connections, and waits for running calls. It may be called twice.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// Ping returns nil if the database answers and takes writes.
func (s *Store) Ping(ctx context.Context) error {
	return s.explain(s.do(ctx, reads, statement{sql: `SELECT 1`}), "ask", "database")
}

// sql returns a statement for the store's schema, for which "@." stands.
func (s *Store) sql(text string) string { return strings.ReplaceAll(text, "@.", s.at.schema+".") }

// statement is one statement of a transaction.
type statement struct {
	sql  string
	args []any
	// row gets each row, done the number of rows; both may be nil. A transaction that is repeated gives its rows again: begin, which may be
	// nil, is called before each try.
	begin func()
	row   func(row pgx.CollectableRow) error
	done  func(n int64)
}

// kind says what a failed transaction may have done.
type kind int

const (
	// reads are repeated when the connection fails.
	reads kind = iota
	// lists are reads of a whole table.
	lists
	// writes are repeated only if they certainly had no effect.
	writes
)

// bound is the first statement of each transaction. Settings of a session would stay with a pooler's connection. A
// commit is acknowledged once it is on disk, whatever the role's or the database's default.
func bound(timeout time.Duration) string {
	return fmt.Sprintf(`SELECT set_config('statement_timeout', '%d', true),
		set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)`,
		timeout.Milliseconds())
}

// do runs statements as one transaction, in one round trip. It repeats a transaction that was in conflict with another.
func (s *Store) do(ctx context.Context, k kind, statements ...statement) error {
	for _, st := range statements {
		if !storable(st.args) {
			return errUnstorable
		}
	}
	limit := callTime
	if k == lists {
		limit = listTime
	}
	return s.retry(ctx, limit, k, func(ctx context.Context) error { return s.once(ctx, limit, statements) })
}

func (s *Store) once(ctx context.Context, limit time.Duration, statements []statement) error {
	batch := &pgx.Batch{}
	batch.Queue(bound(limit))
	for _, st := range statements {
		if st.begin != nil {
			st.begin()
		}
		q := batch.Queue(s.sql(st.sql), st.args...)
		if st.row != nil {
			q.Query(func(rows pgx.Rows) error { return each(rows, st.row) })
		} else {
			q.Exec(func(tag pgconn.CommandTag) error {
				if st.done != nil {
					st.done(tag.RowsAffected())
				}
				return nil
			})
		}
	}
	return s.pool.SendBatch(ctx, batch).Close() // returns after the commit
}

func each(rows pgx.Rows, f func(pgx.CollectableRow) error) error {
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one reads a single record; none is ErrNotFound.
func one[T any](ctx context.Context, s *Store, scan func(pgx.CollectableRow) (T, error), query string, args ...any) (record T, err error) {
	found := false
	err = s.do(ctx, reads, statement{sql: query, args: args, row: func(row pgx.CollectableRow) (err error) {
		record, err = scan(row)
		found = true
		return err
	}})
	if err == nil && !found || errors.Is(err, errUnstorable) {
		err = metadata.ErrNotFound
	}
	return record, err
}

// all reads records in the query's order; none is an empty list.
func all[T any](ctx context.Context, s *Store, scan func(pgx.CollectableRow) (T, error), query string, args ...any) (list []T, err error) {
	err = s.do(ctx, lists, statement{sql: query, args: args, begin: func() { list = nil }, row: func(row pgx.CollectableRow) error {
		record, err := scan(row)
		list = append(list, record)
		return err
	}})
	if err != nil {
		list = nil
	}
	return list, err
}

// exec runs a statement and returns the number of rows changed.
func (s *Store) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = s.do(ctx, writes, statement{sql: query, args: args, done: func(rows int64) { n = rows }})
	return n, err
}

// touch runs a statement that must change at least one row; none is ErrNotFound.
func (s *Store) touch(ctx context.Context, query string, args ...any) error {
	n, err := s.exec(ctx, query, args...)
	if err == nil && n == 0 || errors.Is(err, errUnstorable) {
		err = metadata.ErrNotFound
	}
	return err
}

// stored is a time as a parameter; the zero time is NULL.
func stored(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return millis(t)
}

func millis(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// when scans a column of times; NULL is the zero time.
type when struct{ to *time.Time }

// Scan implements sql.Scanner.
func (w when) Scan(src any) error {
	switch t := src.(type) {
	case nil:
		*w.to = time.Time{}
	case time.Time:
		*w.to = t.UTC()
	default:
		return errors.New("a time is stored as something else")
	}
	return nil
}

// errUnstorable means that a key cannot be stored as text. No valid ID is such a key.
var errUnstorable error = &fserr.Error{Code: fserr.EINVAL, Detail: "an ID that is not UTF-8, or has a NUL, cannot be stored"}

func storable(args []any) bool {
	for _, arg := range args {
		if text, ok := arg.(string); ok && metadata.Readable(text) != text {
			return false
		}
	}
	return true
}
