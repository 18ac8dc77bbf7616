package contexts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// begun registers an operation with Close, which cancels the returned context and waits until ended is called.
func (m *Manager) begun(ctx context.Context, id ID) (_ context.Context, ended func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, stopped(id)
	}
	m.wg.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		m.wg.Done()
	}, nil
}

// existing returns the record of a context that is ready. Its lock is held.
func (m *Manager) existing(ctx context.Context, id ID) (metadata.Context, error) {
	unlock, err := m.openingOf(ctx, id)
	if err != nil {
		return metadata.Context{}, err
	}
	defer unlock()
	return m.find(ctx, id)
}

// held returns what a context's driver duplicates: its folder, or the state of a Mounter.
func (m *Manager) held(rec metadata.Context) (d driver.Driver, dir string, err error) {
	for _, d := range m.drivers() {
		if d.Name() != rec.Driver {
			continue
		}
		if _, mounts := d.(driver.Mounter); mounts {
			return d, m.layout.DriverState(d.Name(), ID(rec.ID)), nil
		}
		return d, m.layout.Folder(ID(rec.ID)), nil
	}
	_, err = m.mounterOf(rec) // which says so
	return nil, "", err
}

// still runs f while no caller of this server changes the context, whose lock is held. It waits drainTime at most for the
// operations that may write and are under way; those that come later wait until f returns.
func (m *Manager) still(ctx context.Context, id ID, f func() error) error {
	g, _, err := m.enter(ctx, id, Read)
	if err != nil {
		return err
	}
	defer g.leaving[Read]()
	drained := g.freeze()
	defer g.thaw()
	if err := m.drain(ctx, id, g, Write, drained); err != nil {
		return err
	}
	m.cfg.onPhase("still")
	return f()
}

// copyOf makes dst, below a staged directory, what a context holds now.
func (m *Manager) copyOf(ctx context.Context, rec metadata.Context, dst string) error {
	d, dir, err := m.held(rec)
	if err != nil {
		return err
	}
	if err := m.room(ctx, ID(rec.ID), dir); err != nil {
		return err
	}
	return m.still(ctx, ID(rec.ID), func() error { return m.duplicate(ctx, ID(rec.ID), d, dir, dst) })
}

func (m *Manager) duplicate(ctx context.Context, id ID, d driver.Driver, src, dst string) error {
	changed, err := d.Duplicate(ctx, src, dst, nil)
	if len(changed) > 0 {
		m.cfg.Log.Warn("other programs changed files while they were copied", zap.String("context", string(id)), zap.Strings("files", changed[:min(10, len(changed))]))
	}
	return err
}

// room refuses (ENOSPC) a copy of dir that would not leave the reserve.
func (m *Manager) room(ctx context.Context, id ID, dir string) error {
	need, err := diskUse(ctx, dir)
	if err != nil {
		return err
	}
	return m.checkNeed(fmt.Sprintf("copy context '%s'", id), need)
}

// staged runs f with an empty directory in staging, of which nothing is left afterwards.
func (m *Manager) staged(kind string, f func(dir string) error) error {
	dir, err := m.stage(kind)
	if err != nil {
		return err
	}
	defer m.discard(dir)
	return f(dir)
}

// Fork implements Admin.
func (m *Manager) Fork(ctx context.Context, from, to ID, opts EnsureOptions) (Info, error) {
	if err := mayFork(from, to); err != nil {
		return Info{}, err
	}
	ctx, ended, err := m.begun(ctx, to)
	if err != nil {
		return Info{}, err
	}
	defer ended()
	unlock, err := m.lockFor(ctx, from, to)
	if err != nil {
		return Info{}, contextError(from, "could not be forked", err)
	}
	defer unlock()
	rec, err := m.fork(ctx, from, to, opts.OwnerPanel)
	if err != nil {
		return Info{}, contextError(from, "could not be forked", err)
	}
	m.cfg.Log.Info("context forked", zap.String("context", string(to)), zap.String("from", string(from)), zap.Duration("took", rec.SeededIn))
	return m.shown(ctx, rec), nil
}

// shown describes a context that was made or replaced, and makes it visible to other programs as Ensure does. When that
// fails, which is logged, the context is there nevertheless, and its next access tells.
func (m *Manager) shown(ctx context.Context, rec metadata.Context) Info {
	info := m.info(rec, StateReady)
	_ = m.seen(ctx, info)
	return info
}

// mayFork refuses a copy that its ID would belie.
func mayFork(from, to ID) error {
	a, err := ParseID(string(from))
	if err != nil {
		return err
	}
	b, err := ParseID(string(to))
	switch {
	case err != nil:
		return err
	case from == to:
		return taken(to)
	case metadata.Fold(string(from)) == metadata.Fold(string(to)):
		return collides(to, from)
	case a.Mode == b.Mode && (b.TemplateHash == "" || a.TemplateHash == b.TemplateHash):
		return nil
	}
	return &fserr.Error{
		Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' cannot be a copy of '%s': it would say of itself what is not so", to, from),
		Hint: "fork ctx_ and safe_tpl_ contexts to ctx_NAME or to the same template, unsafe_noctx_ contexts to unsafe_noctx_NAME",
	}
}

func taken(id ID) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' exists already", id),
		Hint: "choose another ID, or delete it first",
	}
}

// fork makes the copy, and records it once it is there: one that fails leaves nothing.
func (m *Manager) fork(ctx context.Context, from, to ID, owner string) (metadata.Context, error) {
	start := m.cfg.now()
	rec, err := m.existing(ctx, from)
	if err != nil {
		return rec, err
	}
	old, recorded, err := m.free(ctx, to, owner)
	if err != nil {
		return rec, err
	}
	m.mu.Lock()
	generation := max(1, old.Generation+1, m.floor[to])
	m.mu.Unlock()
	fork := metadata.Context{
		ID: string(to), Explicit: owner == "", OwnerPanel: owner, State: metadata.ContextSeeding, Driver: rec.Driver, Layer: rec.Layer,
		Generation: generation, Files: rec.Files, Bytes: rec.Bytes, CreatedAt: m.cfg.now().UTC(), ForkedFrom: rec.ID,
	}
	if recorded { // a deletion was cut short: its record names another layer, and would count if the server were killed after the rename
		if err := m.keepRecord(ctx, fork, old, recorded); err != nil {
			return rec, err
		}
	}
	if err := m.forkFolder(ctx, rec, to); err != nil {
		return rec, err
	}
	fork.State, fork.SeededIn = metadata.ContextReady, m.cfg.now().Sub(start)
	return fork, m.keepRecord(context.WithoutCancel(ctx), fork, old, recorded)
}

// free refuses an ID at which there is a context, or that another panel owns; old is what was recorded of one that is gone.
func (m *Manager) free(ctx context.Context, id ID, owner string) (old metadata.Context, recorded bool, err error) {
	there, err := m.folderState(id)
	if err == nil && there {
		err = taken(id)
	}
	if err == nil {
		err = m.Distinct(ctx, id)
	}
	if err == nil {
		err = m.mayOwn(ctx, id, owner)
	}
	if err != nil {
		return old, false, err
	}
	return m.record(ctx, id)
}

// forkFolder makes what the context at an ID is, as a copy of another one.
func (m *Manager) forkFolder(ctx context.Context, from metadata.Context, to ID) error {
	return m.staged("fork", func(dir string) error {
		made := filepath.Join(dir, "folder")
		if err := m.copyOf(ctx, from, made); err != nil {
			return err
		}
		m.cfg.onPhase("forked")
		if err := m.forkManifest(from, to); err != nil {
			return err
		}
		place, err := m.placeFor(from.Driver, to)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		err = renameNoReplace(made, place)
		m.cfg.onPhase("fork-renamed")
		return err
	})
}

// forkManifest makes the fork's base that of its parent, and forgets the snapshots of a context that had its ID.
func (m *Manager) forkManifest(from metadata.Context, to ID) error {
	manifest := m.layout.Manifest(ID(from.ID))
	if _, err := os.Lstat(manifest); errors.Is(err, os.ErrNotExist) { // it started empty
		manifest = ""
	}
	if err := m.passManifest(manifest, to); err != nil {
		return err
	}
	return m.dropSnapshots(to)
}

// placeFor returns where a context that a driver made is to be renamed to.
func (m *Manager) placeFor(name string, id ID) (string, error) {
	for _, d := range m.mounters() {
		if d.Name() == name {
			place := m.layout.DriverState(name, id)
			return place, os.MkdirAll(filepath.Dir(place), 0o700)
		}
	}
	return m.layout.Folder(id), nil
}

// keepRecord writes the record of a context that is made.
func (m *Manager) keepRecord(ctx context.Context, rec, old metadata.Context, recorded bool) error {
	if !recorded {
		err := m.cfg.Store.Contexts().Create(ctx, rec)
		if !errors.Is(err, metadata.ErrConflict) {
			return err
		} // somebody found the folder, and recorded what it tells
	}
	if old.OwnerPanel != "" && rec.OwnerPanel == "" {
		rec.OwnerPanel, rec.Explicit = old.OwnerPanel, old.Explicit
	}
	return m.cfg.Store.Contexts().Update(ctx, rec)
}
