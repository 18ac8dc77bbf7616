// Package lifecycle changes contexts as a whole: it forks, snapshots, restores, deletes and collects them, and repairs what a
// crash or a lost database left. It owns the snapshots and the trash.
//
// Forks and snapshots are point-in-time copies of a context in use: writers wait until the copy is done, and no write is lost.
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
	c := &changes{cat: cat, life: life, gates: gates, seeder: seeder}
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
}

// lock waits for the end of seedings of contexts. It takes a share of the work lock, and the locks of the contexts.
func (c *changes) lock(ctx context.Context, ids ...catalog.ID) (unlock func(), err error) {
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
			release, err = c.cat.LockContext(ctx, ids[i], func() {})
		}
	}
	unlock()
	if moved := c.cat.Moved(); moved != nil {
		err = moved
	}
	return nil, err
}

// copyOf makes dst, below a staged directory, a copy of a context.
func (c *changes) copyOf(ctx context.Context, rec metadata.Context, dst string) error {
	id := catalog.ID(rec.ID)
	d, dir, err := c.cat.Drivers.Held(rec)
	if err != nil {
		return err
	}
	if err := c.room(ctx, id, dir); err != nil {
		return err
	}
	return c.gates.Frozen(ctx, id, func(ctx context.Context) error { return c.duplicate(ctx, id, d, dir, dst) })
}

func (c *changes) duplicate(ctx context.Context, id catalog.ID, d driver.Driver, src, dst string) error {
	changed, err := d.Duplicate(ctx, src, dst, nil)
	if len(changed) > 0 {
		c.cat.Log.Warn("other programs changed files while they were copied", zap.String("context", string(id)), zap.Strings("files", changed[:min(10, len(changed))]))
	}
	return err
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
