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

	"github.com/ctxfs/ctxfs/metadata"
)

//go:embed migrations/*.sql
var embedded embed.FS

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

// foldedKeys is the migration to version 3. SQL cannot compute the keys: its lower() knows ASCII alone.
const foldedKeys = 3

func migrate(ctx context.Context, db *sql.DB, path string, existed bool) error {
	migrations, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
		goose.WithGoMigrations(goose.NewGoMigration(foldedKeys, &goose.GoFunc{RunTx: foldKeys}, nil)))
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

// foldKeys sets every key to its metadata.Fold, and adds that of a panel's context. Older
// keys were lower-cased, which keeps some IDs apart that differ only by case, such as "s" and
// the long s. Where two IDs fold to the same key, the older record gets it; the other keeps
// working under its exact ID, with a key that no ID folds to, and no further ID like them can be added.
func foldKeys(ctx context.Context, tx *sql.Tx) error {
	err := execAll(ctx, tx, `ALTER TABLE panels ADD COLUMN context_folded TEXT NOT NULL DEFAULT ''`,
		`DROP INDEX contexts_id_folded`, `DROP INDEX panels_id_folded`)
	if err != nil {
		return err
	}
	for table, order := range map[string]string{"contexts": "created_at", "panels": "opened_at"} {
		ids, err := all(ctx, tx, scanString, `SELECT id FROM `+table+` ORDER BY `+order+`, id`)
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		for _, id := range ids {
			key := metadata.Fold(id)
			if taken[key] {
				key = "\n" + id // no ID has control characters
			}
			taken[key] = true
			if err := touch(ctx, tx, `UPDATE `+table+` SET id_folded = ? WHERE id = ?`, key, id); err != nil {
				return err
			}
		}
	}
	contexts, err := all(ctx, tx, scanString, `SELECT DISTINCT context_id FROM panels`)
	if err != nil {
		return err
	}
	for _, id := range contexts {
		if err := touch(ctx, tx, `UPDATE panels SET context_folded = ? WHERE context_id = ?`, metadata.Fold(id), id); err != nil {
			return err
		}
	}
	return execAll(ctx, tx, `CREATE UNIQUE INDEX contexts_id_folded ON contexts (id_folded)`,
		`CREATE UNIQUE INDEX panels_id_folded ON panels (id_folded)`, `CREATE INDEX panels_context_folded ON panels (context_folded)`)
}

func scanString(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

func execAll(ctx context.Context, tx *sql.Tx, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
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
