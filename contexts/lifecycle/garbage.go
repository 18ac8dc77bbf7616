package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/seeding"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// GarbageOptions of Collect.
type GarbageOptions struct {
	// DryRun only reports what would be removed.
	DryRun bool
	// Age and Idle select contexts if one of them is not 0: those that were made longer than Age ago and have not been used
	// for longer than Idle, which is at least MinIdle. Without Idle, a context stays if a panel with a token that has not
	// expired is bound to it.
	Age, Idle time.Duration
}

// MinIdle is how long a context is safe from a collection after its last use, which is known to a few minutes.
const MinIdle = 2 * gate.NoteEvery

// GarbageKind is a kind of garbage.
type GarbageKind string

// The kinds of garbage.
const (
	GarbageContext  GarbageKind = "context"
	GarbageLayer    GarbageKind = "layer" // of a template too, and a part of contexts that are gone
	GarbagePool     GarbageKind = "pool"
	GarbageStaging  GarbageKind = "staging"
	GarbageMount    GarbageKind = "mount"
	GarbageSnapshot GarbageKind = "snapshot" // of a context that is gone
)

// Garbage is an item that was removed, or would be.
type Garbage struct {
	Kind GarbageKind
	Name string
	// Bytes is the space on disk that it took.
	Bytes int64
	// Err is the reason why it was not removed, or nil.
	Err error
}

// collector removes what nothing refers to.
type collector struct {
	*changes
	deletions *deletions
}

// CollectGarbage removes contexts that the options select, and what nothing refers to any more.
func (k *collector) CollectGarbage(ctx context.Context, opts GarbageOptions) ([]Garbage, error) {
	ctx, ended, err := k.life.Begin(ctx, "")
	if err != nil {
		return nil, err
	}
	defer ended()
	c := &collection{collector: k, opts: opts}
	if opts.Age > 0 || opts.Idle > 0 {
		c.opts.Idle, c.sparePanels = max(opts.Idle, MinIdle), opts.Idle == 0
		err = c.contexts(ctx)
	}
	return c.found, errors.Join(err, c.leftovers(ctx))
}

// sweep is the collection of a start or a repair: it leaves contexts and templates alone. The caller holds the work lock alone,
// releases it after sweep, and then calls clear.
func (k *collector) sweep(ctx context.Context) *collection {
	c := &collection{collector: k, swept: true}
	if err := c.gather(ctx); err != nil {
		k.cat.Log.Warn("staging and layers could not be swept", zap.Error(catalog.Cause(err)))
	}
	return c
}

// collection is one run of the collector.
type collection struct {
	*collector
	opts GarbageOptions
	// sparePanels keeps contexts to which a panel with a valid token is bound.
	sparePanels bool
	// swept marks a sweep, which leaves templates alone.
	swept bool
	found []Garbage
	// left is what gather found, for clear. trash is where it was moved to; nil if nothing was moved.
	left  []leftover
	trash *trash
}

// leftover is something at a path that nothing refers to.
type leftover struct {
	kind       GarbageKind
	name, path string
}

// report adds an item to the result, and logs it.
func (c *collection) report(g Garbage) {
	c.found = append(c.found, g)
	switch log := c.cat.Log.With(zap.String("kind", string(g.Kind)), zap.String("name", g.Name)); {
	case g.Err != nil:
		log.Warn("garbage could not be collected", zap.Error(catalog.Cause(g.Err)))
	case !c.opts.DryRun:
		log.Info("garbage collected", zap.Int64("bytes", g.Bytes))
	}
}

// contexts removes those that have not been used for long.
func (c *collection) contexts(ctx context.Context) error {
	recs, err := c.cat.Store.Contexts().List(ctx)
	if err != nil {
		return catalog.NotListed("the records of contexts", err)
	}
	for _, rec := range recs {
		if !c.idle(rec) {
			continue
		}
		if err := c.context(ctx, catalog.ID(rec.ID)); err != nil {
			c.report(Garbage{Kind: GarbageContext, Name: rec.ID, Err: err})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// context removes one that was idle when all were listed, which may be long ago.
func (c *collection) context(ctx context.Context, id catalog.ID) error {
	unlock, err := c.lock(ctx, id)
	if err != nil {
		return catalog.Wrap(id, "could not be collected", err)
	}
	bytes, t, err := c.removeIdle(ctx, id)
	unlock()
	if t != nil {
		_, e := c.deletions.empty(ctx, t)
		err = errors.Join(err, e)
	}
	switch {
	case errors.Is(err, errStays):
		return nil
	case err == nil:
		c.report(Garbage{Kind: GarbageContext, Name: string(id), Bytes: bytes})
	}
	return err
}

// errStays reports that a context is not garbage, or not any more.
var errStays = errors.New("the context stays")

// removeIdle removes a context, whose lock is held, and returns the space that it took. It fails with errStays if it is not garbage.
func (c *collection) removeIdle(ctx context.Context, id catalog.ID) (bytes int64, t *trash, err error) {
	rec, ok, err := c.cat.Record(ctx, id)
	if err == nil && (!ok || !c.idle(rec)) {
		err = errStays
	}
	if err != nil {
		return 0, nil, err
	}
	if valid, err := c.hasPanel(ctx, id); valid || err != nil {
		return 0, nil, cmp.Or(err, errStays)
	}
	_, dir, err := c.cat.Drivers.Held(rec)
	if err != nil {
		return 0, nil, err
	}
	bytes, err = disk.Use(ctx, dir)
	if err != nil || c.opts.DryRun {
		return bytes, nil, err
	}
	t, err = c.deletions.remove(ctx, id)
	if fserr.CodeOf(err) == fserr.ESTALE { // deleted meanwhile
		err = errStays
	}
	return bytes, t, err
}

// hasPanel reports whether a context stays because a panel may come back to it.
func (c *collection) hasPanel(ctx context.Context, id catalog.ID) (bool, error) {
	if !c.sparePanels {
		return false, nil
	}
	panels, err := c.cat.PanelsOf(ctx, id)
	if err != nil {
		return false, err
	}
	for _, panel := range panels {
		tokens, err := c.cat.Store.Tokens().List(ctx, panel)
		if err != nil {
			return false, catalog.NotListed("the panels", err)
		}
		for _, t := range tokens {
			if t.ExpiresAt.After(c.cat.Now()) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (c *collection) idle(rec metadata.Context) bool {
	now, id := c.cat.Now(), catalog.ID(rec.ID)
	return now.Sub(rec.CreatedAt) > c.opts.Age && now.Sub(c.gates.LastUse(rec)) > c.opts.Idle &&
		c.seeder.Flights.Progress(id) == nil && !c.gates.InUse(id)
}

// leftovers removes what nothing refers to. No context is made or deleted while it decides what that is; new ones are made while
// it measures and removes.
func (c *collection) leftovers(ctx context.Context) error {
	err := c.decide(ctx)
	c.clear(ctx)
	c.mounts(ctx)
	c.checks(ctx)
	return cmp.Or(err, ctx.Err())
}

// decide gathers the leftovers. It holds the work lock alone for that.
func (c *collection) decide(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, seeding.QuietTime)
	defer cancel()
	resume, err := c.seeder.Pool.Halt(wait)
	if err == nil {
		defer resume()
		var release func()
		if release, err = c.cat.Locks.Alone(wait, catalog.WorkLock); err == nil {
			defer release()
			return c.gather(ctx)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &fserr.Error{
		Code: fserr.EAGAIN, Detail: "contexts are being made or deleted all the time", Hint: "retry later", RetryAfter: seeding.QuietTime, Err: err,
	}
}

// gather finds what nothing refers to, and renames it into the trash unless this is a dry run. The caller holds the work lock
// alone. It measures and removes nothing, so that the lock is held for a moment.
func (c *collection) gather(ctx context.Context) error {
	if !c.opts.DryRun {
		c.cat.Locks.Sweep(func(name string) bool {
			return catalog.IsContextLock(name) || strings.HasPrefix(name, template.LockPrefix)
		})
		c.gates.SweepMarks()
	}
	return errors.Join(c.staging(ctx), c.snapshots(ctx), c.pool(ctx), c.layers(ctx), c.parts(ctx), c.templates(ctx))
}

// take moves something into the trash, unless this is a dry run, and lists it for clear.
func (c *collection) take(ctx context.Context, kind GarbageKind, name, path string, move func(to string) error) {
	if !c.opts.DryRun {
		to, err := c.place(ctx)
		if err == nil {
			err = move(to)
		}
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if err != nil {
			c.report(Garbage{Kind: kind, Name: name, Err: err})
			return
		}
		path = to
	}
	c.left = append(c.left, leftover{kind: kind, name: name, path: path})
}

// place returns a free path in the trash.
func (c *collection) place(ctx context.Context) (string, error) {
	if c.trash == nil {
		t, err := c.newTrash(ctx)
		if disk.NoSpace(err) {
			c.deletions.reserve.Spend()
			t, err = c.newTrash(ctx)
		}
		if err != nil {
			return "", err
		}
		c.trash = t
	}
	return filepath.Join(c.trash.dir, strconv.Itoa(len(c.left))), nil
}

// renamed moves a directory into the trash.
func renamed(from string) func(to string) error {
	return func(to string) error { return disk.RenameNoReplace(from, to) }
}

// clear measures the leftovers and removes them, with no lock but that of the trash. What it cannot remove, or not before ctx
// ends, stays in the trash for the next sweep.
func (c *collection) clear(ctx context.Context) {
	if c.trash != nil {
		defer c.trash.release()
	}
	for _, l := range c.left {
		if ctx.Err() != nil {
			return
		}
		c.cat.Events.Step("clearing")
		bytes, err := disk.Use(ctx, l.path)
		if !c.opts.DryRun { // a directory that cannot be measured can still be removed
			_, err = disk.RemoveTree(ctx, l.path)
		}
		c.report(Garbage{Kind: l.kind, Name: l.name, Bytes: bytes, Err: err})
	}
	if c.trash != nil {
		_ = os.Remove(c.trash.dir) // its content waits for the next sweep
		c.deletions.KeepReserve()
	}
}

// mounts ends those of contexts that are gone.
func (c *collection) mounts(ctx context.Context) {
	c.gates.Mounts.Each(func(d driver.Mounter, id catalog.ID) {
		if c.cat.Drivers.MounterAt(id) != nil {
			return
		}
		ended, err := c.opts.DryRun, error(nil)
		if !ended {
			ended, err = c.dropOrphan(ctx, d, id)
		}
		if ended || err != nil {
			c.report(Garbage{Kind: GarbageMount, Name: string(id), Err: err})
		}
	})
}

// dropOrphan ends the mount of a context that is gone, and returns false if the context exists after all.
func (c *collection) dropOrphan(ctx context.Context, d driver.Mounter, id catalog.ID) (bool, error) {
	unlock, err := c.lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	if c.cat.Drivers.MounterAt(id) != nil {
		return false, nil
	}
	return true, c.gates.Mounts.Unmount(ctx, d, id)
}

// checks removes what killed checks of drivers left. Only the driver that mounted a leftover can unmount it.
func (c *collection) checks(ctx context.Context) {
	contexts, left, bytes := c.cat.Layout.Dir, map[string]error{}, map[string]int64{}
	for _, d := range c.cat.Drivers.Mounters() {
		names, err := d.LeftChecks(contexts)
		if err != nil {
			c.cat.Log.Warn("the contexts directory could not be listed", zap.Error(catalog.Cause(err)))
		}
		for _, name := range names {
			left[name] = nil
			bytes[name], _ = disk.Use(ctx, filepath.Join(contexts, name)) // 0 if unknown
			if !c.opts.DryRun {
				left[name] = d.RemoveCheck(ctx, contexts, name)
			}
		}
	}
	for name, err := range left {
		c.report(Garbage{Kind: GarbageStaging, Name: name, Bytes: bytes[name], Err: err})
	}
}

// staging takes what a crash left half made, and trash that no process empties any more.
func (c *collection) staging(ctx context.Context) error {
	entries, err := os.ReadDir(c.cat.Staging.Dir)
	if err != nil {
		return catalog.NotListed("staging", err)
	}
	for _, e := range entries {
		dir := filepath.Join(c.cat.Staging.Dir, e.Name())
		if !e.IsDir() || (c.trash != nil && dir == c.trash.dir) || catalog.IsDirectoryLocked(dir) {
			continue
		}
		c.take(ctx, GarbageStaging, e.Name(), dir, renamed(dir))
	}
	return nil
}

// snapshots takes those of contexts that are gone.
func (c *collection) snapshots(ctx context.Context) error {
	entries, err := os.ReadDir(c.cat.Layout.Snapshots)
	if err != nil {
		return catalog.NotListed("the snapshots", err)
	}
	for _, e := range entries {
		if c.cat.IsGone(e.Name()) {
			dir := c.cat.Layout.SnapshotsOf(catalog.ID(e.Name()))
			c.take(ctx, GarbageSnapshot, e.Name(), dir, renamed(dir))
		}
	}
	return ctx.Err()
}

func (c *collection) pool(ctx context.Context) error {
	copies, err := c.seeder.Pool.Garbage()
	for _, spare := range copies {
		dir := c.seeder.Pool.Dir(spare.Name)
		c.take(ctx, GarbagePool, spare.Name, dir, renamed(dir))
	}
	return err
}

func (c *collection) layers(ctx context.Context) error {
	keep, err := c.cat.LayersInUse(ctx)
	if err != nil {
		return err
	}
	unused, err := c.seeder.Layers.Unused(keep)
	for _, digest := range unused {
		dir := c.seeder.Layers.Dir(digest)
		c.take(ctx, GarbageLayer, digest, dir, func(to string) error {
			err := disk.RenameNoReplace(dir, to)
			c.seeder.Layers.Forget(ctx, digest)
			return err
		})
	}
	return err
}

// parts takes the parts that nothing leads to.
func (c *collection) parts(ctx context.Context) error {
	unused, err := c.unusedParts()
	for _, dir := range unused {
		c.take(ctx, GarbageLayer, filepath.Base(dir), dir, renamed(dir))
	}
	return err
}

func (c *collection) templates(ctx context.Context) error {
	if c.swept {
		return nil
	}
	unused, err := c.seeder.Templates.Unused(ctx)
	for _, t := range unused {
		c.take(ctx, GarbageLayer, t.Hash, t.Dir, func(to string) error {
			removed, err := c.seeder.Templates.Remove(ctx, t.Hash, to)
			if err == nil && !removed {
				err = os.ErrNotExist // a context needs it after all
			}
			return err
		})
	}
	return err
}
