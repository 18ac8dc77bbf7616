package contexts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// GarbageOptions of CollectGarbage.
type GarbageOptions struct {
	// DryRun only says what would be removed.
	DryRun bool
	// Age and Idle, when one of them is not 0, ask for contexts that were made longer than Age ago and have
	// not been used for longer than Idle, which is MinIdle at least.
	Age, Idle time.Duration
}

// MinIdle is how long a context is safe from CollectGarbage after its last use, which is known to a few minutes.
const MinIdle = 2 * noteEvery

// GarbageKind says what something is that is not needed.
type GarbageKind string

// The kinds of garbage.
const (
	GarbageContext  GarbageKind = "context"
	GarbageLayer    GarbageKind = "layer" // of a template too
	GarbagePool     GarbageKind = "pool"
	GarbageStaging  GarbageKind = "staging"
	GarbageMount    GarbageKind = "mount"
	GarbageSnapshot GarbageKind = "snapshot" // of a context that is gone
)

// Garbage is something that was removed, or would be. Bytes is what it took on disk.
type Garbage struct {
	Kind  GarbageKind
	Name  string
	Bytes int64
}

// quietTime bounds how long a collection waits for a moment in which no context is made or deleted.
const quietTime = 5 * time.Second

// CollectGarbage implements Admin.
func (m *Manager) CollectGarbage(ctx context.Context, opts GarbageOptions) ([]Garbage, error) {
	ctx, ended, err := m.begun(ctx, "")
	if err != nil {
		return nil, err
	}
	defer ended()
	c := &collection{m: m, opts: opts}
	if opts.Age > 0 || opts.Idle > 0 {
		c.opts.Idle = max(opts.Idle, MinIdle)
		err = c.contexts(ctx)
	}
	return c.found, errors.Join(err, c.orphans(ctx))
}

// collection is one CollectGarbage.
type collection struct {
	m     *Manager
	opts  GarbageOptions
	found []Garbage
}

// take removes something, unless it is only to be named.
func (c *collection) take(ctx context.Context, kind GarbageKind, name, dir string, remove func() error) error {
	bytes, err := diskUse(ctx, dir)
	if err == nil && !c.opts.DryRun {
		err = remove()
	}
	if err != nil {
		return err
	}
	c.found = append(c.found, Garbage{Kind: kind, Name: name, Bytes: bytes})
	if !c.opts.DryRun {
		c.m.cfg.Log.Info("garbage collected", zap.String("kind", string(kind)), zap.String("name", name), zap.Int64("bytes", bytes))
	}
	return nil
}

// contexts takes those that have not been used for long.
func (c *collection) contexts(ctx context.Context) error {
	recs, err := c.m.cfg.Store.Contexts().List(ctx)
	if err != nil {
		return &fserr.Error{Code: fserr.CodeOf(err), Detail: "the records of contexts could not be listed", Err: err}
	}
	var errs []error
	for _, rec := range recs {
		if c.idle(rec) {
			errs = append(errs, c.context(ctx, ID(rec.ID)))
		}
	}
	return errors.Join(errs...)
}

// context takes one that was idle when all were listed, which may be long ago.
func (c *collection) context(ctx context.Context, id ID) error {
	unlock, err := c.m.lockFor(ctx, id)
	if err != nil {
		return contextError(id, "could not be collected", err)
	}
	defer unlock()
	rec, ok, err := c.m.record(ctx, id)
	if err != nil || !ok || !c.idle(rec) { // any more
		return err
	}
	_, dir, err := c.m.held(rec)
	if err != nil {
		return err
	}
	return c.take(ctx, GarbageContext, rec.ID, dir, func() error {
		_, err := c.m.remove(ctx, id)
		if fserr.CodeOf(err) == fserr.ESTALE { // deleted meanwhile
			return nil
		}
		return err
	})
}

func (c *collection) idle(rec metadata.Context) bool {
	now := c.m.cfg.now()
	return now.Sub(rec.CreatedAt) > c.opts.Age && now.Sub(c.m.lastUse(rec)) > c.opts.Idle && !c.m.inUse(ID(rec.ID))
}

// lastUse is when a context is known to have been used: by this process, or as it was written down.
func (m *Manager) lastUse(rec metadata.Context) time.Time {
	last := rec.UsedAt
	if last.IsZero() {
		last = rec.CreatedAt
	}
	if g, ok := m.gates.Load(ID(rec.ID)); ok {
		if at := g.(*gate).lastUse(m.cfg.now()); at.After(last) { //nolint:forcetypeassert // gates holds nothing else
			last = at
		}
	}
	return last
}

// inUse reports whether somebody is inside a context, or it is being made.
func (m *Manager) inUse(id ID) bool {
	if m.flightOf(id) != nil {
		return true
	}
	v, ok := m.gates.Load(id)
	if !ok {
		return false
	}
	g := v.(*gate) //nolint:forcetypeassert // gates holds nothing else
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.users > 0
}

// orphans takes what nothing refers to, while no process makes or deletes contexts.
func (c *collection) orphans(ctx context.Context) error {
	defer c.m.pool.halt()()
	wait, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	release, err := c.m.locks.quiet(wait)
	if err != nil && ctx.Err() == nil {
		return &fserr.Error{Code: fserr.EAGAIN, Detail: "contexts are being made or deleted all the time", Hint: "retry later", RetryAfter: quietTime, Err: err}
	}
	if err != nil {
		return err
	}
	defer release()
	return errors.Join(c.mounts(ctx), c.staging(ctx), c.snapshots(ctx), c.pool(ctx), c.layers(ctx), c.templates(ctx))
}

func (c *collection) mounts(ctx context.Context) error {
	var errs []error
	c.m.eachMount(func(d driver.Mounter, id ID) {
		if c.m.mounterAt(id) != nil {
			return
		}
		errs = append(errs, c.take(ctx, GarbageMount, string(id), "", func() error { return c.m.unmount(ctx, d, id) }))
	})
	return errors.Join(errs...)
}

func (c *collection) staging(ctx context.Context) error {
	entries, err := os.ReadDir(c.m.layout.Staging)
	if err != nil {
		return &fserr.Error{Code: fserr.CodeOf(err), Detail: "staging could not be listed", Err: err}
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		errs = append(errs, c.take(ctx, GarbageStaging, e.Name(), filepath.Join(c.m.layout.Staging, e.Name()), func() error {
			return c.m.removeStaged(ctx, e.Name())
		}))
	}
	return errors.Join(errs...)
}

func (c *collection) snapshots(ctx context.Context) error {
	left, err := c.m.leftSnapshots(ctx)
	errs := []error{err}
	for _, id := range left {
		errs = append(errs, c.take(ctx, GarbageSnapshot, string(id), c.m.layout.SnapshotsOf(id), func() error { return c.m.dropSnapshots(id) }))
	}
	return errors.Join(errs...)
}

// leftSnapshots lists the contexts that are gone and of which there are snapshots.
func (m *Manager) leftSnapshots(ctx context.Context) ([]ID, error) {
	entries, err := os.ReadDir(m.layout.Snapshots)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the snapshots could not be listed", Err: err}
	}
	var left []ID
	for _, e := range entries {
		id := ID(e.Name())
		if _, err := ParseID(e.Name()); err != nil {
			continue
		}
		there, err := m.folderState(id)
		if err == nil && !there {
			left = append(left, id)
		}
	}
	return left, ctx.Err()
}

func (c *collection) pool(ctx context.Context) error {
	copies, err := c.m.poolGarbage()
	errs := []error{err}
	for _, spare := range copies {
		errs = append(errs, c.take(ctx, GarbagePool, spare.Name, c.m.pool.Dir(spare.Name), func() error { return c.m.dropSpare(ctx, spare.Name) }))
	}
	return errors.Join(errs...)
}

func (c *collection) layers(ctx context.Context) error {
	keep, err := c.m.layersInUse(ctx)
	if err != nil {
		return err
	}
	unused, err := c.m.layers.Unused(keep)
	errs := []error{err}
	for _, digest := range unused {
		errs = append(errs, c.take(ctx, GarbageLayer, digest, c.m.layers.Dir(digest), func() error { return c.m.removeLayer(ctx, digest) }))
	}
	return errors.Join(errs...)
}

func (c *collection) templates(ctx context.Context) error {
	unused, err := c.m.UnusedTemplates(ctx)
	errs := []error{err}
	for _, t := range unused {
		errs = append(errs, c.take(ctx, GarbageLayer, t.Hash, t.Dir, func() error {
			_, err := c.m.RemoveTemplate(ctx, t.Hash)
			return err
		}))
	}
	return errors.Join(errs...)
}
