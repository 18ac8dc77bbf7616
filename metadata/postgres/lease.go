package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ctxfs/ctxfs/metadata"
)

// A server renews its lease every renewEvery; without that it ends after leaseTime, by the clock of the database.
const renewEvery, leaseTime = 3 * time.Second, 10 * time.Second

// takePoll is how often a start looks at a lease of another server.
const takePoll = 250 * time.Millisecond

// ErrLeaseLost means that another server has taken the lease: this one must stop.
var ErrLeaseLost = errors.New("another server has taken over the contexts directory")

// HeldError means that another server serves the contexts directory.
type HeldError struct {
	Host  string
	PID   int64
	Since time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("a server on host %s, pid %d, has served this contexts directory since %s: stop it first; if it died, start again in %s",
		e.Host, e.PID, e.Since.UTC().Format("2006-01-02 15:04:05 MST"), leaseTime)
}

// Claim says which contexts directory a server is about to serve, and which server that is.
type Claim struct {
	// Directory is the contexts directory's own ID, which moves with it. Path is where it is.
	Directory, Path string
	// Holder is the server's own random ID, Host its machine's name.
	Holder, Host string
	PID          int
	// Place is where the server's lock on the directory is: the machine's boot and the file. The caller has that lock. If a lease
	// has the same place, its holder has lost the lock, and so has ended. "" is no place.
	Place string
	// Seen is the highest epoch that the directory has noted.
	Seen int64
	// Note notes an epoch in the directory, so that it survives a crash. The lease is taken only if it does.
	Note func(epoch int64) error
	// LostCommits is called when the database has an older epoch than Seen or the lease's own: it has lost commits, by a failover or
	// a restored backup. It is called before the database gets a new epoch, which hides the loss; if it fails, the database gets none.
	// It may be nil.
	LostCommits func(had, known int64) error
	// Renewed is called after each renewal with the database's identity (Store.Identity). It may be nil.
	Renewed func(identity string)
	// Failed is called when a renewal fails, with nil when one succeeds again. The lease stays. It may be nil.
	Failed func(err error)
}

// Lease is one server's right to serve a contexts directory. It is a row with an end: no session and no connection belong to it, so a
// pooler does no harm. It is no catalog.Locks, which are many, are taken within calls, and must cost no round trip: files keep
// apart the processes of one machine, and the lease the machines that share a directory.
//
// The lease has connections of its own: calls that fill the pool must not delay its renewal.
type Lease struct {
	s     *Store
	c     Claim
	epoch atomic.Int64
	// repairing is taken by a renewal that does not find the lease as it was.
	repairing chan struct{}
	// least is the epoch that the database must have for the lease to be taken. It is 0 once LostCommits was called.
	least int64
}

// Take binds the schema to the contexts directory and takes its lease. It waits for the end of a lease that is not renewed, and returns a
// *HeldError if it is. The error wraps ErrRefused if the schema has the records of another directory.
func (s *Store) Take(ctx context.Context, c Claim) (*Lease, error) {
	own := s.at.pool.Copy()
	own.MaxConns = 2 // a renewal that gets no answer must not delay the next
	pool, err := pgxpool.NewWithConfig(ctx, own)
	if err != nil {
		return nil, s.at.failed("use the database", err)
	}
	l := &Lease{s: &Store{pool: pool, at: s.at}, c: c, repairing: make(chan struct{}, 1), least: c.Seen}
	if err := l.take(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lease) take(ctx context.Context) error {
	s := l.s
	if err := s.bind(ctx, l.c); err != nil {
		return s.at.failed("use the database", err)
	}
	if err := untilEnd(ctx, func() (*HeldError, time.Time, error) { return l.try(ctx) }); err != nil {
		return s.at.failed("use the database", err)
	}
	return l.note()
}

// untilEnd calls try until it finds no lease of another server. If that server renews its lease meanwhile, the error is its *HeldError.
func untilEnd(ctx context.Context, try func() (held *HeldError, expires time.Time, err error)) error {
	ticker := time.NewTicker(takePoll)
	defer ticker.Stop()
	for end := (time.Time{}); ; {
		held, expires, err := try()
		switch {
		case err != nil:
			return err
		case held == nil:
			return nil
		case !end.IsZero() && !expires.Equal(end):
			return held
		}
		end = expires
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), held)
		}
	}
}

// bind makes the schema the directory's, or refuses another's.
func (s *Store) bind(ctx context.Context, c Claim) error {
	var id, path, host string
	err := s.do(ctx, writes,
		statement{
			sql:  `INSERT INTO @.directory (id, path, host, bound_at) VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT DO NOTHING`,
			args: []any{c.Directory, metadata.Readable(c.Path), metadata.Readable(c.Host)},
		},
		statement{sql: `UPDATE @.directory SET path = $2, host = $3 WHERE id = $1 AND (path, host) <> ($2, $3)`,
			args: []any{c.Directory, metadata.Readable(c.Path), metadata.Readable(c.Host)}},
		statement{sql: `SELECT id, path, host FROM @.directory`, row: func(row pgx.CollectableRow) error { return row.Scan(&id, &path, &host) }})
	if err != nil {
		return err
	}
	if id != c.Directory {
		return s.foreign(path, host, c)
	}
	return nil
}

// foreign refuses the schema of another contexts directory.
func (s *Store) foreign(path, host string, c Claim) error {
	return refuse("schema %s has the records of the contexts directory %s of host %s, and not of %s: give this one a schema of its own (CREATE SCHEMA NAME), and name it in --metadata as search_path=NAME; "+
		"if it is that directory, and its state was lost, run DELETE FROM %s.directory in the database first", s.at.schema, path, host, c.Path, s.at.schema)
}

// free is when a lease may be taken: it was released or has ended, or its holder, which had the place of a parameter, has ended.
func free(place string) string {
	return `(expires_at IS NULL OR expires_at < clock_timestamp() OR place = ` + place + ` AND place <> '')`
}

// try takes the lease, or returns whose it is until when. A new epoch is above all that this directory has seen.
func (l *Lease) try(ctx context.Context) (held *HeldError, expires time.Time, err error) {
	var had, epoch int64
	err = l.s.do(ctx, writes,
		statement{sql: `SELECT epoch FROM @.directory`, row: func(row pgx.CollectableRow) error { return row.Scan(&had) }},
		statement{
			sql: `UPDATE @.directory SET epoch = greatest(epoch, $2) + 1, holder = $3, held_host = $4, held_pid = $5, place = $6,
				held_since = clock_timestamp(), expires_at = clock_timestamp() + $7::interval WHERE id = $1 AND epoch >= $8 AND ` + free("$6") + ` RETURNING epoch`,
			args: []any{l.c.Directory, l.c.Seen, l.c.Holder, metadata.Readable(l.c.Host), int64(l.c.PID), l.c.Place, leaseTime.String(), l.least},
			row:  func(row pgx.CollectableRow) error { return row.Scan(&epoch) },
		},
		statement{sql: `SELECT held_host, held_pid, held_since, expires_at FROM @.directory WHERE holder <> $1`, args: []any{l.c.Holder},
			row: func(row pgx.CollectableRow) error {
				held = &HeldError{}
				return row.Scan(&held.Host, &held.PID, when{&held.Since}, when{&expires})
			}})
	if err == nil && had < l.least {
		if err := l.lost(had, l.c.Seen); err != nil {
			return nil, expires, err
		}
		l.least = 0
		return l.try(ctx)
	}
	l.epoch.Store(epoch)
	return held, expires, err
}

// lost reports that the database has lost commits.
func (l *Lease) lost(had, known int64) error {
	if l.c.LostCommits == nil {
		return nil
	}
	if err := l.c.LostCommits(had, known); err != nil {
		return fmt.Errorf("note that the database has lost commits: %w", err)
	}
	return nil
}

// note notes the epoch in the directory; without that the lease is given back.
func (l *Lease) note() error {
	if err := l.c.Note(l.Epoch()); err != nil {
		_, failed := l.end(context.Background(), l.Epoch())
		return errors.Join(fmt.Errorf("note epoch %d in the state directory: %w", l.Epoch(), err), failed)
	}
	return nil
}

// Epoch is the number of the lease, which grows with each that is taken.
func (l *Lease) Epoch() int64 { return l.epoch.Load() }

// Keep renews the lease until ctx ends, and then returns nil. It returns ErrLeaseLost, with the other server's name, once another
// server has the lease. While the database does not answer no server can take it, and it stays.
func (l *Lease) Keep(ctx context.Context) error {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for failing := false; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		err := l.Renew(ctx)
		if errors.Is(err, ErrLeaseLost) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if (err != nil || failing) && l.c.Failed != nil {
			l.c.Failed(err)
		}
		failing = err != nil
	}
}

// Renew renews the lease now. It returns ErrLeaseLost as Keep does, and may be called beside it.
func (l *Lease) Renew(ctx context.Context) error {
	if r, err := l.refresh(ctx); err != nil || r.mine {
		return err
	}
	select {
	case l.repairing <- struct{}{}:
		defer func() { <-l.repairing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.renew(ctx)
}

// leaseRow is the row of the lease as a renewal finds it.
type leaseRow struct {
	// mine means that the lease was renewed, found that there is a row.
	mine, found bool
	epoch       int64
	holder      string
	other       HeldError
	identity    string
}

// refresh moves the end of the lease, if the database has it.
func (l *Lease) refresh(ctx context.Context) (leaseRow, error) {
	var r leaseRow
	err := l.s.do(ctx, writes,
		statement{sql: `UPDATE @.directory SET expires_at = clock_timestamp() + $4::interval WHERE id = $1 AND holder = $2 AND epoch = $3`,
			args: []any{l.c.Directory, l.c.Holder, l.Epoch(), leaseTime.String()}, done: func(n int64) { r.mine = n > 0 }},
		statement{sql: `SELECT epoch, holder, held_host, held_pid, held_since, (` + identityOf + `) FROM @.directory WHERE id = $1`, args: []any{l.c.Directory},
			row: func(row pgx.CollectableRow) error {
				r.found = true
				return row.Scan(&r.epoch, &r.holder, &r.other.Host, &r.other.PID, when{&r.other.Since}, &r.identity)
			}})
	if err != nil {
		return leaseRow{}, l.s.explain(err, "renew the lease of contexts directory", l.c.Path)
	}
	if r.mine && l.c.Renewed != nil {
		l.c.Renewed(r.identity)
	}
	return r, nil
}

// renew renews the lease, and takes it again in a database that has lost it.
func (l *Lease) renew(ctx context.Context) error {
	r, err := l.refresh(ctx)
	switch {
	case err != nil || r.mine:
		return err
	case !r.found || r.epoch < l.Epoch():
		return l.restore(ctx, r.epoch)
	case r.holder == l.c.Holder && r.epoch > l.Epoch():
		l.epoch.Store(r.epoch) // restore took it, and got no answer
		return l.renew(ctx)
	}
	return l.s.at.safe(fmt.Errorf("%w: host %s, pid %d, since %s", ErrLeaseLost, r.other.Host, r.other.PID, r.other.Since.Format(time.RFC3339)))
}

// restore takes the lease again in a database that has lost it. Whoever has one there with an older epoch lost it long ago.
func (l *Lease) restore(ctx context.Context, had int64) error {
	if err := l.s.bind(ctx, l.c); err != nil {
		return l.s.explain(err, "bind the schema to contexts directory", l.c.Path)
	}
	known, next := l.Epoch(), l.Epoch()+1
	if err := l.lost(had, known); err != nil {
		return err
	}
	if err := l.c.Note(next); err != nil {
		return fmt.Errorf("note epoch %d in the state directory: %w", next, err)
	}
	err := l.s.touch(ctx, `UPDATE @.directory SET epoch = $3, holder = $2, held_host = $4, held_pid = $5, place = $6,
		held_since = clock_timestamp(), expires_at = clock_timestamp() + $7::interval WHERE id = $1 AND epoch < $3`,
		l.c.Directory, l.c.Holder, next, metadata.Readable(l.c.Host), int64(l.c.PID), l.c.Place, leaseTime.String())
	if errors.Is(err, metadata.ErrNotFound) {
		return l.renew(ctx) // the database has a later epoch: another server's, or that of an update without an answer
	}
	if err != nil {
		return l.s.explain(err, "renew the lease of contexts directory", l.c.Path)
	}
	l.epoch.Store(next)
	return nil
}

// Release ends the lease, if this server still has it, and closes its connections. It is the server's last commit, and raises the epoch: a
// database that loses any of them afterwards has an older epoch than the directory has noted.
func (l *Lease) Release(ctx context.Context) error {
	defer l.s.pool.Close()
	if ended, err := l.end(ctx, l.Epoch()+1); err != nil || !ended {
		return err
	}
	return l.c.Note(l.Epoch() + 1)
}

// end ends the lease and sets the epoch. It reports false if this server does not have the lease.
func (l *Lease) end(ctx context.Context, epoch int64) (bool, error) {
	n, err := l.s.exec(ctx, `UPDATE @.directory SET expires_at = NULL, holder = '', epoch = $4 WHERE id = $1 AND holder = $2 AND epoch = $3`,
		l.c.Directory, l.c.Holder, l.Epoch(), epoch)
	return n > 0, l.s.explain(err, "release the lease of contexts directory", l.c.Path)
}
