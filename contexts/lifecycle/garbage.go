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
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// GarbageOptions of CollectGarbage. Age and Idle are one rule, TTL, IdleTTL and MaxBytes are three others. The zero value selects no contexts.
type GarbageOptions struct {
	// DryRun only reports what would be removed.
	DryRun bool
	// Age and Idle select contexts if one of them is not 0: those that were made longer than Age ago and have not been used
	// for longer than Idle, which is at least MinIdle. Without Idle, a context stays if a panel with a token that has not
	// expired is bound to it.
	Age, Idle time.Duration
	// TTL selects contexts that were made longer ago, and have no panel with a token that has not expired. IdleTTL selects those that have not
	// been used for longer. 0 selects none.
	TTL, IdleTTL time.Duration
	// MaxBytes selects the contexts that have been idle for the longest, until all contexts take at most so much; none of a panel with a token
	// that has not expired. 0 selects none.
	MaxBytes int64
	// Labels selects among the contexts. What belongs to no context is removed all the same.
	Labels labels.Selector
	// Force removes contexts although something but a use within MinIdle, or a seeding, keeps them.
	Force bool
	// Look returns what holds contexts at the moment of the call. It is called again before each removal, when no operation can enter the context:
	// it must not enter it either. nil means that nothing does.
	Look func(ctx context.Context) (Holds, error)
	// Changes returns the reasons to keep a context that has changes, or snapshots with changes, which were not applied. Force
	// does not override them: Changes leaves KeepSubmitted out of a forced collection. It may enter the context: the collection
	// calls it before it takes a context, and again when it has the context alone. nil means that changes keep nothing.
	Changes func(ctx context.Context, id catalog.ID) ([]Kept, error)
	// Size returns what a context and its snapshots take on disk, for MaxBytes; nil measures.
	Size func(ctx context.Context, id catalog.ID) (int64, error)
	// Verdict, if not nil, receives what was decided on each context that a rule selects; of a dry run, on each context that Labels selects.
	Verdict func(Verdict)
}

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
	GarbageZone     GarbageKind = "zone"     // files of a zone that were kept long enough
)

// Garbage is an item that was removed, or would be.
type Garbage struct {
	Kind GarbageKind
	Name string
	// Bytes is the space on disk that it took.
	Bytes int64
	// Files is how many files of a zone they are.
	Files int64
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
	c := &collection{collector: k, opts: opts, changed: map[string]time.Time{}}
	if opts.selects() || opts.DryRun && opts.Verdict != nil {
		err = c.contexts(ctx)
	}
	return c.found, errors.Join(err, c.zoneFiles(ctx), c.leftovers(ctx))
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
	// swept marks a sweep, which leaves templates alone.
	swept bool
	found []Garbage
	// changed is when files of a context were changed last, by ID, for those that were measured.
	changed map[string]time.Time
	// left is what gather found, for clear. trash is where it was moved to; nil if nothing was moved.
	left  []leftover
	trash *trash
	// from are the directories that leftovers were moved out of.
	from []string
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

// context removes one that a rule selected when all were listed, which may be long ago. It returns the space that it took, or why it stays. gone
// says that it was removed, or would be, even if err says that its record or some of its files were not.
func (c *collection) context(ctx context.Context, id catalog.ID, rule Rule) (bytes int64, gone bool, kept []Kept, err error) {
	unlock, err := c.lock(ctx, id)
	if err != nil {
		return 0, false, nil, catalog.Wrap(id, "could not be collected", err)
	}
	bytes, t, err := c.removeIdle(ctx, id, rule)
	unlock()
	if t != nil {
		_, e := c.deletions.empty(ctx, t)
		if !c.deletions.reserve.Kept() {
			c.deletions.KeepReserve()
		}
		return bytes, true, nil, errors.Join(err, e)
	}
	var s *stays
	switch {
	case errors.As(err, &s):
		return 0, false, s.kept, nil
	case fserr.CodeOf(err) == fserr.ESTALE: // deleted meanwhile
		return 0, false, []Kept{{KeepNoRule, "it was deleted meanwhile"}}, nil
	}
	return bytes, err == nil, nil, err
}

// removeIdle removes a context, whose lock is held, and returns the space that it took. It fails with a *stays if it is not garbage. If there is
// trash the context is gone.
func (c *collection) removeIdle(ctx context.Context, id catalog.ID, rule Rule) (bytes int64, t *trash, err error) {
	rec, err := c.selected(ctx, id, rule)
	if err != nil {
		return 0, nil, err
	}
	if bytes, err = c.measure(ctx, rec); err != nil {
		return 0, nil, err
	}
	// That may have taken long, and shows what other programs changed. From here on operations are asked to end.
	if _, err = c.selected(ctx, id, rule); err == nil && !c.opts.Force && c.gates.InUse(id) {
		err = &stays{[]Kept{underWay}}
	}
	if err != nil || c.opts.DryRun {
		return bytes, nil, err
	}
	check := func(ctx context.Context) error { return c.lastLook(ctx, id, rule) }
	if t, err = c.deletions.remove(ctx, id, check); disk.NoSpace(err) {
		c.deletions.reserve.Spend()
		defer c.deletions.KeepReserve()
		again, e := c.deletions.remove(ctx, id, check)
		t, err = cmp.Or(t, again), e
	}
	return bytes, t, err
}

// selected returns the present record of a context. It fails with a *stays if the rule does not select the context any more.
func (c *collection) selected(ctx context.Context, id catalog.ID, rule Rule) (metadata.Context, error) {
	rec, ok, err := c.cat.Record(ctx, id)
	if err == nil && !ok {
		err = catalog.Missing(id)
	}
	if err == nil {
		err = c.still(rec, rule)
	}
	return rec, err
}

// measure returns the space that a context takes, and notes when its files were changed last: other programs work in its folder without a call.
func (c *collection) measure(ctx context.Context, rec metadata.Context) (int64, error) {
	d, dir, err := c.cat.Drivers.Held(rec)
	if err != nil {
		return 0, err
	}
	all := func(string) error { return nil } // skips what this process may not read
	use, err := disk.Measure(ctx, dir, all)
	newest := use.Newest
	if mounter, ok := d.(driver.Mounter); ok && err == nil { // a mount changes other files of its state
		var upper disk.Usage
		upper, err = disk.Measure(ctx, mounter.Upper(dir), all)
		newest = upper.Newest
	}
	if err == nil {
		c.changed[rec.ID] = newest
	}
	return use.Bytes, err
}

// lastLook fails with a *stays if something keeps a context after all. No operation is in the context and nobody can begin one, or open it for a
// panel, until the context is gone or lastLook has failed. Who waits for that keeps the context too.
func (c *collection) lastLook(ctx context.Context, id catalog.ID, rule Rule) error {
	c.cat.Events.Step("last-look")
	rec, err := c.selected(ctx, id, rule)
	if err != nil {
		return err
	}
	holds, err := c.look(ctx)
	if err != nil {
		return err
	}
	kept, err := c.held(ctx, rec, rule, holds)
	if err == nil && len(kept) == 0 && c.opts.Changes != nil {
		kept, err = c.opts.Changes(gate.Observe(ctx), id)
	}
	switch {
	case err != nil:
		return err
	case len(kept) > 0:
		return &stays{kept}
	}
	c.cat.Events.Step("looked")
	return c.still(rec, rule)
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
	return errors.Join(c.staging(ctx), c.snapshots(ctx), c.feeds(ctx), c.pool(ctx), c.layers(ctx), c.parts(ctx), c.templates(ctx))
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
		c.from = append(c.from, filepath.Dir(path))
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

// clear measures the leftovers and removes them, with no lock but that of the trash. If ctx ends before that, the removal continues in the
// background. What it cannot remove, or not before the server stops, stays in the trash for the next sweep.
func (c *collection) clear(ctx context.Context) {
	c.measureAndRemove(ctx)
	switch {
	case c.trash == nil:
	case ctx.Err() != nil && c.life.Start(c.discard):
	default:
		_ = os.Remove(c.trash.dir) // its content waits for the next sweep
		c.trash.release()
		c.deletions.KeepReserve()
	}
}

// discard removes the trash.
func (c *collection) discard() {
	defer c.trash.release()
	c.cat.Staging.Discard(c.trash.dir)
	c.deletions.KeepReserve()
}

// measureAndRemove does that to the leftovers until ctx ends. First it flushes the names of the places that they left: one that came back after a
// power failure could lack files that had been removed.
func (c *collection) measureAndRemove(ctx context.Context) {
	flushed := durable.Names(c.from...)
	for _, l := range c.left {
		if ctx.Err() != nil {
			return
		}
		c.cat.Events.Step("clearing")
		bytes, err := disk.Use(ctx, l.path)
		if !c.opts.DryRun { // a directory that cannot be measured can still be removed
			if err = flushed; err == nil {
				_, err = disk.RemoveTree(ctx, l.path)
			}
		}
		c.report(Garbage{Kind: l.kind, Name: l.name, Bytes: bytes, Err: err})
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

// feeds takes the feeds of contexts that are gone.
func (c *collection) feeds(ctx context.Context) error {
	entries, err := os.ReadDir(c.cat.Layout.Feeds)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return catalog.NotListed("the feeds", err)
	}
	for _, e := range entries {
		if c.cat.IsGone(e.Name()) {
			dir := c.cat.Layout.Feed(catalog.ID(e.Name()))
			c.take(ctx, GarbageStaging, filepath.Join("feeds", e.Name()), dir, renamed(dir))
		}
	}
	return ctx.Err()
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
