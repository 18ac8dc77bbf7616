package sqlite

import (
	"context"

	"github.com/ctxfs/ctxfs/metadata"
)

type panels struct{ *Store }

const panelColumns = `id, context_id, read_only, opened_at, closed_at`

func scanPanel(row scanner) (p metadata.Panel, err error) {
	err = row.Scan(&p.ID, &p.ContextID, &p.ReadOnly, millis{&p.OpenedAt}, millis{&p.ClosedAt})
	return p, err
}

func panelValues(p metadata.Panel) []any {
	return []any{p.ID, p.ContextID, p.ReadOnly, p.OpenedAt.UnixMilli(), p.ClosedAt.UnixMilli()}
}

func (s panels) Bind(ctx context.Context, p metadata.Panel) error {
	_, err := exec(ctx, s.write, `INSERT INTO panels (`+panelColumns+`, id_folded) VALUES (?, ?, ?, ?, ?, ?)`,
		append(panelValues(p), metadata.Fold(p.ID))...)
	return s.explain(err, "bind panel", p.ID)
}

func (s panels) Get(ctx context.Context, id string) (metadata.Panel, error) {
	p, err := one(ctx, s.read, scanPanel, `SELECT `+panelColumns+` FROM panels WHERE id = ?`, id)
	return p, s.explain(err, "read the record of panel", id)
}

func (s panels) Update(ctx context.Context, p metadata.Panel) error {
	err := touch(ctx, s.write, `UPDATE panels SET (`+panelColumns+`) = (?, ?, ?, ?, ?) WHERE id = ?`,
		append(panelValues(p), p.ID)...)
	return s.explain(err, "update the record of panel", p.ID)
}

func (s panels) List(ctx context.Context) ([]metadata.Panel, error) {
	list, err := all(ctx, s.read, scanPanel, `SELECT `+panelColumns+` FROM panels ORDER BY id`)
	return list, s.explain(err, "list the records of", "panels")
}
