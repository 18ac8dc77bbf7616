package seeding

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// Layers builds the layers of the workspace.
type Layers struct {
	*layer.Store
	cat    *catalog.Catalog
	life   *gate.Life
	pool   *Pool
	source seed.Source
	opts   seed.Options
	// turn has room for the seeding that scans the workspace and may build a layer. The next one finds that layer.
	turn chan struct{}
}

// current returns a layer that equals the workspace, or nil if there is nothing to copy. It builds one if the last one no longer
// equals the workspace.
func (l *Layers) current(ctx context.Context, f *flight) (*layer.Layer, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	scan, err := l.scan(ctx, f)
	if err != nil || len(scan.Entries) == 0 {
		return nil, err
	}
	current, err := l.Current()
	if err != nil {
		return nil, err
	}
	copies := copiesPer(l.cat.Drivers.New)
	holds := current != nil && current.Manifest.Holds(scan)
	if !holds {
		copies++
	}
	if err := l.pool.MakeRoom(seedOf(f.id), spaceFor(scan.Entries)*copies); err != nil {
		return nil, err
	}
	if holds {
		return current, nil
	}
	return l.build(ctx, f, scan)
}

// Scan lists what a seeding now would copy, within the limits.
func (l *Layers) Scan(ctx context.Context) (*seed.Scan, error) { return l.walk(ctx, nil) }

// walk scans the workspace, and fails with EFBIG beyond the limits. progress may be nil.
func (l *Layers) walk(ctx context.Context, progress func(files, bytes int64)) (*seed.Scan, error) {
	scan, err := seed.Walk(ctx, l.source, l.opts, progress)
	if err != nil {
		return nil, err
	}
	return scan, seed.Guard(scan, l.opts)
}

func (l *Layers) scan(ctx context.Context, f *flight) (*seed.Scan, error) {
	f.phase(PhaseScanning)
	l.cat.Events.Step("scanning")
	scan, err := l.walk(ctx, f.counts)
	if err != nil {
		return nil, err
	}
	if len(scan.Unreadable) > 0 {
		l.cat.Log.Warn("the server may not read some folders of the workspace; they are left out", zap.Strings("folders", scan.Unreadable))
	}
	f.totals(scan.Files, scan.Bytes)
	l.cat.Events.Step("scanned")
	return scan, nil
}

func (l *Layers) build(ctx context.Context, f *flight, scan *seed.Scan) (built *layer.Layer, err error) {
	f.phase(PhaseLayering)
	f.totals(scan.Files, scan.Bytes)
	l.cat.Events.Step("layering")
	_, links := l.cat.Drivers.New.(driver.Linker)
	err = l.cat.Staging.With("layer", func(staged string) error {
		built, err = l.Build(ctx, l.source, scan, layer.BuildOptions{
			Repos: seed.Describe(ctx, l.source, scan.Repos), Staging: staged, Workers: l.opts.Workers, Link: links,
			Progress:   func(p tree.CopyProgress) { f.counts(p.Files, p.Bytes) },
			Manifested: func() { l.cat.Events.Step("layer-manifested") },
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.cat.Events.Step("layered")
	l.record(ctx, built, "workspace")
	f.closing = make(chan error, 1)
	l.life.Go(func() { f.closing <- l.closingWalk(ctx, built) })
	return built, nil
}

// record stores a layer's record. The directory decides whether the layer exists, so a failure only costs a listing.
func (l *Layers) record(ctx context.Context, made *layer.Layer, kind string) {
	err := l.cat.Store.Layers().Put(ctx, metadata.Layer{
		Digest: made.Digest, Kind: kind, Files: made.Manifest.Files, Bytes: made.Manifest.Bytes, CreatedAt: l.cat.Now().UTC(),
	})
	if err != nil {
		l.cat.Log.Warn("a layer could not be recorded", zap.String("layer", made.Digest), zap.Error(err))
	}
}

// Forget removes the record of a layer that was removed.
func (l *Layers) Forget(ctx context.Context, digest string) {
	if err := l.cat.Store.Layers().Delete(ctx, digest); err != nil {
		l.cat.Log.Debug("a removed layer had no record", zap.String("layer", digest), zap.Error(err))
	}
}

// closingWalk marks a layer stale if the workspace changed while it was copied: this context is made from it, the next one is
// not.
func (l *Layers) closingWalk(ctx context.Context, made *layer.Layer) error {
	scan, err := seed.Walk(ctx, l.source, l.opts, nil)
	if err == nil && len(made.Unstable) == 0 && made.Manifest.Holds(scan) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.cat.Log.Info("the workspace changed while it was copied", zap.String("layer", made.Digest), zap.Strings("unstable", made.Unstable))
	return l.MarkStale(made)
}

// PlanOptions of Plan.
type PlanOptions struct {
	// Largest is the number of largest directories to name; 0 means 10.
	Largest int
}

// Plan says what a seeding would copy.
type Plan struct {
	// Repositories lists the workspace's repositories, relative, slash-separated; "." is the workspace itself.
	Repositories []seed.Repository
	Files, Bytes int64
	// Largest lists the largest top directories, largest first.
	Largest []seed.DirSize
	// Skipped counts the entries that excludes and ignore files left out, by reason: ".git", "node_modules", ".contextignore".
	Skipped []seed.Skipped
	// TooLarge says why the size guard would refuse the seeding, and the remedies; "" if it would not.
	TooLarge string
}

// Plan scans the workspace, and copies nothing.
func (l *Layers) Plan(ctx context.Context, opts PlanOptions) (Plan, error) {
	return PlanSeed(ctx, l.source, l.opts, opts)
}

// PlanSeed reports what a seeding from a workspace now would copy. It needs no state directory, and changes nothing.
func PlanSeed(ctx context.Context, source seed.Source, settings seed.Options, opts PlanOptions) (Plan, error) {
	scan, err := seed.Walk(ctx, source, settings, nil)
	if err != nil {
		return Plan{}, err
	}
	if opts.Largest <= 0 {
		opts.Largest = 10
	}
	p := Plan{
		Repositories: seed.Describe(ctx, source, scan.Repos), Files: scan.Files, Bytes: scan.Bytes,
		Largest: scan.Dirs[:min(opts.Largest, len(scan.Dirs))], Skipped: scan.Skipped,
	}
	if err := seed.Guard(scan, settings); err != nil {
		p.TooLarge = strings.TrimPrefix(err.Error(), fserr.EFBIG.String()+": ")
	}
	return p, nil
}

// blockSize is the space of a small file on the file systems that we know.
const blockSize = 4096

// spaceFor estimates the bytes that one copy of the entries takes.
func spaceFor(entries []seed.Entry) int64 {
	var n int64
	for _, e := range entries {
		n += (e.Size+blockSize-1)/blockSize*blockSize + blockSize/8
	}
	return n
}

// copiesPer is the number of copies of its layer that a new context takes.
func copiesPer(d driver.Driver) int64 {
	if _, ok := d.(driver.Mounter); ok {
		return 0
	}
	return 1
}

// seedOf says for what a seeding needs space.
func seedOf(id catalog.ID) string { return fmt.Sprintf("seed context '%s'", id) }
