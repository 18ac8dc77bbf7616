package contexts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// drivers lists the driver of new contexts and the others.
func (m *Manager) drivers() []driver.Driver {
	return append([]driver.Driver{m.cfg.Driver}, m.cfg.Drivers...)
}

// mounters lists the drivers that mount.
func (m *Manager) mounters() []driver.Mounter {
	var out []driver.Mounter
	for _, d := range m.drivers() {
		if mounter, ok := d.(driver.Mounter); ok {
			out = append(out, mounter)
		}
	}
	return out
}

// mounterAt returns the driver that keeps state of a context, nil when none does.
func (m *Manager) mounterAt(id ID) driver.Mounter {
	for _, d := range m.mounters() {
		if st, err := os.Lstat(m.layout.DriverState(d.Name(), id)); err == nil && st.IsDir() {
			return d
		}
	}
	return nil
}

// madeBy names the driver of a context whose record is lost: a driver's state tells, and without
// one the folder holds plain files.
func (m *Manager) madeBy(id ID) string {
	if d := m.mounterAt(id); d != nil {
		return d.Name()
	}
	for _, d := range m.drivers() {
		if _, mounts := d.(driver.Mounter); !mounts {
			return d.Name()
		}
	}
	return m.cfg.Driver.Name()
}

// stateNames lists the contexts that drivers keep state of.
func (m *Manager) stateNames() []string {
	var names []string
	for _, d := range m.mounters() {
		entries, err := os.ReadDir(m.layout.DriverState(d.Name(), ""))
		if err != nil {
			continue // it has made none yet
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return names
}

// mounterOf returns the driver that mounts a context, nil when it is a plain folder. A driver that
// this server does not have is EOPNOTSUPP.
func (m *Manager) mounterOf(rec metadata.Context) (driver.Mounter, error) {
	for _, d := range m.drivers() {
		if d.Name() == rec.Driver {
			mounter, _ := d.(driver.Mounter)
			return mounter, nil
		}
	}
	return nil, &fserr.Error{
		Code: fserr.EOPNOTSUPP, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' was made by the driver %q, which this server does not have", rec.ID, rec.Driver),
		Hint:   "serve the workspace with the version of ctxfs that made it; the context's files are kept",
	}
}

// place tells where a context of a driver that mounts is.
func (m *Manager) place(d driver.Mounter, rec metadata.Context) driver.Place {
	id := ID(rec.ID)
	p := driver.Place{State: m.layout.DriverState(d.Name(), id), Folder: m.layout.Folder(id)}
	digest := rec.Layer
	if digest == "" { // a crash may have kept it from the record
		if _, told, err := seed.Inspect(m.layout.Manifest(id)); err == nil {
			digest = told
		}
	}
	if digest != "" {
		p.Layer = m.layers.Tree(digest)
	}
	return p
}

// show mounts a context whose driver mounts, unless it is mounted. The context's opening lock is held.
func (m *Manager) show(ctx context.Context, rec metadata.Context) error {
	d, err := m.mounterOf(rec)
	if d == nil || err != nil {
		return err
	}
	if err := m.mount(ctx, d, rec); err != nil {
		m.cfg.Log.Warn("a context could not be mounted", zap.String("context", rec.ID), zap.Error(cause(err)))
		return contextError(ID(rec.ID), "could not be mounted", err)
	}
	return nil
}

func (m *Manager) mount(ctx context.Context, d driver.Mounter, rec metadata.Context) error {
	if err := m.shareMounts(ctx); err != nil {
		return err
	}
	release, err := m.locks.directory(ctx, m.layout.DriverState(d.Name(), ID(rec.ID)))
	if fserr.CodeOf(err) == fserr.ENOENT {
		return &fserr.Error{
			Op: "mount", Code: fserr.EIO, Detail: "what the context holds is gone",
			Hint: "restore the state directory from a backup, or delete the context", Err: err,
		}
	}
	if err != nil {
		return err
	}
	defer release()
	return d.Mount(ctx, m.place(d, rec))
}

// shareMounts takes this process's share of the lock of everything that is mounted, once. It waits while a process that stops
// has the lock alone, to unmount.
func (m *Manager) shareMounts(ctx context.Context) error {
	unlock, err := m.opening.lock(ctx, mountedLock)
	if err != nil {
		return err
	}
	defer unlock()
	if m.mounted != nil {
		return nil
	}
	release, err := m.locks.share(ctx, mountedLock)
	if err == nil {
		m.mounted = release
	}
	return err
}

// cause returns what an error's text leaves out because it may travel.
func cause(err error) error {
	var e *fserr.Error
	if errors.As(err, &e) && e.Err != nil {
		return fmt.Errorf("%w: %w", err, e.Err)
	}
	return err
}

// seen makes a context that was asked for visible to other programs as well: the host
// may look into its folder before anybody reads a file through this server.
func (m *Manager) seen(ctx context.Context, info Info) error {
	d, err := m.mounterOf(metadata.Context{ID: string(info.ID), Driver: info.Driver})
	if d == nil || err != nil {
		return err
	}
	a, err := m.Acquire(ctx, info.ID, Read)
	if err != nil {
		return err
	}
	a.Release()
	return nil
}

// unmountTime bounds how long a stop goes on unmounting. The kernel writes a mount's changes to the disk first, which takes
// as long as the disk does.
const unmountTime = 3 * time.Second

// unmountUnused ends the mounts of this workspace when no other process uses them, including those of a server
// that was killed. A mount that another program uses stays, so that the program can continue,
// and the next server uses the mount. Close calls it when nothing is opened any more.
func (m *Manager) unmountUnused() {
	if m.mounted != nil {
		m.mounted()
		m.mounted = nil
	}
	if !m.anyMounts() {
		return
	}
	free, ok, err := m.locks.alone(mountedLock)
	if err != nil || !ok {
		m.cfg.Log.Info("contexts stay mounted: another process uses them", zap.Error(err))
		return
	}
	defer free()
	begun := m.cfg.now()
	m.eachMount(func(d driver.Mounter, id ID) {
		if m.cfg.now().Sub(begun) > unmountTime {
			m.cfg.Log.Warn("a context stays mounted: the disk is slow", zap.String("context", string(id)))
			return
		}
		if err := d.Unmount(context.Background(), m.layout.Folder(id), false); err != nil {
			m.cfg.Log.Warn("a context stays mounted", zap.String("context", string(id)), zap.Error(err))
		}
	})
}

func (m *Manager) anyMounts() bool {
	found := false
	m.eachMount(func(driver.Mounter, ID) { found = true })
	return found
}

// eachMount calls do for every context that is mounted.
func (m *Manager) eachMount(do func(driver.Mounter, ID)) {
	for _, d := range m.mounters() {
		names, err := d.Mounts(m.layout.Dir)
		if err != nil {
			m.cfg.Log.Warn("mounts could not be listed", zap.String("driver", d.Name()), zap.Error(cause(err)))
		}
		for _, name := range names {
			do(d, ID(name))
		}
	}
}

// dropOrphan ends the mount of a context that is gone; false when the context is there after all.
func (m *Manager) dropOrphan(ctx context.Context, d driver.Mounter, id ID) (bool, error) {
	unlock, err := m.lockFor(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	if m.mounterAt(id) != nil {
		return false, nil
	}
	return true, m.unmount(ctx, d, id)
}

// unmount ends the mount of a context that is removed or replaced. A program that still has files open keeps them until it
// closes them. The caller holds the context's lock; a context without state has no other lock, and no process mounts it.
func (m *Manager) unmount(ctx context.Context, d driver.Mounter, id ID) error {
	release, err := m.locks.directory(ctx, m.layout.DriverState(d.Name(), id))
	switch {
	case err == nil:
		defer release()
	case fserr.CodeOf(err) != fserr.ENOENT:
		return err
	}
	return d.Unmount(ctx, m.layout.Folder(id), true)
}
