package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ctxfs/ctxfs/metadata"
)

// identityOf is the query for Identity. A replica has no timeline of its own.
const identityOf = `SELECT system_identifier::text || '/' ||
	CASE WHEN pg_is_in_recovery() THEN '' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END FROM pg_control_system()`

// errReplica means that the database takes no writes.
var errReplica = errors.New("it is a replica")

// Identity asks the database whether it serves, and returns its system identifier and timeline. Another value than before means that
// another server has taken its place, which may lack commits. If the database does not answer, the connections to it are dropped, so
// that no later call waits on one of them.
func (s *Store) Identity(ctx context.Context) (identity string, err error) {
	err = s.do(ctx, reads, statement{sql: identityOf, row: func(row pgx.CollectableRow) error { return row.Scan(&identity) }})
	if err == nil && identity[len(identity)-1] == '/' {
		err = errReplica
	}
	if err != nil {
		s.pool.Reset()
		return "", s.at.safe(fmt.Errorf("%w: %w", metadata.ErrUnavailable, err))
	}
	return identity, nil
}

// Conns is the number of connections of the pool.
func (s *Store) Conns() int { return int(s.pool.Config().MaxConns) }
