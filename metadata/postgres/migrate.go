package postgres

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations
var embedded embed.FS

// own returns the migrations of this program.
func own() fs.FS {
	migrations, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name is valid
	}
	return migrations
}

// versions is the table with the schema's version. A schema that has it is ours.
const versions = "ctxfs_version"

// oldest is the least version of PostgreSQL, as server_version_num counts.
const oldest = 130000

// migrateTime bounds a start's checks and migrations, with the wait for another start's.
const migrateTime = 5 * time.Minute

// facts are what a start looks at before it changes anything.
type facts struct {
	version, encoding, user, database string
	number                            int
	recovering, readOnly              bool
	schema, plain, mayCreate          bool
	// ours says that the schema has our table of versions. tables has the names of all others in it.
	ours   bool
	tables []string
}

// judge refuses a database that the store must not use.
func (f facts) judge(schema string) error {
	switch {
	case f.number < oldest:
		return refuse("PostgreSQL %s is too old: ctxfs needs version 13 or later", f.version)
	case f.recovering:
		return refuse("the server is a replica, or is in recovery: name the primary in --metadata")
	case f.readOnly:
		return refuse("the database is read-only for user %s (default_transaction_read_only): let it write", f.user)
	case f.encoding != "UTF8":
		return refuse("the database %s has the encoding %s: create one with ENCODING 'UTF8'", f.database, f.encoding)
	case !f.plain:
		return refuse("%s is a word of SQL: name another schema in the search_path of --metadata", schema)
	case !f.schema:
		return refuse("the database %s has no schema %s: run CREATE SCHEMA %s AUTHORIZATION %q in it, or name another in the search_path of --metadata", f.database, schema, schema, f.user)
	case !f.ours && len(f.tables) > 0:
		return refuse("schema %s holds tables of another program (%s): give ctxfs a schema of its own (CREATE SCHEMA ctxfs AUTHORIZATION %q), and add search_path=ctxfs to the URL in --metadata", schema, some(f.tables), f.user)
	case !f.ours && !f.mayCreate:
		return refuse("user %s may not create tables in schema %s: run GRANT CREATE ON SCHEMA %s TO %q, or create a schema of its own and name it in the search_path of --metadata", f.user, schema, schema, f.user)
	}
	return nil
}

func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// look reads the facts within a transaction. Objects of extensions count as nobody's.
func (s *Store) look(ctx context.Context, tx pgx.Tx) (f facts, err error) {
	err = tx.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::int8, pg_is_in_recovery(),
		current_setting('transaction_read_only') = 'on', current_setting('server_encoding'), current_user::text, current_database()::text,
		quote_ident($1) = $1, to_regnamespace($1) IS NOT NULL`, s.at.schema).
		Scan(&f.version, &f.number, &f.recovering, &f.readOnly, &f.encoding, &f.user, &f.database, &f.plain, &f.schema)
	if err != nil || !f.schema {
		return f, err
	}
	if err := tx.QueryRow(ctx, `SELECT has_schema_privilege($1, 'CREATE')`, s.at.schema).Scan(&f.mayCreate); err != nil {
		return f, err
	}
	rows, err := tx.Query(ctx, `SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT EXISTS
		(SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') ORDER BY 1`, s.at.schema)
	if err != nil {
		return f, err
	}
	f.tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
	at := slices.Index(f.tables, versions)
	if f.ours = at >= 0; f.ours {
		f.tables = slices.Delete(f.tables, at, at+1)
	}
	return f, err
}

// prepare checks the database and brings the schema up to date. A lock of its transaction keeps other starts out; goose works
// on a second connection meanwhile, and each migration is a transaction of its own.
func (s *Store) prepare(ctx context.Context, c Claim, migrations fs.FS) error {
	ctx, cancel := context.WithTimeoutCause(ctx, migrateTime, errTooSlow)
	defer cancel()
	p, closeProvider, err := s.provider(migrations)
	if err != nil {
		return err
	}
	defer closeProvider()
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		current, err := s.inspect(ctx, tx)
		if err != nil {
			return err
		}
		target := newest(p)
		if current > target {
			return newer(current, target)
		}
		if current == target {
			return nil
		}
		if current > 0 {
			if err := s.mayMigrate(ctx, tx, c); err != nil {
				return err
			}
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("bring the schema from version %d to %d: %w", current, target, err)
		}
		return nil
	})
}

// mayMigrate refuses the schema of another contexts directory, and that of a server that has its lease. It waits for the end of a lease that is
// not renewed.
func (s *Store) mayMigrate(ctx context.Context, tx pgx.Tx, c Claim) error {
	return untilEnd(ctx, func() (*HeldError, time.Time, error) {
		var id, path, host string
		var vacant bool
		held, expires := &HeldError{}, time.Time{}
		err := tx.QueryRow(ctx, s.sql(`SELECT id, path, host, `+free("$1")+`, held_host, held_pid, held_since, expires_at FROM @.directory`), c.Place).
			Scan(&id, &path, &host, &vacant, &held.Host, &held.PID, when{&held.Since}, when{&expires})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil, expires, nil
		case err != nil:
			return nil, expires, err
		case c.Directory != "" && id != c.Directory:
			return nil, expires, s.foreign(path, host, c)
		case vacant:
			return nil, expires, nil
		}
		return held, expires, nil
	})
}

// inspect judges the database, waits for other starts, and returns the schema's version.
func (s *Store) inspect(ctx context.Context, tx pgx.Tx) (int64, error) {
	f, err := s.look(ctx, tx)
	if err == nil {
		err = f.judge(s.at.schema)
	}
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', '0', true), pg_advisory_xact_lock(hashtextextended($1, 0))`, "ctxfs "+s.at.schema)
	if err != nil {
		return 0, err
	}
	f, err = s.look(ctx, tx) // another start may have made the tables
	if err == nil {
		err = f.judge(s.at.schema)
	}
	if err != nil || !f.ours {
		return 0, err
	}
	return s.version(ctx, tx)
}

// version reads the version of a schema that is ours.
func (s *Store) version(ctx context.Context, tx pgx.Tx) (version int64, err error) {
	err = tx.QueryRow(ctx, s.sql(`SELECT coalesce(max(version_id), 0) FROM @.`+versions)).Scan(&version)
	return version, err
}

func newer(current, known int64) error {
	return refuse("a newer ctxfs made its schema, which is version %d; this program knows %d: use that version of ctxfs", current, known)
}

// provider returns what runs the migrations, on one connection of its own.
func (s *Store) provider(migrations fs.FS) (*goose.Provider, func(), error) {
	db := stdlib.OpenDB(*s.at.pool.ConnConfig.Copy())
	db.SetMaxOpenConns(1)
	p, err := goose.NewProvider(goose.DialectPostgres, db, qualified{migrations, s.at.schema}, goose.WithTableName(s.at.schema+"."+versions),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return p, func() { _ = db.Close() }, nil
}

func newest(p *goose.Provider) int64 {
	sources := p.ListSources()
	return sources[len(sources)-1].Version
}

// qualified is the migrations with the schema in place of "@.".
type qualified struct {
	fs.FS
	schema string
}

// Open implements fs.FS.
func (q qualified) Open(name string) (fs.File, error) {
	f, err := q.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return f, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return qualifiedFile{f, bytes.NewReader(bytes.ReplaceAll(text, []byte("@."), []byte(q.schema+".")))}, nil
}

// qualifiedFile is a file with another content.
type qualifiedFile struct {
	fs.File
	content io.Reader
}

func (f qualifiedFile) Read(p []byte) (int, error) { return f.content.Read(p) }

// isPrimary refuses a connection to a server that takes no writes. With several hosts in the URL, the next one is tried.
func isPrimary(ctx context.Context, c *pgconn.PgConn) error {
	r := c.ExecParams(ctx, `SELECT pg_is_in_recovery()`, nil, nil, nil, nil).Read()
	if r.Err != nil {
		return r.Err
	}
	if len(r.Rows) == 1 && string(r.Rows[0][0]) == "t" {
		return refuse("the server is a replica, or is in recovery: name the primary in --metadata")
	}
	return nil
}
