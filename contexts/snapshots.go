package contexts

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/lifecycle"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/metadata"
)

// SnapshotView is a snapshot that can be read.
type SnapshotView struct {
	// Root is the snapshot's content. The caller closes it.
	Root rootfs.Root
	// Origin is what the context was seeded with; its Changed is of the snapshot.
	Origin Origin
	// Check fails with ENOENT if the snapshot was deleted since: what was read of it may then be a part of it.
	Check func() error
}

// ViewSnapshot opens a snapshot of a context for reading. It fails with ENOENT if there is no such snapshot.
func (m *Manager) ViewSnapshot(ctx context.Context, id ID, name string) (v SnapshotView, err error) {
	if v.Origin, err = m.Origin(ctx, id); err != nil {
		return v, err
	}
	stored, err := m.lives.FindSnapshot(id, name)
	if err != nil {
		return v, err
	}
	v.Check = stored.Check
	var mounter driver.Mounter
	if v.Root, mounter, err = m.openSnapshot(ctx, id, stored, v.Origin.Layer); mounter != nil {
		v.Origin.Changed = changedBelow(mounter, stored.Data, v.Origin.Into)
	}
	return v, err
}

// openSnapshot opens a snapshot of a context for reading. mounter is nil if its files are plain.
func (m *Manager) openSnapshot(ctx context.Context, id ID, stored lifecycle.Stored, layer string) (root rootfs.Root, mounter driver.Mounter, err error) {
	d, _, err := m.cat.Drivers.Held(metadata.Context{ID: string(id), Driver: stored.Driver})
	if err != nil {
		return nil, nil, err
	}
	mounter, ok := d.(driver.Mounter)
	if !ok {
		root, err = rootfs.Open(stored.Data, rootfs.Options{})
		return root, nil, err
	}
	tree := ""
	if layer != "" { // else the context started empty
		tree = m.seeder.Layers.Tree(layer)
	}
	root, err = mounter.View(ctx, tree, stored.Data)
	return root, mounter, err
}

// SnapshotTaken returns when a snapshot of a context was taken, in ns since the epoch. It fails with ENOENT if there is no such snapshot.
func (m *Manager) SnapshotTaken(ctx context.Context, id ID, name string) (ns int64, err error) {
	if _, err := m.gates.Existing(ctx, id); err != nil {
		return 0, err
	}
	stored, err := m.lives.FindSnapshot(id, name)
	return stored.TakenAt.UnixNano(), err
}

// AcquireSnapshot opens a snapshot of a context for reading, as Acquire does for the context. What it shows stays the same when the context
// is changed, restored or forked. taken, in ns since the epoch, is when the snapshot was taken, and the generation of the Access. It fails
// with ENOENT if the context has no such snapshot, and with ESTALE if the context is missing.
func (m *Manager) AcquireSnapshot(ctx context.Context, id ID, name string, taken int64) (*Access, error) {
	return m.gates.Views.Acquire(ctx, gate.Kept{Context: id, Name: name, Taken: taken}, func(ctx context.Context) (string, rootfs.Root, error) {
		ctx, ended, err := m.life.Begin(ctx, id)
		if err != nil {
			return "", nil, err
		}
		defer ended()
		return m.findSnapshot(ctx, id, name, taken)
	})
}

// findSnapshot returns where a snapshot is, and opens it.
func (m *Manager) findSnapshot(ctx context.Context, id ID, name string, taken int64) (dir string, root rootfs.Root, err error) {
	rec, err := m.gates.Existing(ctx, id)
	if err != nil {
		return "", nil, err
	}
	stored, err := m.lives.FindSnapshot(id, name)
	if err == nil && stored.TakenAt.UnixNano() != taken {
		err = lifecycle.NoSnapshot(id, name)
	}
	if err != nil {
		return "", nil, err
	}
	layer := m.gates.Mounts.Layer(rec)
	if err := m.seeder.Layers.Complete(ctx, layer); err != nil {
		return "", nil, catalog.Wrap(id, "has no base yet", err)
	}
	if root, _, err = m.openSnapshot(ctx, id, stored, layer); err != nil {
		return "", nil, catalog.Wrap(id, "has a snapshot that could not be opened", err)
	}
	return stored.Data, root, nil
}
