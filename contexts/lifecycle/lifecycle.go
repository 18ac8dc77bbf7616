// Package lifecycle changes contexts as a whole: it forks, snapshots, restores, deletes and collects them, and repairs what a
// crash or a lost database left. It owns the snapshots and the trash.
//
// Forks and snapshots are point-in-time copies of a context in use. Most of a copy is made while writers write; they wait while the rest
// is copied, and no write is lost.
// A restore or a deletion takes the context alone. Each change is made in staging and takes effect by one rename, so that a
// crash leaves the context as it was before or after.
package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/seeding"
	"github.com/ctxfs/ctxfs/metadata"
)

// Lifecycle changes the contexts of one workspace.
type Lifecycle struct {
	*forks
	*snapshots
	*deletions
	*collector
	*repairs
}

// New returns a Lifecycle.
func New(cat *catalog.Catalog, life *gate.Life, gates *gate.Gates, seeder *seeding.Seeder) *Lifecycle {
	c := &changes{cat: cat, life: life, gates: gates, seeder: seeder, points: &points{by: map[catalog.ID]*point{}}}
	d := &deletions{changes: c, reserve: disk.Reserve{Dir: cat.Layout.Reserve}}
	g := &collector{changes: c, deletions: d}
	return &Lifecycle{&forks{c}, &snapshots{c}, d, g, &repairs{changes: c, collector: g}}
}

// changes is what all kinds of changes share.
type changes struct {
	cat    *catalog.Catalog
	life   *gate.Life
	gates  *gate.Gates
	seeder *seeding.Seeder
	points *points
}

// lock waits for the end of seedings of contexts. It takes a share of the work lock, and the locks of the contexts.
func (c *changes) lock(ctx context.Context, ids ...catalog.ID) (unlock func(), err error) {
	return c.locked(ctx, c.lockContext, ids...)
}

// lockSoon is lock for a caller that takes the context alone. It waits for the context's lock at most as long as Gates.Take does for the operations inside.
func (c *changes) lockSoon(ctx context.Context, id catalog.ID) (unlock func(), err error) {
	return c.locked(ctx, func(ctx context.Context, id catalog.ID) (func(), error) {
		return c.gates.Within(ctx, id, func(ctx context.Context) (func(), error) { return c.lockContext(ctx, id) })
	}, id)
}

func (c *changes) lockContext(ctx context.Context, id catalog.ID) (unlock func(), err error) {
	return c.cat.LockContext(ctx, id, func() {})
}

// locked is lock with a function that takes the lock of a context.
func (c *changes) locked(ctx context.Context, lock func(context.Context, catalog.ID) (func(), error), ids ...catalog.ID) (unlock func(), err error) {
	releases := make([]func(), 0, 1+len(ids))
	unlock = func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}
	release, err := c.cat.Locks.Share(ctx, catalog.WorkLock)
	slices.SortFunc(ids, catalog.CompareLocks)
	for i := 0; err == nil; i++ {
		releases = append(releases, release)
		if i == len(ids) {
			return unlock, nil
		}
		if err = c.seeder.Flights.Wait(ctx, ids[i]); err == nil {
			release, err = lock(ctx, ids[i])
		}
	}
	unlock()
	if moved := c.cat.Moved(); moved != nil {
		err = moved
	}
	return nil, err
}

// copyOf makes dst, below a staged directory, a copy of a context. asked is when it was requested (points.request).
func (c *changes) copyOf(ctx context.Context, rec metadata.Context, dst string, asked uint64) error {
	id := catalog.ID(rec.ID)
	d, dir, err := c.cat.Drivers.Held(rec)
	if err != nil {
		return err
	}
	if sharer, ok := d.(driver.Sharer); ok && sharer.Parts() != "" {
		if shared, err := c.share(ctx, rec, sharer, dir, dst, asked); shared || err != nil {
			return err
		}
	}
	if err := c.room(ctx, id, dir); err != nil {
		return err
	}
	return c.duplicate(ctx, id, d, dir, dst, func(f func(context.Context) error) error { return c.gates.Frozen(ctx, id, f) })
}

func (c *changes) duplicate(ctx context.Context, id catalog.ID, d driver.Driver, src, dst string, freeze func(func(context.Context) error) error) error {
	changed, err := d.Duplicate(ctx, src, dst, freeze)
	if len(changed) > 0 {
		c.cat.Log.Warn("other programs changed files while they were copied", zap.String("context", string(id)), zap.Strings("files", changed[:min(10, len(changed))]))
	}
	return err
}

// carryMarks marks the files of a copy that are unchanged since the context was seeded, as far as that is known of the context.
func (c *changes) carryMarks(ctx context.Context, rec metadata.Context, made string) {
	id := catalog.ID(rec.ID)
	if d, dir, err := c.cat.Drivers.Held(rec); err == nil {
		c.carryMarksOf(ctx, id, d, dir, c.cat.Events.Marks(id), made)
	}
}

// carryMarksOf is carryMarks for a folder whose marks are in a file. Without marks the first comparison reads the files of the copy.
func (c *changes) carryMarksOf(ctx context.Context, id catalog.ID, d driver.Driver, folder, marks, made string) {
	if _, mounts := d.(driver.Mounter); mounts {
		return
	}
	manifest, digest, err := seed.Inspect(c.cat.Layout.Manifest(id))
	if err != nil {
		return // it started empty
	}
	carried, err := seed.ReadMarks(marks, digest).Carried(ctx, folder, made, manifest)
	if err == nil && carried != nil {
		err = carried.Write(seed.MarksFile(made), digest)
	}
	if err != nil {
		c.cat.Log.Info("the files of a copy could not be marked as unchanged", zap.String("context", string(id)), zap.Error(err))
	}
}

// room fails with ENOSPC if a copy of dir would not leave the disk reserve.
func (c *changes) room(ctx context.Context, id catalog.ID, dir string) error {
	need, err := disk.Use(ctx, dir)
	if err != nil {
		return err
	}
	return c.seeder.Pool.MakeRoom(fmt.Sprintf("copy context '%s'", id), need)
}

// show makes a context that was made or replaced visible to other programs. If that fails the context exists nevertheless, and
// its next access reports why; the failure is logged.
func (c *changes) show(ctx context.Context, rec metadata.Context) { _ = c.gates.Show(ctx, rec) }
