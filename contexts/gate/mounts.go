package gate

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// Mounts mounts and unmounts the contexts of drivers that mount. The state of a context is locked, as a directory, while a
// driver mounts or unmounts it.
type Mounts struct {
	cat       *catalog.Catalog
	layerTree func(digest string) string
	// turn has room for the caller that takes this process's share of catalog.MountedLock. It guards release, which gives
	// up the share, and is nil before the first mount.
	turn    chan struct{}
	release func()
}

func newMounts(cat *catalog.Catalog, layerTree func(string) string) *Mounts {
	return &Mounts{cat: cat, layerTree: layerTree, turn: make(chan struct{}, 1)}
}

// show mounts a context whose driver mounts, unless it is mounted. The context is locked by Gates.Opening.
func (m *Mounts) show(ctx context.Context, rec metadata.Context) error {
	d, err := m.cat.Drivers.MounterOf(rec)
	if d == nil || err != nil {
		return err
	}
	if err := m.mount(ctx, d, rec); err != nil {
		m.cat.Log.Warn("a context could not be mounted", zap.String("context", rec.ID), zap.Error(catalog.Cause(err)))
		return catalog.Wrap(catalog.ID(rec.ID), "could not be mounted", err)
	}
	return nil
}

func (m *Mounts) mount(ctx context.Context, d driver.Mounter, rec metadata.Context) error {
	if err := m.share(ctx); err != nil {
		return err
	}
	p := m.place(d, rec)
	release, err := catalog.LockDirectory(ctx, p.State)
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
	return d.Mount(ctx, p)
}

func (m *Mounts) place(d driver.Mounter, rec metadata.Context) driver.Place {
	id := catalog.ID(rec.ID)
	p := driver.Place{State: m.cat.Layout.DriverState(d.Name(), id), Folder: m.cat.Layout.Folder(id)}
	if digest := m.Layer(rec); digest != "" {
		p.Layer = m.layerTree(digest)
	}
	return p
}

// Layer returns the digest of a context's layer, "" if the context started empty.
func (m *Mounts) Layer(rec metadata.Context) string {
	if rec.Layer == "" { // a crash may have kept it from the record
		if _, found, err := seed.Inspect(m.cat.Layout.Manifest(catalog.ID(rec.ID))); err == nil {
			return found
		}
	}
	return rec.Layer
}

// share takes this process's share of catalog.MountedLock, once. It waits while a process that stops has the lock alone, to
// unmount.
func (m *Mounts) share(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.release != nil {
		return nil
	}
	release, err := m.cat.Locks.Share(ctx, catalog.MountedLock)
	if err == nil {
		m.release = release
	}
	return err
}

// Each calls do for every context that is mounted.
func (m *Mounts) Each(do func(driver.Mounter, catalog.ID)) {
	for _, d := range m.cat.Drivers.Mounters() {
		names, err := d.Mounts(m.cat.Layout.Dir)
		if err != nil {
			m.cat.Log.Warn("mounts could not be listed", zap.String("driver", d.Name()), zap.Error(catalog.Cause(err)))
		}
		for _, name := range names {
			do(d, catalog.ID(name))
		}
	}
}

// Unmount ends the mount of a context that is removed or replaced. A program that has files open keeps them until it closes
// them. The caller holds the context's lock; a context without state has no other lock, and no process mounts it.
func (m *Mounts) Unmount(ctx context.Context, d driver.Mounter, id catalog.ID) error {
	release, err := catalog.LockDirectory(ctx, m.cat.Layout.DriverState(d.Name(), id))
	switch {
	case err == nil:
		defer release()
	case fserr.CodeOf(err) != fserr.ENOENT:
		return err
	}
	return d.Unmount(ctx, m.cat.Layout.Folder(id), true)
}

// unmountTime bounds the time in which a stop begins to unmount contexts. The kernel writes a mount's changes to the disk
// first, which takes as long as the disk does.
const unmountTime = 3 * time.Second

// close ends the mounts of this workspace if no other process uses them, including those of a server that was killed. A mount
// that another program uses stays, so that the program can continue, and the next server uses the mount. Nothing is opened any
// more.
func (m *Mounts) close() {
	if m.release != nil {
		m.release()
		m.release = nil
	}
	found := false
	m.Each(func(driver.Mounter, catalog.ID) { found = true })
	if !found {
		return
	}
	var free func()
	var ok bool
	var err error
	whenExecuted(func() bool {
		free, ok, err = m.cat.Locks.TryAlone(catalog.MountedLock)
		return ok || err != nil
	})
	if err != nil || !ok {
		m.cat.Log.Info("contexts stay mounted: another process uses them", zap.Error(err))
		return
	}
	defer free()
	begun := m.cat.Now()
	var busy map[catalog.ID]error
	whenExecuted(func() bool {
		busy = map[catalog.ID]error{}
		m.Each(func(d driver.Mounter, id catalog.ID) {
			if m.cat.Now().Sub(begun) > unmountTime {
				busy[id] = errors.New("the disk is slow")
			} else if err := d.Unmount(context.Background(), m.cat.Layout.Folder(id), false); err != nil {
				busy[id] = err
			}
		})
		return len(busy) == 0 || m.cat.Now().Sub(begun) > unmountTime
	})
	for id, err := range busy {
		m.cat.Log.Warn("a context stays mounted", zap.String("context", string(id)), zap.Error(err))
	}
}

// executeTime bounds the wait for children of this process that have not executed their programs yet, executePause is the time between two looks.
const executeTime, executePause = time.Second, 10 * time.Millisecond

// whenExecuted repeats try until it returns true, for executeTime at most. Until a child of this process executes its program it has copies of all
// descriptors: it holds locks that were released here, and uses mounts.
func whenExecuted(try func() bool) {
	for begun := time.Now(); !try() && time.Since(begun) < executeTime; {
		time.Sleep(executePause)
	}
}
