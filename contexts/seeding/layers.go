package seeding

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
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
	// turns let one seeding of each scope scan the workspace and perhaps build a layer. The next one finds that layer.
	turns turns
	// owner owns what is copied; nil means the server's user.
	owner *rootfs.Owner

	mu          sync.Mutex
	completions map[string]*completion
}

// turns are locks by the key of a scope.
type turns struct {
	mu sync.Mutex
	by map[string]*turn
}

// turn has room for its holder; users counts that one and those that wait.
type turn struct {
	room  chan struct{}
	users int
}

// take waits for the turn of a scope until ctx ends. The caller must call done.
func (t *turns) take(ctx context.Context, scope seed.Scope) (done func(), err error) {
	key := scope.Key()
	t.mu.Lock()
	if t.by == nil {
		t.by = map[string]*turn{}
	}
	one := t.by[key]
	if one == nil {
		one = &turn{room: make(chan struct{}, 1)}
		t.by[key] = one
	}
	one.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.by, key)
		}
	}
	select {
	case one.room <- struct{}{}:
		return func() { <-one.room; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// current returns a layer that equals the scope's part of the workspace, or nil if there is nothing to copy. It builds one if the last one
// of the scope no longer equals the workspace.
func (l *Layers) current(ctx context.Context, f *flight) (*layer.Layer, error) {
	scope := f.spec.Scope()
	done, err := l.turns.take(ctx, scope)
	if err != nil {
		return nil, err
	}
	defer done()
	scan, err := l.scan(ctx, f, scope)
	if err != nil || len(scan.Entries)+len(scope.Tops()) == 0 {
		return nil, err
	}
	current, err := l.Current(scope)
	if err != nil {
		return nil, err
	}
	holds := current != nil && current.Manifest.Holds(scan)
	both := !holds && l.together(scope)
	copies := copiesPer(l.cat.Drivers.New)
	if !holds {
		copies++
	}
	need := spaceFor(scan.Entries) * copies
	if both {
		need += scan.Bytes // the pack, until the tree is written
	}
	if err := l.pool.MakeRoom(seedOf(f.id), need); err != nil {
		return nil, err
	}
	if holds {
		return current, nil
	}
	return l.build(ctx, f, scope, scan, both)
}

// together reports whether a new layer is packed while the context's folder is made. Where files share their extents a second copy takes
// no space, and a pack would. After a layer that has a tree, most files are links to it or come from the pool.
func (l *Layers) together(scope seed.Scope) bool {
	if _, plain := l.cat.Drivers.New.(driver.Sparer); !plain || l.pool.cheap() {
		return false
	}
	return !l.HasTree(scope)
}

// Scan lists what a seeding of a scope now would copy, within the limits.
func (l *Layers) Scan(ctx context.Context, scope seed.Scope) (*seed.Scan, error) {
	return l.walk(ctx, scope, nil)
}

// Check fails with EINVAL if a scope names folders that are not in the workspace.
func (l *Layers) Check(ctx context.Context, scope seed.Scope) error {
	return seed.CheckFrom(ctx, l.source, l.of(scope))
}

// of returns the options of a scope.
func (l *Layers) of(scope seed.Scope) seed.Options {
	opts := l.opts
	opts.Scope = scope
	return opts
}

// walk scans a scope's part of the workspace, and fails with EFBIG beyond the limits. progress may be nil.
func (l *Layers) walk(ctx context.Context, scope seed.Scope, progress func(files, bytes int64)) (*seed.Scan, error) {
	scan, err := seed.Walk(ctx, l.source, l.of(scope), progress)
	if err != nil {
		return nil, err
	}
	return scan, seed.Guard(scan, l.opts)
}

func (l *Layers) scan(ctx context.Context, f *flight, scope seed.Scope) (*seed.Scan, error) {
	f.phase(PhaseScanning)
	l.cat.Events.Step("scanning")
	scan, err := l.walk(ctx, scope, f.counts)
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

// build makes a new layer of what the scan found. With both, it fills the context's folder too.
func (l *Layers) build(ctx context.Context, f *flight, scope seed.Scope, scan *seed.Scan, both bool) (built *layer.Layer, err error) {
	f.phase(PhaseLayering)
	f.totals(scan.Files, scan.Bytes)
	l.cat.Events.Step("layering")
	_, links := l.cat.Drivers.New.(driver.Linker)
	opts := layer.BuildOptions{
		Scope: scope, Repos: l.describe(ctx, scan.Repos, scope), Workers: l.opts.Workers, Link: links,
		Progress:   func(p tree.CopyProgress) { f.counts(p.Files, p.Bytes) },
		Manifested: func() { l.cat.Events.Step("layer-manifested") },
	}
	if both {
		if opts.Folder, err = f.folder(l.cat.Staging); err != nil {
			return nil, err
		}
		if err := makeTop(opts.Folder, l.owner); err != nil {
			return nil, err
		}
		opts.Midway = func() { l.cat.Events.Step("copying-midway") }
	}
	err = l.cat.Staging.With("layer", func(staged string) error {
		opts.Staging = staged
		built, err = l.Build(ctx, l.source, scan, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	if f.filled = both; both {
		if err := built.Marks.Write(seed.MarksFile(opts.Folder), built.Digest); err != nil {
			l.cat.Log.Info("the files of a new copy could not be marked as unchanged", zap.Error(err))
		}
	}
	l.cat.Events.Step("layered")
	l.record(ctx, built, "workspace")
	l.life.Go(func() { l.closingWalk(ctx, built) })
	return built, nil
}

// describe asks git about the repositories while the files are copied. The result waits for the answers.
func (l *Layers) describe(ctx context.Context, repos []string, scope seed.Scope) func() []seed.Repository {
	answers := make(chan []seed.Repository, 1)
	l.life.Go(func() { answers <- seed.Describe(ctx, l.source, repos, scope) })
	return func() []seed.Repository { return <-answers }
}

// completion is a layer's tree being written.
type completion struct {
	done chan struct{}
	// err is set before done is closed.
	err error
}

// Complete waits until a layer has its tree, and has it written if need be. A layer that does not exist is no error.
func (l *Layers) Complete(ctx context.Context, digest string) error {
	switch {
	case digest == "":
		return nil
	case !l.Packed(digest):
		return l.DropPack(digest) // a kill may have left it beside the tree
	}
	l.mu.Lock()
	c := l.completions[digest]
	if c == nil {
		c = &completion{done: make(chan struct{})}
		if !l.life.Start(func() { l.complete(digest, c) }) {
			l.mu.Unlock()
			return fserr.ECANCELED
		}
		l.completions[digest] = c
	}
	l.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Layers) complete(digest string, c *completion) {
	c.err = l.writeTree(l.life.Context, digest)
	l.mu.Lock()
	delete(l.completions, digest)
	l.mu.Unlock()
	close(c.done)
}

// writeTree writes the tree of a packed layer. It holds the work lock for a moment only, so that garbage need not wait for it.
func (l *Layers) writeTree(ctx context.Context, digest string) error {
	made, err := l.Load(digest)
	if err != nil {
		return err
	}
	if err := l.pool.MakeRoom("complete a layer", spaceFor(made.Manifest.Entries)); err != nil {
		return err
	}
	staged, unlock, err := l.stage(ctx)
	if err != nil {
		return err
	}
	defer l.cat.Staging.Discard(staged)
	defer unlock()
	return l.Store.Complete(ctx, made, staged, layer.UnpackOptions{Workers: l.opts.Workers}, l.cat.Events.Step)
}

// stage makes a staging directory whose lock keeps a collection of garbage from taking it.
func (l *Layers) stage(ctx context.Context) (dir string, unlock func(), err error) {
	release, err := l.cat.Locks.Share(ctx, catalog.WorkLock)
	if err != nil {
		return "", nil, err
	}
	defer release()
	if dir, err = l.cat.Staging.Make("tree"); err != nil {
		return "", nil, err
	}
	if unlock, err = catalog.LockDirectory(ctx, dir); err != nil {
		l.cat.Staging.Discard(dir)
	}
	return dir, unlock, err
}

// completeLater has a layer's tree written when no seeding runs.
func (l *Layers) completeLater(digest string) {
	l.life.Go(func() {
		ctx := l.life.Context
		if l.pool.turn(ctx) != nil {
			return
		}
		if err := l.Complete(ctx, digest); err != nil && ctx.Err() == nil {
			l.cat.Log.Warn("a layer's tree could not be written; the next use tries again", zap.String("layer", digest), zap.Error(err))
		}
	})
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

// closingWalk marks a layer stale if the workspace changed while it was copied. The first context is made from it; the next one is
// not, also if it begins before the end of this walk, since its own scan does not equal the manifest.
func (l *Layers) closingWalk(ctx context.Context, made *layer.Layer) {
	scan, err := seed.Walk(ctx, l.source, l.of(made.Manifest.Scope), nil)
	if ctx.Err() != nil || (err == nil && len(made.Unstable) == 0 && made.Manifest.Holds(scan)) {
		return
	}
	log := l.cat.Log.With(zap.String("layer", made.Digest))
	log.Info("the workspace changed while it was copied", zap.Strings("unstable", made.Unstable))
	if err := l.MarkStale(made); err != nil {
		log.Warn("the layer could not be marked as stale", zap.Error(err))
	}
}

// PlanOptions of Plan.
type PlanOptions struct {
	// Largest is the number of largest directories to name; 0 means 10.
	Largest int
	// From are the folders of the scope; nil means all repositories.
	From []string
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
	from, err := seed.CleanFrom(opts.From)
	if err != nil {
		return Plan{}, err
	}
	settings.Scope = seed.Scope{From: from}
	scan, err := seed.Walk(ctx, source, settings, nil)
	if err != nil {
		return Plan{}, err
	}
	if opts.Largest <= 0 {
		opts.Largest = 10
	}
	p := Plan{
		Repositories: seed.Describe(ctx, source, scan.Repos, settings.Scope), Files: scan.Files, Bytes: scan.Bytes,
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
