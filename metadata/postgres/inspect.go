package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ctxfs/ctxfs/metadata"
)

// Report is what a database has, for people.
type Report struct {
	// Version is PostgreSQL's.
	Version string
	// Made says that the schema has the tables. Without them the rest is zero.
	Made bool
	// Schema is the tables' version, and Known the one that this program makes.
	Schema, Known int64
	metadata.Counts
	// Directory is the ID of the contexts directory whose records these are, Path and Host where its last server had it; "" if no
	// server has used them.
	Directory, Path, Host string
	Epoch                 int64
	// Held is the server that serves the directory; nil if none does.
	Held *HeldError
}

// Inspect looks at a database and changes nothing. The errors are those of Open.
func Inspect(ctx context.Context, at *Address) (r Report, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, errTooSlow)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, at.pool.Copy())
	if err != nil {
		return r, at.failed("look at the database", err)
	}
	defer pool.Close()
	s := &Store{pool: pool, at: at}
	p, closeProvider, err := s.provider(own())
	if err != nil {
		return r, at.failed("look at the database", err)
	}
	defer closeProvider()
	r.Known = newest(p)
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return s.report(ctx, tx, &r) })
	if err != nil {
		return r, at.failed("look at the database", err)
	}
	return r, nil
}

func (s *Store) report(ctx context.Context, tx pgx.Tx, r *Report) error {
	f, err := s.look(ctx, tx)
	if err == nil {
		err = f.judge(s.at.schema)
	}
	if err != nil {
		return err
	}
	if r.Version, r.Made = f.version, f.ours; !f.ours {
		return nil
	}
	if r.Schema, err = s.version(ctx, tx); err != nil {
		return err
	}
	if r.Schema > r.Known {
		return newer(r.Schema, r.Known)
	}
	if r.Schema < r.Known {
		return nil // a start brings it up to date
	}
	err = tx.QueryRow(ctx, s.sql(`SELECT (SELECT count(*) FROM @.contexts), (SELECT count(*) FROM @.panels), (SELECT count(*) FROM @.tokens),
		(SELECT count(*) FROM @.layers), (SELECT count(*) FROM @.sites)`)).Scan(&r.Contexts, &r.Panels, &r.Tokens, &r.Layers, &r.Sites)
	if err != nil {
		return err
	}
	return s.reportLease(ctx, tx, r)
}

func (s *Store) reportLease(ctx context.Context, tx pgx.Tx, r *Report) error {
	rows, err := tx.Query(ctx, s.sql(`SELECT id, path, host, epoch, coalesce(expires_at > clock_timestamp(), false), held_host, held_pid, held_since FROM @.directory`))
	if err != nil {
		return err
	}
	defer rows.Close()
	return each(rows, func(row pgx.CollectableRow) error {
		held, lease := false, HeldError{}
		err := row.Scan(&r.Directory, &r.Path, &r.Host, &r.Epoch, &held, &lease.Host, &lease.PID, when{&lease.Since})
		if held {
			r.Held = &lease
		}
		return err
	})
}
