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

// show mounts a context whose driver does, unless it is. m.opening is held.
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
	release, err := m.locks.mounting(ctx)
	if err != nil {
		return err
	}
	defer release()
	if m.mounted == nil {
		if m.mounted, err = m.locks.mounted(ctx); err != nil {
			m.mounted = nil
			return err
		}
	}
	return d.Mount(ctx, m.place(d, rec))
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

// unmountUnused ends the mounts of this workspace when no other process uses them, those of a server
// that was killed included. What some program has open or works in stays: it can go on,
// and the next server finds it.
func (m *Manager) unmountUnused() {
	m.opening.Lock()
	defer m.opening.Unlock()
	if m.mounted != nil {
		m.mounted()
		m.mounted = nil
	}
	if !m.anyMounts() {
		return
	}
	release, err := m.locks.mounting(context.Background())
	if err != nil {
		m.cfg.Log.Warn("contexts stay mounted", zap.Error(err))
		return
	}
	defer release()
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

// dropOrphans ends the mounts of contexts that are gone.
func (m *Manager) dropOrphans(ctx context.Context) {
	m.eachMount(func(d driver.Mounter, id ID) {
		if m.mounterAt(id) != nil {
			return
		}
		m.cfg.Log.Warn("the mount of a context that is gone is removed", zap.String("context", string(id)))
		if err := m.unmount(ctx, d, id); err != nil {
			m.cfg.Log.Warn("it could not be unmounted", zap.String("context", string(id)), zap.Error(cause(err)))
		}
	})
}

// unmount ends the mount of a context that goes for good: whoever still has files open
// keeps them until he closes them.
func (m *Manager) unmount(ctx context.Context, d driver.Mounter, id ID) error {
	release, err := m.locks.mounting(ctx)
	if err != nil {
		return err
	}
	defer release()
	return d.Unmount(ctx, m.layout.Folder(id), true)
}
