package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ctxfs/ctxfs/metadata"
)

type sites struct{ *Store }

const (
	siteColumns = `id, hash, context_id, panel_id, options, opened_at, expires_at`
	insertSite  = `INSERT INTO @.sites (` + siteColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7)`
)

// siteValues are s's columns in the order of siteColumns.
func siteValues(s metadata.Site) []any {
	return []any{s.ID, s.Hash[:], s.ContextID, s.PanelID, s.Options, stored(s.OpenedAt), stored(s.ExpiresAt)}
}

func scanSite(row pgx.CollectableRow) (s metadata.Site, err error) {
	var hash []byte
	err = row.Scan(&s.ID, &hash, &s.ContextID, &s.PanelID, &s.Options, when{&s.OpenedAt}, when{&s.ExpiresAt})
	if err == nil && copy(s.Hash[:], hash) != len(s.Hash) {
		err = errors.New("a site's hash is too short")
	}
	return s, err
}

func (s sites) Add(ctx context.Context, site metadata.Site) error {
	_, err := s.exec(ctx, insertSite, siteValues(site)...)
	return s.explain(err, "store the record of site", site.ID)
}

func (s sites) Renew(ctx context.Context, id string, expires time.Time) error {
	err := s.touch(ctx, `UPDATE @.sites SET expires_at = $1 WHERE id = $2`, stored(expires), id)
	return s.explain(err, "renew site", id)
}

func (s sites) Delete(ctx context.Context, id string) error {
	return s.explain(s.touch(ctx, `DELETE FROM @.sites WHERE id = $1`, id), "delete the record of site", id)
}

func (s sites) List(ctx context.Context) ([]metadata.Site, error) {
	list, err := all(ctx, s.Store, scanSite, `SELECT `+siteColumns+` FROM @.sites ORDER BY opened_at NULLS FIRST, id`)
	return list, s.explain(err, "list the records of", "sites")
}
