package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

// Sites returns the site records.
func (s *Store) Sites() metadata.Sites { return sites{s} }

type sites struct{ *Store }

func (s sites) Add(ctx context.Context, site metadata.Site) error {
	site.OpenedAt, site.ExpiresAt = stored(site.OpenedAt), stored(site.ExpiresAt)
	return s.writing(ctx, "store the record of site", site.ID, func() error {
		for _, old := range s.Store.sites {
			if old.ID == site.ID || old.Hash == site.Hash {
				return metadata.ErrConflict
			}
		}
		s.Store.sites[site.ID] = site
		return nil
	})
}

func (s sites) Renew(ctx context.Context, id string, expires time.Time) error {
	return s.writing(ctx, "renew site", id, func() error {
		site, err := find(s.Store.sites, id)
		if err != nil {
			return err
		}
		site.ExpiresAt = stored(expires)
		s.Store.sites[id] = site
		return nil
	})
}

func (s sites) Delete(ctx context.Context, id string) error {
	return s.writing(ctx, "delete the record of site", id, func() error {
		_, err := find(s.Store.sites, id)
		delete(s.Store.sites, id)
		return err
	})
}

func (s sites) List(ctx context.Context) ([]metadata.Site, error) {
	return reading(ctx, s.Store, "list the records of", "sites", func() ([]metadata.Site, error) {
		return collect(s.Store.sites, func(metadata.Site) bool { return true }, func(a, b metadata.Site) int {
			return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID))
		}), nil
	})
}
