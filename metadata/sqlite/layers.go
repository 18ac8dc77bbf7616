package sqlite

import (
	"context"
	"database/sql"

	"github.com/ctxfs/ctxfs/metadata"
)

type layers struct{ *Store }

const layerColumns = `digest, kind, files, bytes, created_at`

func scanLayer(row scanner) (l metadata.Layer, err error) {
	err = row.Scan(&l.Digest, &l.Kind, &l.Files, &l.Bytes, millis{&l.CreatedAt})
	return l, err
}

func scanLayerUse(row scanner) (u metadata.LayerUse, err error) {
	err = row.Scan(&u.Digest, &u.Kind, &u.Files, &u.Bytes, millis{&u.CreatedAt}, &u.Contexts)
	return u, err
}

func (s layers) Put(ctx context.Context, l metadata.Layer) error {
	_, err := exec(ctx, s.write, `INSERT OR REPLACE INTO layers (`+layerColumns+`) VALUES (?, ?, ?, ?, ?)`,
		l.Digest, l.Kind, l.Files, l.Bytes, l.CreatedAt.UnixMilli())
	return s.explain(err, "store the record of layer", l.Digest)
}

func (s layers) Get(ctx context.Context, digest string) (metadata.Layer, error) {
	l, err := one(ctx, s.read, scanLayer, `SELECT `+layerColumns+` FROM layers WHERE digest = ?`, digest)
	return l, s.explain(err, "read the record of layer", digest)
}

func (s layers) Delete(ctx context.Context, digest string) error {
	err := s.within(ctx, func(tx *sql.Tx) error {
		if err := touch(ctx, tx, `DELETE FROM layers WHERE digest = ?`, digest); err != nil {
			return err
		}
		var used bool
		row := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM contexts WHERE layer = ?)`, digest)
		if err := row.Scan(&used); err != nil {
			return err
		}
		if used {
			return metadata.ErrConflict
		}
		return nil
	})
	return s.explain(err, "delete the record of layer", digest)
}

func (s layers) List(ctx context.Context) ([]metadata.LayerUse, error) {
	list, err := all(ctx, s.read, scanLayerUse, `SELECT `+layerColumns+`,
		(SELECT count(*) FROM contexts WHERE contexts.layer = layers.digest)
		FROM layers ORDER BY created_at DESC, digest`)
	return list, s.explain(err, "list the records of", "layers")
}
