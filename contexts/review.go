package contexts

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Frozen calls f while no other caller of this server changes the context. Writers wait until f returns, and commands are paused.
// It fails with EBUSY if the writers inside do not end within 10 s, or a command cannot be paused. Commands are paused for at most
// 30 s: the context of f ends then, with an EBUSY as its cause. It also ends when another caller asks for the context
// alone. A caller that has the context alone (Unless) enters at once.
func (m *Manager) Frozen(ctx context.Context, id ID, f func(ctx context.Context, a *Access) error) (err error) {
	if a, err := gate.AccessAlone(ctx, id); a != nil || err != nil {
		if err == nil {
			err = f(ctx, a)
		}
		return err
	}
	ctx, end := m.gates.Looks.Begin(ctx, id)
	defer func() { err = end(err) }()
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

// Beside calls f as an operation that reads a context, and that no other caller waits for: the context of f ends when
// another caller asks for the context alone, and Beside then fails with EBUSY. f must compare what it read of a file with
// what the context has afterwards: a batch may have replaced it.
func (m *Manager) Beside(ctx context.Context, id ID, f func(ctx context.Context, a *Access) error) error {
	return m.Looking(ctx, id, func(ctx context.Context, a *Access) error {
		resume := a.Rest()
		return errors.Join(f(ctx, a), resume(ctx))
	})
}

// Looking is Beside for an operation that is short enough for a batch to wait for it.
func (m *Manager) Looking(ctx context.Context, id ID, f func(ctx context.Context, a *Access) error) (err error) {
	if a, err := gate.AccessAlone(ctx, id); a != nil || err != nil {
		if err == nil {
			err = f(ctx, a)
		}
		return err
	}
	ctx, end := m.gates.Looks.Begin(ctx, id)
	defer func() { err = end(err) }()
	a, err := m.Acquire(ctx, id, Read)
	if err != nil {
		return err
	}
	defer a.Release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(a.Closing(), func() { cancel(gate.Wanted(id)) })()
	err = f(ctx, a)
	if err != nil && fserr.CodeOf(context.Cause(ctx)) == fserr.EBUSY {
		err = context.Cause(ctx)
	}
	cancel(nil)
	return err
}

// Record records which paths of a context callers of this server change, until it is stopped.
func (m *Manager) Record(ctx context.Context, id ID) (*Recording, error) {
	return m.gates.Record(ctx, id)
}

// ScanWorkspace lists what a seeding of a context now would copy. It fails with EFBIG beyond the limits of seeding, and with EINVAL if a
// folder that the context was seeded from is gone.
func (m *Manager) ScanWorkspace(ctx context.Context, id ID) (*seed.Scan, error) {
	spec, err := m.Spec(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.seeder.Layers.Scan(ctx, spec.Scope())
}

// Origin is what a context was seeded with. All paths are those of the workspace: below Into, if that is not "".
type Origin struct {
	// Into is the zone that the context was seeded into; "" for the context's root.
	Into string
	// Layer is the layer's digest, Tree the directory of what was seeded, and Manifest what is in it. They are zero for a context that started
	// empty.
	Layer    string
	Tree     string
	Manifest *seed.Manifest
	// Changed lists the paths at which or below which the context may differ from its layer. nil says that it may differ anywhere.
	Changed func(ctx context.Context) ([]string, error)
}

// changedBelow is a driver's list of what may differ in a state, without what is outside of the directory into.
func changedBelow(d driver.Mounter, state, into string) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		all, err := d.Changed(ctx, state)
		if into == "" || all == nil || err != nil {
			return all, err
		}
		out := []string{}
		for _, p := range all {
			rel, below := strings.CutPrefix(p, into+"/")
			switch {
			case below:
				out = append(out, rel)
			case p == into || p == "" || p == ".":
				return nil, nil // the zone itself is another directory: it may differ anywhere
			}
		}
		return out, nil
	}
}

// Origin returns what a context was seeded with.
func (m *Manager) Origin(ctx context.Context, id ID) (Origin, error) {
	rec, err := m.gates.Existing(ctx, id)
	if err != nil {
		return Origin{}, err
	}
	if err := m.cat.OwnFolder(id, "the changes of direct zones are in the workspace already, and cannot be reviewed"); err != nil {
		return Origin{}, err
	}
	spec, err := m.cat.Spec(id)
	if err != nil {
		return Origin{}, err
	}
	if spec.Scope().Nothing {
		return Origin{}, &fserr.Error{
			Code: fserr.EOPNOTSUPP, Kind: fserr.KindContext, Detail: "no zone of context '" + string(id) + "' was seeded, so it has no changes to review",
			Hint: "give a zone 'from: repositories' in a new context",
		}
	}
	out := Origin{Into: spec.Scope().Into}
	d, state, err := m.cat.Drivers.Held(rec)
	if err != nil {
		return Origin{}, err
	}
	if mounter, ok := d.(driver.Mounter); ok {
		out.Changed = changedBelow(mounter, state, out.Into)
	}
	file := m.cat.Layout.Manifest(id)
	manifest, digest, err := m.manifests.of(rec.Layer, file)
	if fserr.CodeOf(err) == fserr.ENOENT && rec.Layer == "" { // it started empty
		return out, nil
	}
	if err != nil {
		return Origin{}, &fserr.Error{
			Code: fserr.EIO, Kind: fserr.KindContext, Detail: "the manifest of context '" + string(id) + "' cannot be read", Hint: "restore .ctxfs/manifests in the contexts directory from a backup", Err: err,
		}
	}
	if err := m.seeder.Layers.Complete(ctx, digest); err != nil {
		return Origin{}, catalog.Wrap(id, "has no base yet", err)
	}
	out.Layer, out.Tree, out.Manifest = digest, filepath.Join(m.seeder.Layers.Tree(digest), out.Into), manifest
	return out, nil
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

// of returns the manifest of what was seeded with a layer, from a context's copy of it. digest may be "" if the record does not have it.
func (k *manifests) of(digest, file string) (*seed.Manifest, string, error) {
	if m := k.find(digest); m != nil {
		return m, digest, nil
	}
	m, digest, err := seed.Inspect(file)
	if err != nil {
		return nil, "", err
	}
	m = m.Seeded()
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
