package contexts

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// Ensure implements Gate.
func (m *Manager) Ensure(ctx context.Context, id ID, opts EnsureOptions, progress func(Progress)) (Ensured, error) {
	start := m.cfg.now()
	if _, err := ParseID(string(id)); err != nil {
		return Ensured{}, err
	}
	ensured, err := m.ensure(ctx, id, opts, progress)
	if err != nil {
		return Ensured{}, err
	}
	if ensured.Seeded {
		ensured.Took = m.cfg.now().Sub(start)
	}
	if err := m.seen(ctx, ensured.Info); err != nil {
		return Ensured{}, err
	}
	return ensured, nil
}

func (m *Manager) ensure(ctx context.Context, id ID, opts EnsureOptions, progress func(Progress)) (Ensured, error) {
	if info, ok, err := m.ready(ctx, id, opts.OwnerPanel); ok || err != nil {
		return Ensured{Info: info}, err
	}
	f, err := m.join(id, opts.OwnerPanel)
	if err != nil {
		return Ensured{}, err
	}
	if err := f.wait(ctx, progress); err != nil {
		return Ensured{}, err
	}
	if f.owner == opts.OwnerPanel {
		return Ensured{Info: f.info, Seeded: true}, nil
	}
	// The flight was begun for somebody else, who now owns the context.
	info, ok, err := m.ready(ctx, id, opts.OwnerPanel)
	if err == nil && !ok {
		err = missing(id)
	}
	return Ensured{Info: info, Seeded: true}, err
}

// ready describes a context that needs no seeding; ok is false when it does.
func (m *Manager) ready(ctx context.Context, id ID, panel string) (info Info, ok bool, err error) {
	if m.flightOf(id) != nil {
		return Info{}, false, nil
	}
	unlock, err := m.openingOf(ctx, id)
	if err != nil {
		return Info{}, false, err
	}
	defer unlock()
	rec, err := m.find(ctx, id)
	if code := fserr.CodeOf(err); code == fserr.ESTALE || code == fserr.EAGAIN {
		return Info{}, false, m.mayOwn(ctx, id, panel)
	}
	if err != nil {
		return Info{}, false, err
	}
	if rec, err = m.own(ctx, rec, panel); err != nil {
		return Info{}, false, err
	}
	return m.info(rec, StateReady), true, nil
}

// mayOwn refuses a context that is missing but whose record names another owner.
func (m *Manager) mayOwn(ctx context.Context, id ID, panel string) error {
	rec, ok, err := m.record(ctx, id)
	if err != nil || !ok || panel == "" || rec.OwnerPanel == "" || rec.OwnerPanel == panel {
		return err
	}
	return owned(id, rec.OwnerPanel, panel)
}

// seed makes a context, unless another process has done so when its lock is had.
func (m *Manager) seed(ctx context.Context, f *flight) (Info, bool, error) {
	release, err := m.locks.work(ctx)
	if err != nil {
		return Info{}, false, m.seedError(ctx, f.id, err)
	}
	defer release()
	unlock, err := m.lockContext(ctx, f.id, func() { f.phase(PhaseWaiting) })
	if err != nil {
		return Info{}, false, m.seedError(ctx, f.id, err)
	}
	defer unlock()
	m.cfg.onPhase("locked")
	switch there, err := m.folderState(f.id); {
	case err != nil:
		return Info{}, false, err
	case there:
		return m.adopt(ctx, f)
	}
	rec, err := m.begin(ctx, f)
	if err != nil {
		return Info{}, false, m.seedError(ctx, f.id, err)
	}
	return m.fill(ctx, f, rec)
}

// seedError keeps the reason when it may travel, and tells a stop from a failure.
func (m *Manager) seedError(ctx context.Context, id ID, err error) error {
	if ctx.Err() != nil {
		return stopped(id)
	}
	return contextError(id, "could not be seeded", err)
}

// adopt uses the folder that another process made while this one waited.
func (m *Manager) adopt(ctx context.Context, f *flight) (Info, bool, error) {
	rec, err := m.find(ctx, f.id)
	if err != nil {
		return Info{}, false, err
	}
	if rec.State != metadata.ContextReady {
		if rec, err = m.settleRecord(ctx, rec); err != nil {
			return Info{}, false, err
		}
	}
	if rec, err = m.own(ctx, rec, f.owner); err != nil {
		return Info{}, false, err
	}
	return m.info(rec, StateReady), false, nil
}

// begin records that the context is being seeded.
func (m *Manager) begin(ctx context.Context, f *flight) (metadata.Context, error) {
	if err := m.Distinct(ctx, f.id); err != nil {
		return metadata.Context{}, err
	}
	old, ok, err := m.record(ctx, f.id)
	if err != nil {
		return old, err
	}
	rec := metadata.Context{
		ID: string(f.id), Explicit: f.owner == "", OwnerPanel: f.owner, State: metadata.ContextSeeding,
		Driver: m.cfg.Driver.Name(), Generation: 1, CreatedAt: m.cfg.now().UTC(),
	}
	m.mu.Lock()
	rec.Generation = max(rec.Generation, m.floor[f.id])
	m.mu.Unlock()
	if !ok {
		err = m.cfg.Store.Contexts().Create(ctx, rec)
	} else {
		rec.Generation = max(rec.Generation, old.Generation+1)
		if old.OwnerPanel != "" || f.owner == "" {
			rec.OwnerPanel, rec.Explicit = old.OwnerPanel, old.Explicit
		}
		err = m.cfg.Store.Contexts().Update(ctx, rec)
	}
	if errors.Is(err, metadata.ErrConflict) {
		return rec, collides(f.id, "another")
	}
	m.cfg.onPhase("recorded")
	return rec, err
}

// fill makes the folder and records how that ended.
func (m *Manager) fill(ctx context.Context, f *flight, rec metadata.Context) (Info, bool, error) {
	start := m.cfg.now()
	err := m.make(ctx, f, &rec)
	// What happened is recorded even when the Manager is being closed.
	ctx2 := context.WithoutCancel(ctx)
	rec.SeededIn = m.cfg.now().Sub(start)
	if err != nil {
		err = m.seedError(ctx, f.id, err)
		rec.State, rec.LastError = metadata.ContextFailed, err.Error()
		m.cfg.Log.Warn("seeding failed", zap.String("context", rec.ID), zap.Error(err))
		if e := m.cfg.Store.Contexts().Update(ctx2, rec); e != nil {
			m.cfg.Log.Warn("the failure could not be recorded", zap.String("context", rec.ID), zap.Error(e))
		}
		return Info{}, false, err
	}
	f.phase(PhaseRecord)
	rec.State = metadata.ContextReady
	if err := m.cfg.Store.Contexts().Update(ctx2, rec); err != nil {
		// The folder is there and complete: it will be found ready whatever the record says.
		m.cfg.Log.Warn("a seeding could not be recorded", zap.String("context", rec.ID), zap.Error(err))
	}
	m.cfg.onPhase("ready")
	m.cfg.Log.Info("context seeded", zap.String("context", rec.ID), zap.Int64("files", rec.Files),
		zap.Int64("bytes", rec.Bytes), zap.Duration("took", rec.SeededIn), zap.String("layer", rec.Layer), zap.String("pool", f.pool))
	return m.info(rec, StateReady), true, nil
}

// stage makes an empty directory in staging.
func (m *Manager) stage(kind string) (string, error) { return os.MkdirTemp(m.layout.Staging, kind+"-") }

// discard removes a staged directory. What cannot be removed, or not before the Manager is closed, waits for the next sweep.
func (m *Manager) discard(staged string) {
	if err := m.removeTree(m.clearing, staged); err != nil {
		m.cfg.Log.Warn("staging could not be cleared", zap.Error(err))
	}
}

// removeTree removes what stands at a path in staging.
func (m *Manager) removeTree(ctx context.Context, path string) error {
	root, err := rootfs.Open(filepath.Dir(path), rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if _, err := root.RemoveAll(ctx, filepath.Base(path)); err != nil && fserr.CodeOf(err) != fserr.ENOENT {
		return err
	}
	return nil
}

// keepManifest keeps the layer's manifest for the context, since the layer itself may go.
func (m *Manager) keepManifest(id ID, l *layer.Layer) error {
	if l == nil {
		return m.passManifest("", id)
	}
	return m.passManifest(l.ManifestFile, id)
}

// passManifest gives a context the manifest at a path, or none for "".
func (m *Manager) passManifest(from string, id ID) error {
	file := m.layout.Manifest(id)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if from == "" {
		return nil
	}
	if os.Link(from, file) == nil {
		return nil
	}
	return copyFile(from, file)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// settleRecord makes a folder's record ready that a crash left in another state.
func (m *Manager) settleRecord(ctx context.Context, rec metadata.Context) (metadata.Context, error) {
	told := m.describeFolder(ID(rec.ID))
	rec.State, rec.LastError, rec.Driver = metadata.ContextReady, "", told.Driver
	rec.Layer, rec.Files, rec.Bytes = told.Layer, told.Files, told.Bytes
	if err := m.cfg.Store.Contexts().Update(ctx, rec); err != nil {
		return rec, contextError(ID(rec.ID), "could not be recorded", err)
	}
	return rec, nil
}
