// Package contexts owns the contexts of one workspace: their IDs, their folders under <workspace>/.contexts, how they are seeded
// on first access, and the gate that every file operation passes. It knows no gRPC and opens no path inside a context itself:
// that is the work of rootfs.
//
// # Vocabulary
//
// A context is a folder with an ID. It is seeded (filled) from a layer, an immutable copy of the workspace or of a template. A
// driver makes the context from the layer: as plain files, or as a mount over the layer. Each context has a generation, which
// rises when its folder is replaced.
//
// # The gate
//
// Every operation goes through Acquire, which gives the context's root, its generation and a release. Operations share the
// gate. A restore or a deletion takes it alone: it asks the operations inside to end (Access.Closing), waits for them, and
// raises the generation. Handles of an older generation fail with ESTALE. A fork or a snapshot freezes the gate: operations
// that change something wait while the rest of the copy is made; users that can be paused are paused (Access.Yield); readers continue, and
// all handles stay valid. If nothing is open in a context, a driver may freeze its changes instead and share them with the copy
// (driver.Sharer): then all operations wait for a moment.
//
// Each of these fails with EBUSY after 10 s if operations inside do not end. The gate is then open as before. No lock is held
// for more than one context over disk, mount or store, except for the moment in which a collection renames garbage away. Every
// wait ends with its caller or within a stated time.
//
// # First access
//
// Ensure seeds a context that is missing. All concurrent first accesses, in this process and in others, share one seeding,
// which outlives the caller that began it. A context either does not exist or is complete: it is made in .ctxfs/staging and
// renamed.
//
// # Packages
//
// Manager is a facade. The work is done in the packages below, each of which uses only those before it:
//
//   - disk stages, moves and measures directories;
//   - catalog knows IDs, paths, records and locks;
//   - gate owns what is open: roots, mounts, quotas;
//   - seeding owns the seedings that run, layers, templates and the pool of ready copies;
//   - lifecycle forks, snapshots, restores, deletes, collects and repairs.
package contexts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/lifecycle"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/seeding"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// Config of Open. Workspace, Store and Driver are required.
type Config struct {
	// Workspace is the folder that contexts are seeded from.
	Workspace string
	// Dir is the contexts directory; "" means <workspace>/.contexts.
	Dir string
	// Store keeps the records; the Manager does not close it.
	Store metadata.Store
	// Locks keep the processes apart that serve the workspace; nil means locks on files in the state directory.
	Locks catalog.Locks
	// Driver makes new contexts from layers.
	Driver driver.Driver
	// Drivers are further ones, for contexts that they made before: a context keeps the driver that its record names. A
	// driver that does not work here (Check fails) belongs here too, so that its contexts are recognised.
	Drivers []driver.Driver
	// Seed says what is copied.
	Seed seed.Options
	// Templates say where templates find their repositories.
	Templates TemplateOptions
	// Quota bounds each context.
	Quota Quota
	// DiskReserve is how many bytes a seeding must leave free; 0 means none.
	DiskReserve int64
	// Pool is how many ready copies of the workspace are kept, for drivers whose contexts are plain folders; 0 means none.
	Pool int
	// PoolMaxBytes is the size of the largest copy that is kept ready, unless copies share their extents; 0 means 1 GiB.
	PoolMaxBytes int64
	// Events receives what happens to contexts.
	Events Events
	// Log may be nil.
	Log *zap.Logger
	// AllowChown and Owner are passed to every context's root (rootfs.Options).
	AllowChown bool
	Owner      *rootfs.Owner
	// Version is written into FORMAT and named when the state is too new.
	Version string
	// ZoneDirs are directories outside of the workspace that may have direct zones.
	ZoneDirs []string
	// TrustZoneFiles lets a context-zones.yml of the workspace give a panel direct zones.
	TrustZoneFiles bool
	// OpenRoot opens a context's folder; nil means rootfs.Open. Tests choose an implementation with it.
	OpenRoot func(dir string, opts rootfs.Options) (rootfs.Root, error)
	// Now is the clock; nil, except in tests, means time.Now.
	Now func() time.Time

	// drainTime and pauseTime are gate.Config's; closeTime is 0 for the constant.
	drainTime, pauseTime, closeTime time.Duration
}

// closeTime bounds how long Close waits: once for the changes that it cancelled, once for the operations inside contexts.
const closeTime = 5 * time.Second

func (c Config) withDefaults(l Layout) Config {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Locks == nil {
		c.Locks = catalog.FileLocks{Dir: l.Locks}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.closeTime == 0 {
		c.closeTime = closeTime
	}
	c.Events = c.Events.WithDefaults()
	c.Seed = c.Seed.WithDefaults()
	return c
}

// Manager owns the contexts of one workspace. Any number of Managers, in any number of processes, may share a workspace and its
// store.
type Manager struct {
	life      *gate.Life
	workspace rootfs.Root
	cat       *catalog.Catalog
	gates     *gate.Gates
	seeder    *seeding.Seeder
	lives     *lifecycle.Lifecycle
	manifests manifests
	zones     zones.Places
	closeTime time.Duration
}

// Open makes the contexts directory if it is missing, sweeps what a crash left, and returns the workspace's Manager. It fails
// with a *FormatError if the state is newer.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	l, err := NewLayout(cfg.Workspace, cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := l.Make(cfg.Version); err != nil {
		return nil, err
	}
	root, err := rootfs.Open(l.Workspace, rootfs.Options{FollowMounts: true})
	if err != nil {
		return nil, catalog.LayoutError(fserr.CodeOf(err), err, "workspace %s cannot be opened: %s", l.Workspace, fserr.CodeOf(err).Text())
	}
	m, err := compose(ctx, cfg.withDefaults(l), l, root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if err := m.lives.Reconcile(ctx); err != nil {
		_ = m.Close() // the first error counts
		return nil, err
	}
	m.seeder.Pool.Start()
	m.lives.KeepReserve()
	return m, nil
}

// compose makes the parts, each of those before it.
func compose(ctx context.Context, cfg Config, l Layout, root rootfs.Root) (*Manager, error) {
	life := gate.NewLife()
	cat, err := catalog.New(catalog.Catalog{
		Layout: l, Drivers: catalog.NewDrivers(l, cfg.Driver, cfg.Drivers), Store: cfg.Store, Locks: cfg.Locks,
		Staging: disk.NewStaging(l.Staging, life.Clearing, cfg.Log), Events: cfg.Events, Log: cfg.Log, Now: cfg.Now,
	})
	if err != nil {
		return nil, err
	}
	places, err := zones.NewPlaces(l.Workspace, l.Dir, cfg.ZoneDirs)
	if err != nil {
		return nil, err
	}
	places.TrustFiles = cfg.TrustZoneFiles
	flights, layers := seeding.NewFlights(life), layer.New(l.Layers, cfg.Owner)
	gates, err := gate.New(ctx, gate.Config{
		Catalog: cat, Life: life, Seedings: flights, LayerTree: layers.Tree, Quota: cfg.Quota, OpenRoot: cfg.OpenRoot, Zones: places,
		Root: rootfs.Options{AllowChown: cfg.AllowChown, Owner: cfg.Owner}, DrainTime: cfg.drainTime, PauseTime: cfg.pauseTime, CloseTime: cfg.closeTime,
	})
	if err != nil {
		return nil, err
	}
	seeder, err := seeding.New(seeding.Config{
		Catalog: cat, Life: life, Gates: gates, Flights: flights, Layers: layers, Source: l.Source(root), Seed: cfg.Seed, Templates: cfg.Templates,
		Owner: cfg.Owner, DiskReserve: cfg.DiskReserve, Pool: cfg.Pool, PoolMaxBytes: cfg.PoolMaxBytes,
		Zones: func(panel string) (zones.Layout, error) {
			l, _, err := zones.Find(root, panel)
			if err == nil {
				err = places.CheckFile(panel, l)
			}
			if err == nil {
				err = places.Explain(l)
			}
			return l, err
		},
	})
	if err != nil {
		return nil, errors.Join(err, gates.Close())
	}
	lives := lifecycle.New(cat, life, gates, seeder)
	return &Manager{life: life, workspace: root, cat: cat, gates: gates, seeder: seeder, lives: lives, zones: places, closeTime: cfg.closeTime}, nil
}

// Close cancels seedings and other changes and waits for them, closes every root, and unmounts contexts unless another process
// uses them. The caller must have closed every file that it opened in a context. Close fails with EBUSY, and leaves an
// operation with its root, if the operation does not end within 5 s. Closing again has no effect.
func (m *Manager) Close() error {
	ended, again := m.life.Stop(m.closeTime)
	switch {
	case again:
		return nil
	case !ended:
		return &fserr.Error{Code: fserr.EBUSY, Detail: fmt.Sprintf("changes of contexts did not end within %s", m.closeTime)}
	}
	errs := []error{m.gates.Close()}
	if err := m.seeder.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close the repositories of templates: %w", err))
	}
	if err := m.workspace.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close the workspace: %w", err))
	}
	return errors.Join(errs...)
}

// Moved fails with EIO if somebody moved or removed the contexts directory, alone or with the workspace.
func (m *Manager) Moved() error { return m.cat.Moved() }

// Distinct fails with EEXIST if another context has an ID that differs from id only by case.
func (m *Manager) Distinct(ctx context.Context, id ID) error { return m.cat.Distinct(ctx, id) }

// Acquire opens the gate of a context that is ready. It fails with ESTALE and fserr.KindContext if the context is missing, and with
// EAGAIN and RetryAfter if it is being seeded. The caller must call Access.Release exactly once. An operation that changes a
// context which it acquired to Read may lose the change to a fork or a snapshot, or leave it in both.
func (m *Manager) Acquire(ctx context.Context, id ID, use Use) (*Access, error) {
	return m.gates.Acquire(ctx, id, use)
}

// Batch carries out steps in a context as one change: all of them or none, also after a kill. See package batch. Writers wait until it
// ends, readers during the renames. It fails with EBUSY if the operations inside do not end within 10 s; with the error of a step, whose
// Step is set, if that fails; and with ESTALE if the context is missing.
func (m *Manager) Batch(ctx context.Context, id ID, opts BatchOptions) (Batched, error) {
	return m.gates.Batch(ctx, id, opts)
}

// EnsureOptions of Ensure.
type EnsureOptions struct {
	// OwnerPanel is the panel that the ID was derived from; "" means that the ID was named explicitly. EEXIST: another panel
	// owns the ID, or an existing ID differs from it only by case.
	OwnerPanel string
	// Spec says what a new context is made of. For a context that exists it repeats the context's, or leaves it out: EEXIST otherwise. A fork
	// has that of the context that it is a copy of.
	Spec Spec
	// Labels are those that the context gets beside those that it has (package labels). EINVAL: they are bad, or too many together.
	Labels map[string]string
	// NewLabels are those that only a new context gets: one that this call makes, or whose making has failed before.
	NewLabels map[string]string
}

// Ensured is Ensure's result.
type Ensured struct {
	Info
	// Seeded says that this call waited for a seeding; it is false if the context was ready.
	Seeded bool
	// Zones is how the context's zones are kept; "" if it has none.
	Zones zones.Mode
	// Took is how long the caller waited.
	Took time.Duration
}

// Show mounts a context that is ready, unless its driver mounts none or it is mounted. Until then its folder is empty, and what a program writes there is hidden
// by the mount. It is no use of the context.
func (m *Manager) Show(ctx context.Context, id ID) error {
	rec, err := m.gates.Existing(ctx, id)
	if err != nil {
		return err
	}
	if d, err := m.cat.Drivers.MounterOf(rec); d == nil || err != nil {
		return err
	}
	a, err := m.Acquire(Observe(ctx), id, Read)
	if err != nil {
		return err
	}
	a.Release()
	return nil
}

// Ensure makes the context ready. It seeds the context if it is missing, and waits for a seeding that another caller began. If
// ctx ends first it fails with EAGAIN, RetryAfter and the counts so far, and the seeding continues. A context whose last
// seeding failed is seeded anew. progress may be nil; it is called from one goroutine at a time.
func (m *Manager) Ensure(ctx context.Context, id ID, opts EnsureOptions, progress func(Progress)) (Ensured, error) {
	start := m.cat.Now()
	if err := opts.Spec.Fits(id); err != nil {
		return Ensured{}, err
	}
	if err := m.zones.Explain(opts.Spec.Zones); err != nil {
		return Ensured{}, err
	}
	atFirst, err := labels.Apply(nil, opts.NewLabels, nil)
	if err == nil {
		atFirst, err = labels.Apply(atFirst, opts.Labels, nil)
	}
	if err != nil {
		return Ensured{}, err
	}
	rec, seeded, err := m.seeder.Ensure(ctx, id, seeding.Request{OwnerPanel: opts.OwnerPanel, Spec: opts.Spec, Labels: atFirst}, progress)
	if err == nil && !labels.Has(rec.Labels, opts.Labels) {
		rec.Labels, err = m.SetLabels(ctx, id, opts.Labels, nil)
	}
	if err != nil {
		return Ensured{}, err
	}
	if !seeded {
		_ = m.Show(ctx, id) // the first call says why it cannot be mounted, and the log does
	}
	spec, err := m.cat.Spec(id)
	if err != nil {
		return Ensured{}, err
	}
	ensured := Ensured{Info: m.info(rec, StateReady), Seeded: seeded, Zones: spec.Zones.Mode}
	if seeded {
		ensured.Took = m.cat.Now().Sub(start)
	}
	if err := m.gates.Show(ctx, rec); err != nil {
		return Ensured{}, err
	}
	return ensured, nil
}

// Spec returns what a context is made of. It fails with ESTALE if the context is missing.
func (m *Manager) Spec(ctx context.Context, id ID) (Spec, error) {
	if _, err := m.gates.Existing(ctx, id); err != nil {
		return Spec{}, err
	}
	return m.cat.Spec(id)
}

// SeededInto returns the zone that a context which is open was seeded into, "" for its root.
func (m *Manager) SeededInto(id ID) (string, error) {
	spec, err := m.cat.Spec(id)
	return spec.Scope().Into, err
}

// PlanSeed reports what a seeding now would copy, and copies nothing.
func (m *Manager) PlanSeed(ctx context.Context, opts PlanOptions) (Plan, error) {
	return m.seeder.Layers.Plan(ctx, opts)
}

// Templates prepares what template contexts (safe_tpl_...) are made from.
func (m *Manager) Templates() *Templates { return m.seeder.Templates }

// Fork makes the context to a copy of from; later changes to one do not show in the other. It is a point-in-time copy: operations
// that Write to from wait until it is made, and everything that is open stays open. It fails with EEXIST if to exists, and with
// EBUSY if the writers in from do not end within 10 s. The copy has the labels of from, and those of opts.
func (m *Manager) Fork(ctx context.Context, from, to ID, opts EnsureOptions) (Info, error) {
	return m.changed(m.lives.Fork(ctx, from, to, opts.OwnerPanel, opts.Labels))
}

// changed describes a context that was made or replaced.
func (m *Manager) changed(rec metadata.Context, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	return m.info(rec, StateReady), nil
}

// Snapshot keeps a copy of a context under a name, as Fork does. It fails with EEXIST if the name is taken, EINVAL if it is bad.
func (m *Manager) Snapshot(ctx context.Context, id ID, name string) (Snapshot, error) {
	return m.lives.Snapshot(ctx, id, name)
}

// Snapshots lists the snapshots of a context, oldest first.
func (m *Manager) Snapshots(ctx context.Context, id ID) ([]Snapshot, error) {
	return m.lives.ListSnapshots(ctx, id)
}

// Restore replaces the content of a context by a copy of a snapshot, in one step, after the operations on it have ended. Handles
// in the context become ESTALE. It fails with ENOENT if there is no such snapshot, and with EBUSY if operations do not end
// within 10 s. An error of unless, which may be nil, leaves the context as it is.
func (m *Manager) Restore(ctx context.Context, id ID, name string, unless Unless) (Info, error) {
	return m.changed(m.lives.Restore(ctx, id, name, unless))
}

// DeleteSnapshot removes a snapshot. It fails with ENOENT if there is none.
func (m *Manager) DeleteSnapshot(ctx context.Context, id ID, name string) error {
	return m.lives.DeleteSnapshot(ctx, id, name)
}

// SetLabels sets and removes labels of a context, and returns all that it has then. It fails with EINVAL, and changes nothing, if they are bad or
// too many; with ESTALE if the context is missing, and with EAGAIN if it is being seeded. It does not wait for operations in the context.
func (m *Manager) SetLabels(ctx context.Context, id ID, put map[string]string, remove []string) (map[string]string, error) {
	if _, err := m.cat.Find(ctx, id); err != nil {
		return nil, err
	}
	set, err := m.cat.Store.Contexts().SetLabels(ctx, string(id), func(old map[string]string) (map[string]string, error) {
		return labels.Apply(old, put, remove)
	})
	if errors.Is(err, metadata.ErrNotFound) { // deleted meanwhile
		return nil, catalog.Missing(id)
	}
	if err != nil {
		return nil, catalog.Wrap(id, "could not be labelled", err)
	}
	return set, nil
}

// Delete removes the folder, the snapshots, the record, its panels' bindings and their tokens. It works on a full disk. It fails
// with ESTALE if the context is missing, and with EBUSY if its operations do not end within 10 s. An error of unless, which may be nil, leaves the
// context as it is.
func (m *Manager) Delete(ctx context.Context, id ID, unless Unless) (Deleted, error) {
	return m.lives.Delete(ctx, id, unless)
}

// CollectGarbage removes what nothing refers to any more and, if asked to, contexts that have not been used for long. It returns
// each item that was removed, or could not be removed. It fails if it could not look for everything, with EAGAIN if contexts
// are being made or deleted all the time.
func (m *Manager) CollectGarbage(ctx context.Context, opts GarbageOptions) ([]Garbage, error) {
	return m.lives.CollectGarbage(ctx, opts)
}

// Repair rebuilds the records of folders that have none, drops records without folder (with their panels), and reports what the
// folders do not show. It fails with EAGAIN while another process seeds or deletes.
func (m *Manager) Repair(ctx context.Context) (RepairReport, error) { return m.lives.Repair(ctx) }

// Rebuild brings the records in line with the folders after the database was away, or lost its last commits, while contexts are in use.
func (m *Manager) Rebuild(ctx context.Context) (Rebuilt, error) { return m.cat.Rebuild(ctx) }

// IsUnrecorded reports whether a call failed because the database with the records does not answer.
func IsUnrecorded(err error) bool { return errors.Is(err, metadata.ErrUnavailable) }
