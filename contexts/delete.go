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
	ctx, ended, err := m.begun(ctx, id)
	if err != nil {
		return Deleted{}, err
	}
	defer ended()
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

// delete removes a context under its locks. It empties the trash after it released them, so that the next context of this ID
// does not wait.
func (m *Manager) delete(ctx context.Context, id ID) (Deleted, error) {
	unlock, err := m.lockFor(ctx, id)
	if err != nil {
		return Deleted{}, contextError(id, "could not be deleted", err)
	}
	t, err := m.remove(ctx, id)
	unlock()
	if t == nil {
		return Deleted{}, err
	}
	out, e := m.empty(ctx, t)
	if e != nil {
		err = errors.Join(err, contextError(id, "was deleted, but not all of its files", e))
	}
	return out, err
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
	if moved := m.Moved(); moved != nil {
		err = moved
	}
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
	return m.lockContext(ctx, id, func() {})
}

// lockContext takes a context's lock. Its release removes the lock's file when there is no context.
func (m *Manager) lockContext(ctx context.Context, id ID, waiting func()) (unlock func(), err error) {
	release, err := m.locks.context(ctx, id, waiting)
	if err != nil {
		return nil, err
	}
	return func() {
		if there, err := m.folderState(id); err == nil && !there {
			_ = os.Remove(m.locks.path(contextLock(id))) // an empty file that stays does no harm
		}
		release()
	}, nil
}

// remove takes a context away, whose lock is held. The caller empties the trash after it released the lock; the trash is nil when
// there is nothing to empty. If there is trash the context is gone, even when err says that its record is not.
func (m *Manager) remove(ctx context.Context, id ID) (*trash, error) {
	there, err := m.folderState(id)
	if err != nil {
		return nil, err
	}
	rec, recorded, err := m.record(ctx, id)
	if err != nil {
		return nil, err
	}
	if !there && !recorded {
		return nil, missing(id)
	}
	if !there {
		return nil, m.forget(context.WithoutCancel(ctx), id)
	}
	if !recorded {
		rec = m.describeFolder(id)
	}
	t, err := m.removeFolder(ctx, rec)
	if err != nil {
		return t, contextError(id, "could not be deleted", err)
	}
	return t, nil
}

// removeFolder takes the gate alone and moves the folder out of sight by one rename: a crash leaves something to sweep, not
// half a context. The gate stays shut until the panels' tokens are gone too: a call that waits there must not be
// admitted as a panel's first access, which would make the context anew.
func (m *Manager) removeFolder(ctx context.Context, rec metadata.Context) (*trash, error) {
	id := ID(rec.ID)
	g, err := m.takeGate(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := m.moveAway(ctx, rec, g)
	if err != nil {
		m.giveBack(id, g)
		if t != nil {
			m.discard(t.dir)
			t.release()
		}
		return nil, err
	}
	m.cfg.onPhase("trashed")
	err = m.forget(context.WithoutCancel(ctx), id)
	m.retire(id, g)
	// The trash is emptied also when the context is not forgotten: its record may lack the very space.
	return t, err
}

// moveAway moves a context to the trash. The state of one that is mounted goes last: the context is there as long as it is.
func (m *Manager) moveAway(ctx context.Context, rec metadata.Context, g *gate) (t *trash, err error) {
	id := ID(rec.ID)
	mounter, err := m.mounterOf(rec)
	if err != nil {
		return nil, err
	}
	if mounter != nil {
		if err := m.hide(ctx, mounter, id, g); err != nil {
			return nil, err
		}
	}
	if t, err = m.newTrash(ctx); err != nil {
		return nil, err
	}
	if mounter != nil {
		// The mount point is read-only, and only root can move a read-only directory.
		_ = os.Chmod(m.layout.Folder(id), 0o755) // the rename tells what is wrong
	}
	err = renameNoReplace(m.layout.Folder(id), filepath.Join(t.dir, "folder"))
	if mounter != nil && (err == nil || errors.Is(err, os.ErrNotExist)) {
		m.cfg.onPhase("hidden")
		err = moveIfThere(m.layout.DriverState(mounter.Name(), id), filepath.Join(t.dir, "state"))
	}
	if err != nil {
		return t, err
	}
	return t, moveIfThere(m.layout.SnapshotsOf(id), filepath.Join(t.dir, "snapshots"))
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

// evict closes what is open of a context whose gate is closed and has no users.
func (m *Manager) evict(id ID, g *gate) {
	g.closeRoot()
	m.closeOpen(id)
}

// closeOpen has every registered owner close its open files in a context (see OnTake).
func (m *Manager) closeOpen(id ID) {
	m.mu.Lock()
	fs := slices.Clone(m.onTake)
	m.mu.Unlock()
	for _, f := range fs {
		f(id)
	}
}

// empty removes trash and counts its entries. The removal continues after a caller that leaves. Close ends it, and the next
// sweep removes the rest.
func (m *Manager) empty(ctx context.Context, t *trash) (Deleted, error) {
	type emptied struct {
		Deleted
		err error
	}
	done := make(chan emptied, 1)
	m.wg.Go(func() { // the caller is registered with begun
		defer t.release()
		out, err := m.emptyTrash(t)
		done <- emptied{out, err}
	})
	select {
	case e := <-done:
		return e.Deleted, e.err
	case <-ctx.Done():
		return Deleted{}, nil
	}
}

func (m *Manager) emptyTrash(t *trash) (Deleted, error) {
	root, err := rootfs.Open(m.layout.Staging, rootfs.Options{})
	if err != nil {
		return Deleted{}, err
	}
	defer func() { _ = root.Close() }()
	n, err := root.RemoveAll(m.clearing, filepath.Base(t.dir))
	return Deleted{Entries: max(n-1, 0)}, err
}

// takeGate closes a context's gate and waits until the operations inside have ended: at most drainTime, after which it
// opens the gate again and fails with EBUSY. The caller must pass the gate to retire or giveBack.
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
		if !ok { // its folder was replaced by hand meanwhile
			if err := g.await(ctx, id, g.blocked()); err != nil {
				return nil, err
			}
			continue
		}
		if err := m.drain(ctx, id, g, Read, idle); err != nil {
			g.reopen()
			return nil, err
		}
		return g, nil
	}
}

// retire ends a gate that was taken.
func (m *Manager) retire(id ID, g *gate) {
	m.dropGate(id, g)
	g.retire()
	g.closeRoot()
}

// giveBack opens a gate that was taken. One without root is retired, and the next access makes another.
func (m *Manager) giveBack(id ID, g *gate) {
	if g.root == nil {
		m.retire(id, g)
		return
	}
	g.reopen()
}

// forget removes what is known of a context without folder.
func (m *Manager) forget(ctx context.Context, id ID) error {
	panels, err := m.panelsOf(ctx, id)
	if err != nil {
		return err
	}
	if err := m.using.drop(id); err != nil {
		m.cfg.Log.Warn("the mark of an open context could not be removed", zap.String("context", string(id)), zap.Error(err))
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
		f(id, panels)
	}
	m.cfg.Log.Info("context deleted", zap.String("context", string(id)))
	return nil
}
