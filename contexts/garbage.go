package contexts

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
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
	// Age and Idle, if one of them is not 0, ask for contexts that were made longer than Age ago and have
	// not been used for longer than Idle, which is MinIdle at least. Without Idle, a context to which a panel with a
	// token that has not expired is bound stays.
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

// Garbage is something that was removed, or would be.
type Garbage struct {
	Kind GarbageKind
	Name string
	// Bytes is what it took on disk.
	Bytes int64
	// Err says why it was not removed; nil when it was.
	Err error
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
		c.opts.Idle, c.sparePanels = max(opts.Idle, MinIdle), opts.Idle == 0
		err = c.contexts(ctx)
	}
	return c.found, errors.Join(err, c.leftovers(ctx))
}

// collection is one CollectGarbage, or the sweep of a start or a repair.
type collection struct {
	m    *Manager
	opts GarbageOptions
	// sparePanels keeps contexts to which a panel with a living token is bound.
	sparePanels bool
	// swept says that this is a sweep, which leaves templates alone.
	swept bool
	found []Garbage
	// left is what gather found, for clear. trash is where it was moved to; nil when nothing was moved.
	left  []leftover
	trash *trash
}

// leftover is something at a path that nothing refers to.
type leftover struct {
	kind       GarbageKind
	name, path string
}

// report adds what was removed, would be, or could not be.
func (c *collection) report(g Garbage) {
	c.found = append(c.found, g)
	switch log := c.m.cfg.Log.With(zap.String("kind", string(g.Kind)), zap.String("name", g.Name)); {
	case g.Err != nil:
		log.Warn("garbage could not be collected", zap.Error(cause(g.Err)))
	case !c.opts.DryRun:
		log.Info("garbage collected", zap.Int64("bytes", g.Bytes))
	}
}

// contexts removes those that have not been used for long.
func (c *collection) contexts(ctx context.Context) error {
	recs, err := c.m.cfg.Store.Contexts().List(ctx)
	if err != nil {
		return &fserr.Error{Code: fserr.CodeOf(err), Detail: "the records of contexts could not be listed", Err: err}
	}
	for _, rec := range recs {
		if !c.idle(rec) {
			continue
		}
		if err := c.context(ctx, ID(rec.ID)); err != nil {
			c.report(Garbage{Kind: GarbageContext, Name: rec.ID, Err: err})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// context removes one that was idle when all were listed, which may be long ago.
func (c *collection) context(ctx context.Context, id ID) error {
	unlock, err := c.m.lockFor(ctx, id)
	if err != nil {
		return contextError(id, "could not be collected", err)
	}
	bytes, t, err := c.removeIdle(ctx, id)
	unlock()
	if t != nil {
		_, e := c.m.empty(ctx, t)
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

// errStays says that a context is not garbage, or not any more.
var errStays = errors.New("the context stays")

// removeIdle removes a context, whose lock is held, and returns what it took on disk; errStays when it is not garbage.
func (c *collection) removeIdle(ctx context.Context, id ID) (bytes int64, t *trash, err error) {
	rec, ok, err := c.m.record(ctx, id)
	if err == nil && (!ok || !c.idle(rec)) {
		err = errStays
	}
	if err != nil {
		return 0, nil, err
	}
	if live, err := c.hasPanel(ctx, id); live || err != nil {
		return 0, nil, cmp.Or(err, errStays)
	}
	_, dir, err := c.m.held(rec)
	if err != nil {
		return 0, nil, err
	}
	bytes, err = diskUse(ctx, dir)
	if err != nil || c.opts.DryRun {
		return bytes, nil, err
	}
	t, err = c.m.remove(ctx, id)
	if fserr.CodeOf(err) == fserr.ESTALE { // deleted meanwhile
		err = errStays
	}
	return bytes, t, err
}

// hasPanel reports whether a context stays because of a panel that may come back to it.
func (c *collection) hasPanel(ctx context.Context, id ID) (bool, error) {
	if !c.sparePanels {
		return false, nil
	}
	panels, err := c.m.panelsOf(ctx, id)
	if err != nil {
		return false, err
	}
	for _, panel := range panels {
		tokens, err := c.m.cfg.Store.Tokens().List(ctx, panel)
		if err != nil {
			return false, panelsNotListed(err)
		}
		for _, t := range tokens {
			if t.ExpiresAt.After(c.m.cfg.now()) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (c *collection) idle(rec metadata.Context) bool {
	now := c.m.cfg.now()
	return now.Sub(rec.CreatedAt) > c.opts.Age && now.Sub(c.m.lastUse(rec)) > c.opts.Idle && !c.m.inUse(ID(rec.ID))
}

// lastUse is when a context is known to have been used: by this process, or as its record says.
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

// inUse reports whether operations are inside a context, or it is being made.
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

// leftovers removes what nothing refers to. No context is made or deleted while it decides what that is; new ones
// are made while it measures and removes.
func (c *collection) leftovers(ctx context.Context) error {
	err := c.decide(ctx)
	c.clear(ctx)
	c.mounts(ctx)
	c.checks(ctx)
	return cmp.Or(err, ctx.Err())
}

// decide gathers the leftovers. It holds the work lock alone for that.
func (c *collection) decide(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	resume, err := c.m.pool.halt(wait)
	if err == nil {
		defer resume()
		var release func()
		if release, err = c.m.locks.quiet(wait); err == nil {
			defer release()
			return c.gather(ctx)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &fserr.Error{Code: fserr.EAGAIN, Detail: "contexts are being made or deleted all the time", Hint: "retry later", RetryAfter: quietTime, Err: err}
}

// gather finds what nothing refers to, and renames it into the trash unless this is a dry run. The caller holds the work lock
// alone. It measures and removes nothing, so that the lock is held for a moment.
func (c *collection) gather(ctx context.Context) error {
	if !c.opts.DryRun {
		c.m.locks.removeUnused(c.m.isGone)
	}
	return errors.Join(c.staging(ctx), c.snapshots(ctx), c.pool(ctx), c.layers(ctx), c.templates(ctx))
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
		t, err := c.m.newTrash(ctx)
		if isFull(err) {
			c.m.reserve.spend()
			t, err = c.m.newTrash(ctx)
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
	return func(to string) error { return renameNoReplace(from, to) }
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
		c.m.cfg.onPhase("clearing")
		bytes, err := diskUse(ctx, l.path)
		if !c.opts.DryRun { // a directory that cannot be measured can still be removed
			err = c.m.removeTree(ctx, l.path)
		}
		c.report(Garbage{Kind: l.kind, Name: l.name, Bytes: bytes, Err: err})
	}
	if c.trash != nil {
		_ = os.Remove(c.trash.dir) // what is in it waits for the next sweep
		c.m.keepReserve()
	}
}

// mounts ends those of contexts that are gone.
func (c *collection) mounts(ctx context.Context) {
	c.m.eachMount(func(d driver.Mounter, id ID) {
		if c.m.mounterAt(id) != nil {
			return
		}
		ended, err := c.opts.DryRun, error(nil)
		if !ended {
			ended, err = c.m.dropOrphan(ctx, d, id)
		}
		if ended || err != nil {
			c.report(Garbage{Kind: GarbageMount, Name: string(id), Err: err})
		}
	})
}

// checks removes what killed checks of drivers left. Only the driver that mounted a leftover can unmount it.
func (c *collection) checks(ctx context.Context) {
	left, bytes := map[string]error{}, map[string]int64{}
	for _, d := range c.m.mounters() {
		names, err := d.LeftChecks(c.m.layout.Dir)
		if err != nil {
			c.m.cfg.Log.Warn("the contexts directory could not be listed", zap.Error(cause(err)))
		}
		for _, name := range names {
			left[name] = nil
			bytes[name], _ = diskUse(ctx, filepath.Join(c.m.layout.Dir, name)) // 0 when it cannot be told
			if !c.opts.DryRun {
				left[name] = d.RemoveCheck(ctx, c.m.layout.Dir, name)
			}
		}
	}
	for name, err := range left {
		c.report(Garbage{Kind: GarbageStaging, Name: name, Bytes: bytes[name], Err: err})
	}
}

// staging takes what a crash left half made, and trash that no process empties any more.
func (c *collection) staging(ctx context.Context) error {
	entries, err := os.ReadDir(c.m.layout.Staging)
	if err != nil {
		return &fserr.Error{Code: fserr.CodeOf(err), Detail: "staging could not be listed", Err: err}
	}
	for _, e := range entries {
		dir := filepath.Join(c.m.layout.Staging, e.Name())
		if !e.IsDir() || (c.trash != nil && dir == c.trash.dir) || isBeingEmptied(dir) {
			continue
		}
		c.take(ctx, GarbageStaging, e.Name(), dir, renamed(dir))
	}
	return nil
}

func (c *collection) snapshots(ctx context.Context) error {
	left, err := c.m.leftSnapshots(ctx)
	for _, id := range left {
		dir := c.m.layout.SnapshotsOf(id)
		c.take(ctx, GarbageSnapshot, string(id), dir, renamed(dir))
	}
	return err
}

// leftSnapshots lists the contexts that are gone and of which there are snapshots.
func (m *Manager) leftSnapshots(ctx context.Context) ([]ID, error) {
	entries, err := os.ReadDir(m.layout.Snapshots)
	if err != nil {
		return nil, &fserr.Error{Code: fserr.CodeOf(err), Detail: "the snapshots could not be listed", Err: err}
	}
	var left []ID
	for _, e := range entries {
		if m.isGone(e.Name()) {
			left = append(left, ID(e.Name()))
		}
	}
	return left, ctx.Err()
}

// isGone reports whether a name is the ID of a context that is not there.
func (m *Manager) isGone(name string) bool {
	if _, err := ParseID(name); err != nil {
		return false
	}
	there, err := m.folderState(ID(name))
	return err == nil && !there
}

func (c *collection) pool(ctx context.Context) error {
	copies, err := c.m.poolGarbage()
	for _, spare := range copies {
		dir := c.m.pool.Dir(spare.Name)
		c.take(ctx, GarbagePool, spare.Name, dir, renamed(dir))
	}
	return err
}

func (c *collection) layers(ctx context.Context) error {
	keep, err := c.m.layersInUse(ctx)
	if err != nil {
		return err
	}
	unused, err := c.m.layers.Unused(keep)
	for _, digest := range unused {
		dir := c.m.layers.Dir(digest)
		c.take(ctx, GarbageLayer, digest, dir, func(to string) error {
			err := renameNoReplace(dir, to)
			c.m.forgetLayer(ctx, digest)
			return err
		})
	}
	return err
}

func (c *collection) templates(ctx context.Context) error {
	if c.swept {
		return nil
	}
	unused, err := c.m.UnusedTemplates(ctx)
	for _, t := range unused {
		c.take(ctx, GarbageLayer, t.Hash, t.Dir, func(to string) error {
			removed, err := c.m.removeTemplate(ctx, t.Hash, to)
			if err == nil && !removed {
				err = os.ErrNotExist // a context needs it after all
			}
			return err
		})
	}
	return err
}

// trash is a directory in staging that is being emptied. Its lock, where directories can be locked, keeps the sweeps of other
// processes away.
type trash struct {
	dir     string
	release func()
}

// newTrash makes a trash directory. The caller holds the work lock, or a share of it.
func (m *Manager) newTrash(ctx context.Context) (*trash, error) {
	dir, err := m.stage("trash")
	if err != nil {
		return nil, err
	}
	release, err := m.locks.directory(ctx, dir)
	if err != nil { // NFS and Windows lock no directories: another process's sweep may help to empty it
		release = func() {}
	}
	return &trash{dir: dir, release: release}, nil
}

// isBeingEmptied reports whether a process holds the lock of a directory in staging.
func isBeingEmptied(dir string) bool {
	f := directoryLock(dir)
	ok, err := f.TryLock()
	_ = f.Close() // nothing was written
	return err == nil && !ok
}

// sweep is what a start and a repair do: a collection that leaves contexts and templates alone. The caller holds the work lock
// alone, releases it after sweep has gathered what goes, and then calls clear.
func (m *Manager) sweep(ctx context.Context) *collection {
	c := &collection{m: m, swept: true}
	if err := c.gather(ctx); err != nil {
		m.cfg.Log.Warn("what nothing refers to could not be swept", zap.Error(cause(err)))
	}
	return c
}
