// Package seeding makes contexts on their first access. It owns the seedings that run (Flights), the layers of the workspace and
// of templates, and the pool of ready copies.
//
// All concurrent first accesses, in this process and in others, share one seeding, which outlives the caller that began it. A
// context is made in staging from a layer, and then renamed: it either does not exist or is complete.
package seeding

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/pool"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/labels"
)

// Config of New. All but the numbers, Templates and Owner are required.
type Config struct {
	Catalog *catalog.Catalog
	Life    *gate.Life
	Gates   *gate.Gates
	Flights *Flights
	Layers  *layer.Store
	// Source is the workspace.
	Source seed.Source
	// Seed says what is copied.
	Seed      seed.Options
	Templates TemplateOptions
	// Owner owns what is copied; nil means the server's user.
	Owner *rootfs.Owner
	// DiskReserve is the number of bytes that a seeding must leave free.
	DiskReserve int64
	// Pool is the number of ready copies, PoolMaxBytes the size of the largest layer that is copied; 0 means
	// DefaultPoolMaxBytes.
	Pool         int
	PoolMaxBytes int64
	// Zones returns the zones beside a panel's source; the zero Layout if there are none.
	Zones func(panel string) (zones.Layout, error)
}

// Seeder makes contexts.
type Seeder struct {
	Flights   *Flights
	Layers    *Layers
	Templates *Templates
	Pool      *Pool
	cat       *catalog.Catalog
	life      *gate.Life
	gates     *gate.Gates
	owner     *rootfs.Owner
	zones     func(panel string) (zones.Layout, error)
}

// New returns a Seeder.
func New(cfg Config) (*Seeder, error) {
	cat := cfg.Catalog
	resolver, err := template.NewResolver(cfg.Source, cfg.Templates.GitBase, git.Options{
		Scratch: cat.Layout.Staging, Timeout: cfg.Templates.Timeout, FetchTimeout: cfg.Templates.FetchTimeout,
	})
	if err != nil {
		return nil, err
	}
	s := &Seeder{cat: cat, life: cfg.Life, gates: cfg.Gates, Flights: cfg.Flights, Pool: newPool(cfg), owner: cfg.Owner, zones: cfg.Zones}
	s.Layers = &Layers{
		Store: cfg.Layers, cat: cat, life: cfg.Life, pool: s.Pool, source: cfg.Source, opts: cfg.Seed,
		owner: cfg.Owner, completions: map[string]*completion{},
	}
	s.Pool.complete = s.Layers.Complete
	s.Templates = &Templates{
		cat: cat, life: cfg.Life, flights: s.Flights, layers: s.Layers, pool: s.Pool, source: cfg.Source,
		resolver: resolver, resolved: map[string]*template.Resolved{},
		builder: template.NewBuilder(template.BuildOptions{
			Layers: cat.Layout.Layers, Staging: cat.Layout.Staging, Locks: cat.Layout.Locks, Owner: cfg.Owner,
			MaxFiles: cfg.Seed.MaxFiles, MaxBytes: cfg.Seed.MaxBytes, Now: cat.Now,
		}),
	}
	return s, nil
}

// Close closes the repositories of templates. No seeding runs any more.
func (s *Seeder) Close() error { return s.Templates.resolver.Close() }

// Request says what a caller of Ensure asks for.
type Request struct {
	// OwnerPanel is the panel that the ID was derived from; "" if the caller named the ID explicitly.
	OwnerPanel string
	// Spec says what the context is made of.
	Spec catalog.Spec
	// Labels are those that a new context gets. A context that is there does not get them.
	Labels map[string]string
}

// Ensure returns the record of a context that it makes ready if need be; seeded says that it waited for a seeding. Errors are those of
// contexts.Manager.Ensure.
func (s *Seeder) Ensure(ctx context.Context, id catalog.ID, req Request, progress func(Progress)) (rec metadata.Context, seeded bool, err error) {
	var f *flight
	for f == nil {
		landings := s.Flights.landed()
		if rec, ok, err := s.ready(ctx, id, req); ok || err != nil {
			return rec, false, err
		}
		if f, err = s.Flights.join(id, req, landings, s.fly); err != nil {
			return rec, false, err
		}
	}
	if err := f.wait(ctx, progress); err != nil {
		return rec, false, err
	}
	if f.owner == req.OwnerPanel && f.spec.Equal(req.Spec) {
		return f.rec, true, nil
	}
	// Another caller began the flight: the context has its owner and its Spec.
	rec, ok, err := s.ready(ctx, id, req)
	if err == nil && !ok {
		err = catalog.Missing(id)
	}
	return rec, true, err
}

// ready returns the record of a context that needs no seeding; ok is false if it needs one.
func (s *Seeder) ready(ctx context.Context, id catalog.ID, req Request) (rec metadata.Context, ok bool, err error) {
	if s.Flights.of(id) != nil {
		return rec, false, nil
	}
	if there, err := s.cat.FolderState(id); err == nil && there {
		s.gates.Opened(id) // a collection that has the lock must not remove what this caller waits for
	}
	unlock, err := s.gates.Opening(ctx, id)
	if err != nil {
		return rec, false, err
	}
	defer unlock()
	rec, err = s.cat.Find(ctx, id)
	if code := fserr.CodeOf(err); code == fserr.ESTALE || code == fserr.EAGAIN && !errors.Is(err, metadata.ErrUnavailable) {
		return rec, false, s.cat.MayOwn(ctx, id, req.OwnerPanel)
	}
	if err == nil && s.Flights.of(id) != nil { // it began meanwhile: the folder is there before the flight has landed
		return rec, false, nil
	}
	if err == nil && rec.State == metadata.ContextSeeding { // it was read before a flight landed that has updated it
		rec, err = s.cat.Find(ctx, id)
	}
	if err == nil {
		rec, err = s.admit(ctx, rec, req)
	}
	if err == nil {
		s.gates.Opened(id)
	}
	return rec, err == nil, err
}

// admit lets a request use a context that exists: it is made of what the request says, and the request's panel may own it.
func (s *Seeder) admit(ctx context.Context, rec metadata.Context, req Request) (metadata.Context, error) {
	if err := s.cat.Admit(catalog.ID(rec.ID), req.Spec); err != nil {
		return rec, err
	}
	return s.cat.Own(ctx, rec, req.OwnerPanel)
}

// fly makes the context of a flight. It continues even after all waiting callers have left.
func (s *Seeder) fly(f *flight) {
	done := s.Pool.seeding()
	defer done()
	f.rec, f.err = s.seed(s.life.Context, f)
}

// seed makes a context, unless another process has made it by the time that its lock is free.
func (s *Seeder) seed(ctx context.Context, f *flight) (rec metadata.Context, err error) {
	release, err := s.cat.Locks.Share(ctx, catalog.WorkLock)
	if err != nil {
		return rec, s.seedError(ctx, f.id, err)
	}
	defer release()
	unlock, err := s.cat.LockContext(ctx, f.id, func() { f.phase(PhaseWaiting) })
	if err != nil {
		return rec, s.seedError(ctx, f.id, err)
	}
	defer unlock()
	s.cat.Events.Step("locked")
	switch there, err := s.cat.FolderState(f.id); {
	case err != nil:
		return rec, err
	case there:
		return s.adopt(ctx, f)
	}
	if err := s.Layers.Check(ctx, f.spec.Scope()); err != nil {
		return rec, err
	}
	if rec, err = s.begin(ctx, f); err != nil {
		return rec, s.seedError(ctx, f.id, err)
	}
	return s.fill(ctx, f, rec)
}

// seedError returns an error that may reach a client. A stop of the server is no failure of the seeding.
func (s *Seeder) seedError(ctx context.Context, id catalog.ID, err error) error {
	if ctx.Err() != nil {
		return catalog.Stopped(id)
	}
	return catalog.Wrap(id, "could not be seeded", err)
}

// adopt uses the folder that another process made while this one waited.
func (s *Seeder) adopt(ctx context.Context, f *flight) (metadata.Context, error) {
	rec, err := s.cat.Find(ctx, f.id)
	if err == nil && rec.State != metadata.ContextReady {
		rec, err = s.cat.Settle(ctx, rec)
	}
	if err != nil {
		return rec, err
	}
	return s.admit(ctx, rec, Request{OwnerPanel: f.owner, Spec: f.spec})
}

// begin records that the context is being seeded.
func (s *Seeder) begin(ctx context.Context, f *flight) (metadata.Context, error) {
	if err := s.cat.Distinct(ctx, f.id); err != nil {
		return metadata.Context{}, err
	}
	old, ok, err := s.cat.Record(ctx, f.id)
	if err != nil {
		return old, err
	}
	if ok && f.spec.IsZero() { // a seeding that failed or was cut short
		if f.spec, err = s.cat.Spec(f.id); err != nil {
			return old, err
		}
	}
	if f.spec.Zones.Mode == "" && !ok {
		if err := s.zonesOf(f); err != nil {
			return old, err
		}
	}
	f.spec.Labels = f.labels
	if err := s.cat.KeepSpec(f.id, f.spec); err != nil {
		return old, err
	}
	rec := metadata.Context{
		ID: string(f.id), Explicit: f.owner == "", OwnerPanel: f.owner, State: metadata.ContextSeeding,
		Driver: s.cat.Drivers.New.Name(), Generation: max(1, s.gates.Floor(f.id)), CreatedAt: s.cat.Now().UTC(),
		Labels: f.labels,
	}
	if !ok {
		err = s.cat.Store.Contexts().Create(ctx, rec)
	} else {
		rec.Generation = max(rec.Generation, old.Generation+1)
		if old.OwnerPanel != "" || f.owner == "" {
			rec.OwnerPanel, rec.Explicit = old.OwnerPanel, old.Explicit
		}
		// The state of the old record says whose its labels are: a server that is killed now must leave it for the next one.
		if rec.Labels, err = s.label(ctx, f, old); err == nil {
			s.cat.Events.Step("labelled")
			err = s.cat.Store.Contexts().Update(ctx, rec)
		}
	}
	if errors.Is(err, metadata.ErrConflict) {
		return rec, catalog.Collides(f.id, "another")
	}
	s.cat.Events.Step("recorded")
	return rec, err
}

// label gives the labels of a seeding to a record that an earlier one left, and returns all labels of the record. Those of a context that was
// ready, and whose folder is gone, went with it.
func (s *Seeder) label(ctx context.Context, f *flight, left metadata.Context) (map[string]string, error) {
	deleted := left.State == metadata.ContextReady
	if labels.Has(left.Labels, f.labels) && (!deleted || len(left.Labels) == 0) {
		return left.Labels, nil
	}
	return s.cat.Store.Contexts().SetLabels(ctx, string(f.id), func(old map[string]string) (map[string]string, error) {
		if deleted {
			old = nil
		}
		return labels.Apply(old, f.labels, nil)
	})
}

// zonesOf gives a new context the zones beside its panel's source.
func (s *Seeder) zonesOf(f *flight) error {
	p, err := catalog.ParseID(string(f.id))
	if err != nil || f.owner == "" || p.Mode == catalog.ModeUnsafe {
		return err
	}
	layout, err := s.zones(f.owner)
	if err != nil || layout.Mode == "" {
		return err
	}
	if f.spec, err = catalog.NewSpec(f.spec.From, layout); err != nil {
		return err
	}
	return f.spec.Fits(f.id)
}

// fill makes the folder and records how that ended, even if the server stops.
func (s *Seeder) fill(ctx context.Context, f *flight, rec metadata.Context) (metadata.Context, error) {
	start := s.cat.Now()
	err := s.make(ctx, f, &rec)
	rec.SeededIn = s.cat.Now().Sub(start)
	log := s.cat.Log.With(zap.String("context", rec.ID))
	if err != nil {
		err = s.seedError(ctx, f.id, err)
		rec.State, rec.LastError = metadata.ContextFailed, err.Error()
		log.Warn("seeding failed", zap.Error(err))
	} else {
		f.phase(PhaseRecord)
		rec.State = metadata.ContextReady
	}
	// A folder that was made is complete. Whatever the record says, also after a power failure, the next access finds the context ready.
	if e := s.cat.Store.Contexts().Update(metadata.Later(context.WithoutCancel(ctx)), rec); e != nil {
		log.Warn("the end of a seeding could not be recorded", zap.Error(e))
	}
	s.cat.Events.Seeded(rec.Driver, rec.SeededIn, err)
	if err != nil {
		return rec, err
	}
	s.gates.Opened(f.id) // the lock is still held: a collection must not find the context idle since its seeding began
	s.cat.Events.Step("ready")
	log.Info("context seeded", zap.Int64("files", rec.Files), zap.Int64("bytes", rec.Bytes), zap.Duration("took", rec.SeededIn),
		zap.String("layer", rec.Layer), zap.String("pool", f.pool))
	return rec, nil
}

// make fills a staging directory and renames it to the context's place.
func (s *Seeder) make(ctx context.Context, f *flight, rec *metadata.Context) error {
	defer func() { f.clear(s.cat.Staging) }()
	l, err := s.layerFor(ctx, f)
	if err != nil {
		return err
	}
	made, err := f.folder(s.cat.Staging)
	if err != nil {
		return err
	}
	place, err := s.cat.Drivers.PlaceFor(rec.Driver, f.id)
	if err != nil {
		return err
	}
	if err := s.makeAt(ctx, f, l, made); err != nil {
		return err
	}
	manifest := ""
	if l != nil {
		rec.Layer, rec.Files, rec.Bytes, manifest = l.Digest, l.Manifest.Files, l.Manifest.Bytes, l.ManifestFile
	}
	s.cat.Events.Step("copied")
	if err := s.cat.Events.Copied("", string(f.id), seed.MarksFile(made)); err != nil {
		return err
	}
	if err := s.cat.Publish(ctx, f.id, f.spec, made, place, manifest, f.pool == pool.Hit); err != nil {
		return err
	}
	s.cat.Events.Step("renamed")
	if l != nil && s.Layers.Packed(l.Digest) {
		s.Layers.completeLater(l.Digest)
	}
	return nil
}

// layerFor returns the layer that a context is made from, nil if the context starts empty.
func (s *Seeder) layerFor(ctx context.Context, f *flight) (*layer.Layer, error) {
	p, err := catalog.ParseID(string(f.id))
	switch {
	case err != nil || p.Mode == catalog.ModeUnsafe:
		return nil, err
	case p.TemplateHash != "":
		return s.Templates.layerFor(ctx, f, p.TemplateHash)
	}
	return s.Layers.current(ctx, f)
}

// makeAt makes the context's folder, or its state if its driver mounts.
func (s *Seeder) makeAt(ctx context.Context, f *flight, l *layer.Layer, dst string) error {
	d := s.cat.Drivers.New
	if _, mounts := d.(driver.Mounter); mounts {
		if err := os.Mkdir(dst, 0o700); err != nil {
			return err
		}
		if l == nil {
			f.phase(PhaseCopying)
			return d.Prepare(ctx, "", dst, nil)
		}
		return s.fromLayer(ctx, f, l, dst)
	}
	if f.filled {
		f.pool = pool.Miss
		s.cat.Events.Step("copying")
		return nil
	}
	if s.Pool.claim(ctx, f, l, dst) {
		return nil
	}
	if err := makeTop(dst, s.owner); err != nil || l == nil {
		return err
	}
	return s.fromLayer(ctx, f, l, dst)
}

// fromLayer has the driver fill dst. While a layer is packed, a plain folder is filled from the pack.
func (s *Seeder) fromLayer(ctx context.Context, f *flight, l *layer.Layer, dst string) error {
	f.phase(PhaseCopying)
	f.totals(l.Manifest.Files, l.Manifest.Bytes)
	s.cat.Events.Step("copying")
	progress := func(p driver.Progress) {
		f.counts(p.Files, p.Bytes)
		if p.Files == l.Manifest.Files/2 {
			s.cat.Events.Step("copying-midway")
		}
	}
	if err := s.fillFrom(ctx, l, dst, progress); err != nil {
		return err
	}
	if _, mounts := s.cat.Drivers.New.(driver.Mounter); !mounts {
		markCopy(ctx, s.cat, l, dst)
	}
	return nil
}

// fillFrom fills dst from a layer's tree or pack.
func (s *Seeder) fillFrom(ctx context.Context, l *layer.Layer, dst string, progress func(driver.Progress)) error {
	if s.Layers.Packed(l.Digest) {
		if _, plain := s.cat.Drivers.New.(driver.Sparer); plain {
			err := s.Layers.Unpack(ctx, l, dst, layer.UnpackOptions{
				Workers: s.Layers.opts.Workers, Progress: func(p tree.CopyProgress) { progress(driver.Progress(p)) },
			})
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		} else if err := s.Layers.Complete(ctx, l.Digest); err != nil {
			return err
		}
	}
	return s.cat.Drivers.New.Prepare(ctx, l.Tree, dst, progress)
}

// markCopy keeps which files of a new copy of a layer are unchanged: all. Without that the first comparison reads them.
func markCopy(ctx context.Context, cat *catalog.Catalog, l *layer.Layer, folder string) {
	marks, err := seed.MarksOf(ctx, folder, l.Manifest)
	if err == nil {
		err = marks.Write(seed.MarksFile(folder), l.Digest)
	}
	if err != nil {
		cat.Log.Info("the files of a new copy could not be marked as unchanged", zap.Error(err))
	}
}
