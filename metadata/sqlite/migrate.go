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
)

//go:embed migrations/*.sql
var embedded embed.FS

// check reads the file's structure, so that damage is told at start and not in the middle of a write.
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

// provider is goose without its global registry, logger and dialect.
func provider(db *sql.DB, migrations fs.FS) (*goose.Provider, error) {
	return goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}

func migrate(ctx context.Context, db *sql.DB, path string, existed bool) error {
	migrations, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return err
	}
	return migrateWith(ctx, db, path, existed, migrations)
}

func migrateWith(ctx context.Context, db *sql.DB, path string, existed bool, migrations fs.FS) error {
	p, err := provider(db, migrations)
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
		if err := backup(ctx, db, fmt.Sprintf("%s.bak-%d", path, current)); err != nil {
			return fmt.Errorf("copy the database before changing its schema: %w", err)
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema from version %d to %d: %w", current, target, err)
	}
	return nil
}

// backup writes a copy to dest, whole or not at all. VACUUM INTO sees what is
// still in the WAL, which a copy of the file alone would miss; it demands an
// absent or empty file, and would make an absent one readable by everyone.
func backup(ctx context.Context, db *sql.DB, dest string) (err error) {
	temp := dest + ".tmp"
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
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
