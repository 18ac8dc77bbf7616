package contexts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/metadata"
)

// Delete implements Admin.
func (m *Manager) Delete(ctx context.Context, id ID) (Deleted, error) {
	if _, err := ParseID(string(id)); err != nil {
		return Deleted{}, err
	}
	out, err := m.delete(ctx, id)
	if !isFull(err) {
		return out, err
	}
	m.reserve.spend()
	defer m.keepReserve()
	again, err := m.delete(ctx, id)
	out.Entries += again.Entries
	return out, err
}

func (m *Manager) delete(ctx context.Context, id ID) (Deleted, error) {
	unlock, err := m.lockFor(ctx, id)
	if err != nil {
		return Deleted{}, contextError(id, "could not be deleted", err)
	}
	defer unlock()
	return m.remove(ctx, id)
}

// lockFor takes a share of the work lock, and the locks of contexts once their seedings, if any run, have ended.
func (m *Manager) lockFor(ctx context.Context, ids ...ID) (unlock func(), err error) {
	releases := make([]func(), 0, 1+len(ids))
	unlock = func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}
	release, err := m.locks.work(ctx)
	// Everybody takes several in the same order.
	slices.SortFunc(ids, func(a, b ID) int { return strings.Compare(contextLock(a), contextLock(b)) })
	for i := 0; err == nil; i++ {
		releases = append(releases, release)
		if i == len(ids) {
			return unlock, nil
		}
		release, err = m.lockOf(ctx, ids[i])
	}
	unlock()
	return nil, err
}

func (m *Manager) lockOf(ctx context.Context, id ID) (func(), error) {
	if f := m.flightOf(id); f != nil {
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return m.locks.context(ctx, id, func() {})
}

func (m *Manager) remove(ctx context.Context, id ID) (Deleted, error) {
	there, err := m.folderState(id)
	if err != nil {
		return Deleted{}, err
	}
	rec, recorded, err := m.record(ctx, id)
	if err != nil {
		return Deleted{}, err
	}
	if !there && !recorded {
		return Deleted{}, missing(id)
	}
	if !there {
		return Deleted{}, m.forget(context.WithoutCancel(ctx), id)
	}
	if !recorded {
		rec = m.describeFolder(id)
	}
	out, err := m.removeFolder(ctx, rec)
	if err != nil {
		return out, contextError(id, "could not be deleted", err)
	}
	return out, nil
}

// removeFolder takes the gate alone, moves the folder out of sight by one rename, and
// empties it there: a crash leaves something to sweep, not half a context. The gate stays
// shut until the panels' tokens are gone too: a call that waits there must not be
// let in as a panel's first access, which would make the context anew.
func (m *Manager) removeFolder(ctx context.Context, rec metadata.Context) (Deleted, error) {
	id := ID(rec.ID)
	g, err := m.takeGate(ctx, id)
	if err != nil {
		return Deleted{}, err
	}
	staged, err := m.moveAway(ctx, rec, g)
	if err != nil {
		m.giveBack(id, g)
		if staged != "" {
			m.discard(staged)
		}
		return Deleted{}, err
	}
	m.cfg.onPhase("trashed")
	forgotten := m.forget(context.WithoutCancel(ctx), id)
	m.retire(id, g)
	// Also when it is not forgotten: its record may lack the very space.
	out, err := m.emptyTrash(context.WithoutCancel(ctx), staged)
	return out, errors.Join(forgotten, err)
}

// moveAway moves what a context is to staging. Of one that is mounted the state goes last: until
// then it is there, and with it gone nothing is.
func (m *Manager) moveAway(ctx context.Context, rec metadata.Context, g *gate) (staged string, err error) {
	id := ID(rec.ID)
	mounter, err := m.mounterOf(rec)
	if err != nil {
		return "", err
	}
	if mounter != nil {
		if err := m.hide(ctx, mounter, id, g); err != nil {
			return "", err
		}
	}
	if staged, err = m.stage("trash"); err != nil {
		return "", err
	}
	if mounter != nil {
		// Nobody was to write there, and who is not root cannot move a directory that he cannot write to.
		_ = os.Chmod(m.layout.Folder(id), 0o755) // the rename tells what is wrong
	}
	err = renameNoReplace(m.layout.Folder(id), filepath.Join(staged, "folder"))
	if mounter != nil && (err == nil || errors.Is(err, os.ErrNotExist)) {
		m.cfg.onPhase("hidden")
		err = moveIfThere(m.layout.DriverState(mounter.Name(), id), filepath.Join(staged, "state"))
	}
	if err != nil {
		return staged, err
	}
	return staged, moveIfThere(m.layout.SnapshotsOf(id), filepath.Join(staged, "snapshots"))
}

// moveIfThere is a rename of what somebody may have removed by hand.
func moveIfThere(from, to string) error {
	err := renameNoReplace(from, to)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// hide closes what holds the mount of a context, and ends it.
func (m *Manager) hide(ctx context.Context, mounter driver.Mounter, id ID, g *gate) error {
	m.evict(id, g)
	return m.unmount(ctx, mounter, id)
}

// evict closes what is open of a context whose gate was taken.
func (m *Manager) evict(id ID, g *gate) {
	g.closeRoot()
	m.mu.Lock()
	fs := slices.Clone(m.onTake)
	m.mu.Unlock()
	for _, f := range fs {
		f(id)
	}
}

// emptyTrash removes a staged folder and counts what was in it.
func (m *Manager) emptyTrash(ctx context.Context, staged string) (Deleted, error) {
	root, err := rootfs.Open(m.layout.Staging, rootfs.Options{})
	if err != nil {
		return Deleted{}, err
	}
	defer func() { _ = root.Close() }()
	n, err := root.RemoveAll(ctx, filepath.Base(staged))
	return Deleted{Entries: max(n-1, 0)}, err
}

// takeGate shuts a context's gate and waits until its users have left. It must be given to
// retire or giveBack.
func (m *Manager) takeGate(ctx context.Context, id ID) (*gate, error) {
	for {
		g, err := m.gateOr(ctx, id, m.shutGate)
		if err != nil {
			return nil, err
		}
		if g.bare { // it was made by this call: the context's lock is held
			return g, nil
		}
		idle, ok := g.close()
		if !ok { // replaced meanwhile, or the Manager is being closed
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-idle:
			return g, nil
		case <-ctx.Done():
			g.reopen()
			return nil, ctx.Err()
		}
	}
}

// retire ends a gate that was taken.
func (m *Manager) retire(id ID, g *gate) {
	m.dropGate(id, g)
	g.retire()
	g.closeRoot()
}

// giveBack opens a gate that was taken; one without root is made anew by the next who comes.
func (m *Manager) giveBack(id ID, g *gate) {
	if g.root == nil {
		m.retire(id, g)
		return
	}
	g.reopen()
}

// forget removes what is known of a context without folder.
func (m *Manager) forget(ctx context.Context, id ID) error {
	panels, err := m.panels(ctx)
	if err != nil {
		return err
	}
	if err := os.Remove(m.layout.Manifest(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return contextError(id, "was deleted but for its manifest", err)
	}
	if err := m.cfg.Store.Contexts().Delete(ctx, string(id)); err != nil && !errors.Is(err, metadata.ErrNotFound) {
		return contextError(id, "was deleted but for its record", err)
	}
	m.mu.Lock()
	fs := slices.Clone(m.onDelete)
	m.mu.Unlock()
	for _, f := range fs {
		f(id, panels[id])
	}
	m.cfg.Log.Info("context deleted", zap.String("context", string(id)))
	return nil
}
