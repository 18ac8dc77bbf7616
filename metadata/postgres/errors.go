package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// ErrRefused means that the database or the schema is not one that this program may use. Nothing was changed.
var ErrRefused = errors.New("nothing was changed")

// refusedError says why a database is not used, and the remedy.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text + "; " + ErrRefused.Error() }

// Is makes it ErrRefused.
func (e *refusedError) Is(target error) bool { return target == ErrRefused }

func refuse(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

// SQLSTATEs (PostgreSQL's manual, appendix A).
const (
	uniqueViolation      = "23505"
	foreignKeyViolation  = "23503"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	queryCanceled        = "57014"
	diskFull             = "53100"
	tooManyConnections   = "53300"
	readOnlyTransaction  = "25006"
	invalidPassword      = "28P01"
	invalidAuthorization = "28000"
	unknownDatabase      = "3D000"
	privilegeMissing     = "42501"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	invalidSchema        = "3F000"
)

// meanings of SQLSTATEs for callers of a store.
var meanings = map[string]error{
	uniqueViolation:     metadata.ErrConflict,
	foreignKeyViolation: metadata.ErrNotFound,
	diskFull:            &fserr.Error{Code: fserr.ENOSPC, Detail: "no space left for the database", Hint: "free some space on the database's disk"},
	privilegeMissing:    &fserr.Error{Code: fserr.EACCES, Detail: "the database refuses its user access to a table", Hint: "grant the user all rights on the schema's tables"},
	undefinedTable:      &fserr.Error{Code: fserr.EIO, Detail: "a table of the records is gone from the database", Hint: "restore the schema, or let 'ctxfs doctor --repair' rebuild the records"},
	undefinedColumn:     &fserr.Error{Code: fserr.EIO, Detail: "the tables of the database were changed by another program", Hint: "restore the schema from a backup"},
	invalidSchema:       &fserr.Error{Code: fserr.EIO, Detail: "the schema of the records is gone from the database", Hint: "restore it from a backup"},
}

// retryAfter is when a caller should try again.
const retryAfter = time.Second

// unavailable is the error of a database that does not answer. The cause is for logs.
func unavailable(why string, err error) error {
	return &fserr.Error{
		Code: fserr.EAGAIN, Detail: "the database with the records " + why, Hint: "retry; if it lasts, see to the database that --metadata names",
		RetryAfter: retryAfter, Err: fmt.Errorf("%w: %w", metadata.ErrUnavailable, err),
	}
}

// translate turns the driver's error into metadata's or an *fserr.Error. An error without a SQLSTATE is of the connection.
func translate(err error) error {
	var pg *pgconn.PgError
	var known *fserr.Error
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect) && errors.Is(err, ErrRefused): // isPrimary refuses a server that took the primary's address
		return unavailable("takes no writes", err)
	case err == nil, errors.Is(err, ErrRefused), errors.Is(err, metadata.ErrNotFound), errors.Is(err, metadata.ErrConflict), errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &pg):
		return unavailable(silence(err), err)
	}
	if meaning, ok := meanings[pg.Code]; ok {
		return withCause(meaning, err)
	}
	switch {
	case pg.Code == queryCanceled:
		return unavailable("is too slow", err)
	case pg.Code == tooManyConnections:
		return unavailable("has no connection left", err)
	case pg.Code == readOnlyTransaction:
		return unavailable("takes no writes", err)
	case pg.Code == serializationFailure, pg.Code == deadlockDetected:
		return unavailable("is busy", err)
	case pg.Code[:2] == "08", pg.Code[:2] == "57", pg.Code[:2] == "53", pg.Code[:2] == "28", pg.Code == unknownDatabase:
		return unavailable("does not answer", err)
	}
	return err
}

func withCause(meaning, err error) error {
	var known *fserr.Error
	if !errors.As(meaning, &known) {
		return meaning
	}
	e := *known
	e.Err = err
	return &e
}

// silence says how a database without an answer behaved.
func silence(err error) string {
	if errors.Is(err, errNoConnection) {
		return "has no connection free"
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTooSlow) {
		return "is too slow"
	}
	return "does not answer"
}

// explain says what was being done to which record.
func (s *Store) explain(err error, doing, key string) error {
	if err == nil {
		return nil
	}
	return s.at.safe(fmt.Errorf("%s %q: %w", doing, key, translate(err)))
}

// failed is explain for the address as a whole.
func (a *Address) failed(doing string, err error) error {
	if held := (*HeldError)(nil); errors.As(err, &held) {
		return err
	}
	return a.safe(fmt.Errorf("%s %s: %w", doing, a, atStart(err)))
}

// atStart says what to do about a failure that a person sees who starts a server.
func atStart(err error) error {
	var pg *pgconn.PgError
	if errors.Is(err, ErrRefused) || !errors.As(err, &pg) {
		if errors.Is(err, ErrRefused) || errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("%w: %w: see that it runs, and that host, port and sslmode of --metadata are right", metadata.ErrUnavailable, err)
	}
	switch pg.Code {
	case invalidPassword, invalidAuthorization:
		return refuse("the database refuses the user or the password: %s: see the user in --metadata, and the password in the file that PGPASSFILE names", pg.Message)
	case unknownDatabase:
		return refuse("%s: create it (createdb), or name another in --metadata", pg.Message)
	case privilegeMissing:
		return refuse("%s: grant the user all rights on the schema and its tables", pg.Message)
	case tooManyConnections:
		return fmt.Errorf("%w: %w: all its connections are in use: raise max_connections, or lower pool_max_conns of other servers", metadata.ErrUnavailable, err)
	}
	if pg.Code[:2] == "57" || pg.Code[:2] == "53" || pg.Code[:2] == "08" {
		return fmt.Errorf("%w: %w: start again when it is ready", metadata.ErrUnavailable, err)
	}
	return err
}

// safeError is an error whose text has no password. What it wraps is for errors.Is and errors.As alone.
type safeError struct {
	text string
	err  error
}

func (e *safeError) Error() string { return e.text }
func (e *safeError) Unwrap() error { return e.err }

// safe hides passwords in an error's text.
func (a *Address) safe(err error) error {
	if text := err.Error(); a.hide(text) != text {
		return &safeError{a.hide(text), err}
	}
	return err
}

var (
	// errNoConnection means that all connections of the pool were in use, or that none could be made, until the call's time was over.
	errNoConnection = errors.New("no connection was free")
	errTooSlow      = errors.New("the time of the call was over")
)

// attempts is how often a transaction is tried that conflicts with others.
const attempts = 8

// retry calls f again after a conflict with another transaction, and after a lost connection if that cannot do a thing twice.
// All tries together take no longer than limit.
func (s *Store) retry(parent context.Context, limit time.Duration, k kind, f func(ctx context.Context) error) error {
	if err := parent.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(parent, limit, errTooSlow)
	defer cancel()
	for try := 1; ; try++ {
		err := f(ctx)
		switch {
		case err == nil:
			return nil
		case parent.Err() != nil:
			return fmt.Errorf("%w (%w)", parent.Err(), err)
		case ctx.Err() != nil:
			if s.pool.Stat().IdleConns() == 0 && s.pool.Stat().AcquiredConns() == s.pool.Config().MaxConns {
				return fmt.Errorf("%w: %w", errNoConnection, err)
			}
			return fmt.Errorf("%w: %w", errTooSlow, err)
		case try == attempts || !again(err, k):
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// again reports whether a failed transaction may be run again.
func again(err error, k kind) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == serializationFailure || pg.Code == deadlockDetected || k != writes && pg.Code[:2] == "57" && pg.Code != queryCanceled
	}
	var connect *pgconn.ConnectError
	return !errors.As(err, &connect) && (k == reads || pgconn.SafeToRetry(err))
}

// pause waits a moment that grows with the tries and differs between callers.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(time.Duration(1+rand.IntN(5<<try)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
