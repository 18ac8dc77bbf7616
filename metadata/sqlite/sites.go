package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

// Sites returns the site records.
func (s *Store) Sites() metadata.Sites { return sites{s} }

type sites struct{ *Store }

const (
	siteColumns = `id, hash, context_id, panel_id, options, opened_at, expires_at`
	insertSite  = `INSERT INTO sites (` + siteColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?)`
)

// siteValues are s's columns in the order of siteColumns.
func siteValues(s metadata.Site) []any {
	return []any{s.ID, s.Hash[:], s.ContextID, s.PanelID, s.Options, s.OpenedAt.UnixMilli(), s.ExpiresAt.UnixMilli()}
}

func scanSite(row scanner) (s metadata.Site, err error) {
	var hash []byte
	err = row.Scan(&s.ID, &hash, &s.ContextID, &s.PanelID, &s.Options, millis{&s.OpenedAt}, millis{&s.ExpiresAt})
	if err == nil && copy(s.Hash[:], hash) != len(s.Hash) {
		err = errors.New("a site's hash is too short")
	}
	return s, err
}

func (s sites) Add(ctx context.Context, site metadata.Site) error {
	_, err := exec(ctx, s.write, insertSite, siteValues(site)...)
	return s.explain(err, "store the record of site", site.ID)
}

func (s sites) Renew(ctx context.Context, id string, expires time.Time) error {
	err := touch(ctx, s.write, `UPDATE sites SET expires_at = ? WHERE id = ?`, expires.UnixMilli(), id)
	return s.explain(err, "renew site", id)
}

func (s sites) Delete(ctx context.Context, id string) error {
	return s.explain(touch(ctx, s.write, `DELETE FROM sites WHERE id = ?`, id), "delete the record of site", id)
}

func (s sites) List(ctx context.Context) ([]metadata.Site, error) {
	list, err := all(ctx, s.read, scanSite, `SELECT `+siteColumns+` FROM sites ORDER BY opened_at, id`)
	return list, s.explain(err, "list the records of", "sites")
}
