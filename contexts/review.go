package contexts

import (
	"context"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// Frozen calls f while no other caller of this server changes the context. Writers wait until f returns, and commands are paused.
// It fails with EBUSY if the writers inside do not end within 10 s, or a command cannot be paused. Commands are paused for at most
// 30 s: the context of f ends then, with an EBUSY as its cause.
func (m *Manager) Frozen(ctx context.Context, id ID, f func(ctx context.Context, a *Access) error) error {
	unlock, err := m.cat.LockContext(ctx, id, func() {})
	if err != nil {
		return err
	}
	defer unlock()
	a, err := m.Acquire(ctx, id, Read)
	if err != nil {
		return err
	}
	defer a.Release()
	return m.gates.Frozen(ctx, id, func(ctx context.Context) error { return f(ctx, a) })
}

// Record records which paths of a context callers of this server change, until it is stopped.
func (m *Manager) Record(ctx context.Context, id ID) (*Recording, error) {
	return m.gates.Record(ctx, id)
}

// ScanWorkspace lists what a seeding now would copy. It fails with EFBIG beyond the limits of seeding.
func (m *Manager) ScanWorkspace(ctx context.Context) (*seed.Scan, error) {
	return m.seeder.Layers.Scan(ctx)
}

// Origin is what a context was seeded with.
type Origin struct {
	// Layer is the layer's digest, Tree its directory, and Manifest what is in it. They are zero for a context that started empty.
	Layer    string
	Tree     string
	Manifest *seed.Manifest
	// Changed lists the paths at which or below which the context may differ from its layer. nil says that it may differ anywhere.
	Changed func(ctx context.Context) ([]string, error)
}

// Origin returns what a context was seeded with.
func (m *Manager) Origin(ctx context.Context, id ID) (Origin, error) {
	rec, err := m.gates.Existing(ctx, id)
	if err != nil {
		return Origin{}, err
	}
	var out Origin
	d, state, err := m.cat.Drivers.Held(rec)
	if err != nil {
		return Origin{}, err
	}
	if mounter, ok := d.(driver.Mounter); ok {
		out.Changed = func(ctx context.Context) ([]string, error) { return mounter.Changed(ctx, state) }
	}
	file := m.cat.Layout.Manifest(id)
	manifest, digest, err := m.manifests.of(rec.Layer, file)
	if fserr.CodeOf(err) == fserr.ENOENT && rec.Layer == "" { // it started empty
		return out, nil
	}
	if err != nil {
		return Origin{}, &fserr.Error{
			Code: fserr.EIO, Kind: fserr.KindContext, Detail: "the manifest of context '" + string(id) + "' cannot be read", Hint: "'ctxfs doctor' says what is missing", Err: err,
		}
	}
	out.Layer, out.Tree, out.Manifest = digest, m.seeder.Layers.Tree(digest), manifest
	return out, nil
}

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
	d, _, err := m.cat.Drivers.Held(metadata.Context{ID: string(id), Driver: stored.Driver})
	if err != nil {
		return v, err
	}
	mounter, ok := d.(driver.Mounter)
	if !ok {
		v.Root, err = rootfs.Open(stored.Data, rootfs.Options{})
		return v, err
	}
	v.Origin.Changed = func(ctx context.Context) ([]string, error) { return mounter.Changed(ctx, stored.Data) }
	v.Root, err = mounter.View(ctx, v.Origin.Tree, stored.Data)
	return v, err
}

// manifestsKept is how many manifests stay in memory: to read one takes as long as to walk what it describes.
const manifestsKept = 4

// manifests keeps the manifests that were used last.
type manifests struct {
	mu   sync.Mutex
	kept []keptManifest
}

type keptManifest struct {
	digest   string
	manifest *seed.Manifest
}

// of returns the manifest of a layer, from a context's copy of it. digest may be "" if the record does not have it.
func (k *manifests) of(digest, file string) (*seed.Manifest, string, error) {
	if m := k.find(digest); m != nil {
		return m, digest, nil
	}
	m, digest, err := seed.Inspect(file)
	if err != nil {
		return nil, "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, keptManifest{digest, m})
	k.kept = k.kept[max(0, len(k.kept)-manifestsKept):]
	return m, digest, nil
}

func (k *manifests) find(digest string) *seed.Manifest {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, m := range k.kept {
		if m.digest == digest {
			k.kept = append(append(k.kept[:i:i], k.kept[i+1:]...), m)
			return m.manifest
		}
	}
	return nil
}
