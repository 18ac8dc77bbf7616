package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/ctxfs/ctxfs/internal/statedir"
)

//go:embed migrations/*.sql
var embedded embed.FS

// initial is the migration to version 1. A new file gets it in one step: goose takes twice as long.
//
//go:embed migrations/00001_initial.sql
var initial string

// check reads the file's structure, so that damage is reported at start and not in the middle of a write.
func check(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w (%s)", ErrCorrupt, verdict)
	}
	return nil
}

// migrate brings the schema up to date. A file that existed is copied first, if its schema is older.
func (s *Store) migrate(ctx context.Context, migrations fs.FS, existed bool) error {
	if !existed {
		err := s.within(ctx, func(tx *sql.Tx) error {
			// Another process may have made the tables meanwhile.
			if version, err := (versions{}).GetLatestVersion(ctx, tx); err != nil || version > 0 {
				return err
			}
			_, err := tx.ExecContext(ctx, initial+"PRAGMA user_version = 1")
			return err
		})
		if err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
	}
	p, err := goose.NewProvider(goose.DialectCustom, s.write, migrations, goose.WithStore(versions{}),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	current, target, err := p.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the schema's version: %w", err)
	case current > target:
		return fmt.Errorf("%w: its schema is version %d, this program knows %d; use that version of ctxfs", ErrNewer, current, target)
	case current == target:
		return nil
	}
	if existed {
		if err := backup(ctx, s.write, fmt.Sprintf("%s.bak-%d", s.path, current)); err != nil {
			return fmt.Errorf("copy the database before changing its schema: %w", err)
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema from version %d to %d: %w", current, target, err)
	}
	return nil
}

// versions is goose's record of the schema's version, in the header of the file (PRAGMA user_version): a start reads it in one
// step, and a new file gets no table for it.
type versions struct{}

func (versions) Tablename() string { return "user_version" }

func (versions) CreateVersionTable(context.Context, database.DBTxConn) error { return nil }

func (versions) Insert(ctx context.Context, db database.DBTxConn, r database.InsertRequest) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", r.Version))
	return err
}

// Delete implements database.Store. No migration is undone.
func (versions) Delete(context.Context, database.DBTxConn, int64) error { return errors.ErrUnsupported }

func (versions) GetLatestVersion(ctx context.Context, db database.DBTxConn) (version int64, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

func (v versions) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	latest, err := v.GetLatestVersion(ctx, db)
	if err == nil && version > latest {
		err = database.ErrVersionNotFound
	}
	return &database.GetMigrationResult{IsApplied: true}, err
}

func (v versions) ListMigrations(ctx context.Context, db database.DBTxConn) (list []*database.ListMigrationsResult, err error) {
	latest, err := v.GetLatestVersion(ctx, db)
	for version := latest; version >= 0 && err == nil; version-- {
		list = append(list, &database.ListMigrationsResult{Version: version, IsApplied: true})
	}
	return list, err
}

// backup writes a copy to dest, whole or not at all. VACUUM INTO sees what is
// still in the WAL, which a copy of the file alone would miss; it demands an
// absent or empty file, and would make an absent one readable by everyone.
func backup(ctx context.Context, db *sql.DB, dest string) (err error) {
	temp := dest + ".tmp"
	f, err := statedir.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", temp)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, dest)
}
