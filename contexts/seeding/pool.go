package seeding

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/pool"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// DefaultPoolMaxBytes is the default of Config.PoolMaxBytes.
const DefaultPoolMaxBytes = 1 << 30

// QuietTime bounds how long background work waits until no context is made or deleted.
const QuietTime = 5 * time.Second

// Pool keeps ready copies of the current layer of all repositories. It fills in the background, one copy at a time, never while a seeding runs, and
// gives copies up when the disk is short.
type Pool struct {
	*pool.Pool
	cat    *catalog.Catalog
	life   *gate.Life
	layers *layer.Store
	owner  *rootfs.Owner
	// size is the number of copies, maxBytes the size of the largest layer that is copied.
	size     int
	maxBytes int64
	// reserve is the number of bytes that must stay free on the disk.
	reserve int64
	// driver makes the copies; nil if there is no pool to fill.
	driver driver.Sparer
	// complete waits until a layer has its tree.
	complete func(ctx context.Context, digest string) error
	// wake has room for one.
	wake chan struct{}
	// cheap reports whether copies share the layer's extents. It finds out once.
	cheap func() bool

	mu sync.Mutex
	// seedings counts those that run, halts the callers of Halt; quiet is closed while both are 0.
	seedings, halts int
	quiet           chan struct{}
	// stop ends the filling that runs, ended is closed when it has ended.
	stop  context.CancelFunc
	ended chan struct{}
}

func newPool(cfg Config) *Pool {
	cat := cfg.Catalog
	p := &Pool{
		Pool: pool.New(cat.Layout.Pool, cfg.Layers, cfg.Owner), cat: cat, life: cfg.Life, layers: cfg.Layers, owner: cfg.Owner,
		size: cfg.Pool, maxBytes: cfg.PoolMaxBytes, reserve: cfg.DiskReserve,
		cheap: sync.OnceValue(func() bool { return disk.SharesExtents(cat.Staging.Dir) }),
		wake:  make(chan struct{}, 1), quiet: make(chan struct{}),
	}
	close(p.quiet)
	if p.maxBytes == 0 {
		p.maxBytes = DefaultPoolMaxBytes
	}
	if p.size > 0 {
		p.driver, _ = cat.Drivers.New.(driver.Sparer)
	}
	return p
}

// busy counts a seeding, or a caller of Halt, until done is called.
func (p *Pool) busy(count *int) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seedings+p.halts == 0 {
		p.quiet = make(chan struct{})
	}
	*count++
	return func() {
		p.mu.Lock()
		*count--
		if p.seedings+p.halts == 0 {
			close(p.quiet)
		}
		p.mu.Unlock()
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// seeding holds the filling up until done is called.
func (p *Pool) seeding() (done func()) { return p.busy(&p.seedings) }

// Halt cancels the filling that runs, waits for its end, and keeps others from beginning until resume. It fails if ctx ends first.
func (p *Pool) Halt(ctx context.Context) (resume func(), err error) {
	resume = p.busy(&p.halts)
	p.mu.Lock()
	stop, ended := p.stop, p.ended
	p.mu.Unlock()
	if stop == nil {
		return resume, nil
	}
	stop()
	select {
	case <-ended:
		return resume, nil
	case <-ctx.Done():
		resume()
		return nil, ctx.Err()
	}
}

// turn waits until no seeding runs and the pool is not halted.
func (p *Pool) turn(ctx context.Context) error {
	for {
		p.mu.Lock()
		quiet := p.quiet
		free := p.seedings+p.halts == 0
		p.mu.Unlock()
		if free {
			return ctx.Err()
		}
		select {
		case <-quiet:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin returns the context of one filling; ok is false while it may not begin.
func (p *Pool) begin(ctx context.Context) (_ context.Context, end func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seedings+p.halts > 0 {
		return nil, nil, false
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	p.stop, p.ended = stop, ended
	return ctx, func() {
		stop()
		p.mu.Lock()
		p.stop, p.ended = nil, nil
		p.mu.Unlock()
		close(ended)
	}, true
}

// Start gives copies up if the disk is short, and begins to keep the pool filled.
func (p *Pool) Start() {
	p.yield()
	if p.driver != nil {
		p.life.Go(p.keep)
	}
}

// yieldEvery is how often keep looks at the disk.
const yieldEvery = 2 * time.Second

// keep fills the pool whenever a seeding has ended, and gives copies up when the disk is short.
func (p *Pool) keep() {
	lowerPriority()
	ctx := p.life.Context
	look := time.NewTicker(yieldEvery)
	defer look.Stop()
	for {
		select {
		case <-p.wake:
		case <-look.C:
			p.yield()
			continue
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			if p.turn(ctx) != nil {
				return
			}
			var err error
			if more, err = p.fill(); err != nil && ctx.Err() == nil {
				p.cat.Log.Warn("the pool could not be filled", zap.Error(err))
			}
		}
	}
}

// fill makes one copy, or drops one that is not needed; more reports whether there is more to do.
func (p *Pool) fill() (more bool, err error) {
	ctx, end, ok := p.begin(p.life.Context)
	if !ok {
		return true, nil
	}
	defer end()
	release, err := p.cat.Locks.Share(ctx, catalog.WorkLock)
	if err != nil {
		return false, err
	}
	defer release()
	cur, err := p.layers.Current(seed.Scope{})
	if cur == nil || err != nil {
		return false, err
	}
	all, err := p.List()
	if err != nil {
		return false, err
	}
	others, err := p.Others(cur.Digest)
	if err != nil {
		return false, err
	}
	room := p.hasRoom(cur, len(others) > 0)
	switch {
	case len(all)-len(others) < p.size && room:
		err = p.add(ctx, cur)
	case len(others) > 0:
		err = p.drop(ctx, others[0].Name)
	default:
		return false, nil
	}
	if ctx.Err() != nil { // it was halted, and will be woken
		return false, nil
	}
	return err == nil, err
}

// hasRoom reports whether a copy of a layer may be made: it is not too big, and leaves the reserve.
func (p *Pool) hasRoom(l *layer.Layer, replaces bool) bool {
	if p.cheap() {
		return true
	}
	if l.Manifest.Bytes > p.maxBytes {
		return false
	}
	free, err := disk.Free(p.cat.Staging.Dir)
	return err != nil || replaces || free-spaceFor(l.Manifest.Entries) >= p.short()
}

// short is the free space, in bytes, below which the pool gives copies up.
func (p *Pool) short() int64 { return max(p.reserve, disk.Full) }

// yield gives up copies until the disk is no longer short, or none is left. While a seeding runs it leaves that to MakeRoom.
func (p *Pool) yield() {
	ctx, end, ok := p.begin(p.life.Context)
	if !ok {
		return
	}
	defer end()
	dir := p.cat.Staging.Dir
	short := func() bool {
		free, err := disk.Free(dir)
		return err == nil && free < p.short() || disk.LacksInodes(dir)
	}
	if !short() || p.cheap() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, QuietTime)
	defer cancel()
	release, err := p.cat.Locks.Share(ctx, catalog.WorkLock)
	if err != nil {
		return // the server stops, or another process sweeps
	}
	defer release()
	for short() && p.giveUp(ctx) {
		continue
	}
}

// add puts a copy of l into the pool: one of another layer brought up to date, or a new one.
func (p *Pool) add(ctx context.Context, l *layer.Layer) error {
	if err := p.complete(ctx, l.Digest); err != nil {
		return err
	}
	return p.cat.Staging.With("pool", func(staged string) error {
		made := filepath.Join(staged, "folder")
		how := pool.Miss
		if others, err := p.Others(l.Digest); err == nil && len(others) > 0 {
			how, err = p.ClaimOther(ctx, l, made)
			p.logDropped(err)
		}
		if how == pool.Miss {
			if err := makeTop(made, p.owner); err != nil {
				return err
			}
			if err := p.driver.PrepareSpare(ctx, l.Tree, made, func(driver.Progress) { _ = p.turn(ctx) }); err != nil {
				return err
			}
			markCopy(ctx, p.cat, l, made)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return p.Put(made, l.Digest)
	})
}

func (p *Pool) logDropped(err error) {
	if err != nil {
		p.cat.Log.Info("a copy of the pool is dropped", zap.Error(err))
	}
}

// drop removes a copy. It makes no directory, for which a full disk may have no room.
func (p *Pool) drop(ctx context.Context, name string) error {
	return p.Remove(ctx, name, filepath.Join(p.cat.Staging.Dir, fmt.Sprintf("pool-%s-%x", name, rand.Uint64())))
}

// giveUp drops any copy, and reports whether there was one.
func (p *Pool) giveUp(ctx context.Context) bool {
	all, err := p.List()
	if err != nil || len(all) == 0 {
		return false
	}
	last := all[len(all)-1].Name
	if err := p.drop(ctx, last); ctx.Err() != nil {
		return false // the next start removes what is left of it
	} else if err != nil {
		p.cat.Log.Warn("a copy of the pool could not be given up", zap.Error(err))
		return false
	}
	p.cat.Log.Info("a copy of the pool is given up: the disk is short", zap.String("copy", last))
	return true
}

// MakeRoom fails with ENOSPC if something needs so many bytes that the disk reserve would not stay free. It gives up copies of the
// pool first.
func (p *Pool) MakeRoom(what string, need int64) error {
	free, err := disk.Free(p.cat.Staging.Dir)
	for err == nil && free-need < p.reserve && p.giveUp(p.life.Context) {
		free, err = disk.Free(p.cat.Staging.Dir)
	}
	if err != nil {
		return nil //nolint:nilerr // if the free space is unknown, the copy itself will fail
	}
	if free-need >= p.reserve {
		return nil
	}
	return &fserr.Error{
		Code: fserr.ENOSPC, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("no space to %s: it needs about %s and must leave %s, %s are free",
			what, seed.Size(need), seed.Size(p.reserve), seed.Size(max(free, 0))),
		Hint: "free space, delete a context, or lower --disk-reserve",
	}
}

// claim takes a context's folder from the pool, whose copies are of all repositories. It returns false if the driver must make the folder.
func (p *Pool) claim(ctx context.Context, f *flight, l *layer.Layer, folder string) bool {
	if p.driver == nil || l == nil || l.Manifest.Template != "" || !l.Manifest.Scope.IsZero() || p.layers.Packed(l.Digest) {
		return false
	}
	how, err := p.Claim(ctx, l, folder)
	p.logDropped(err)
	f.pool = how
	if how == pool.Miss {
		return false
	}
	f.phase(PhaseCopying)
	f.counts(l.Manifest.Files, l.Manifest.Bytes)
	p.cat.Events.Step("claimed")
	return true
}

// Garbage lists the copies that are not of the current layer; all copies if there is no current layer, or no pool.
func (p *Pool) Garbage() ([]pool.Copy, error) {
	cur, err := p.layers.Current(seed.Scope{})
	if err != nil {
		return nil, fmt.Errorf("find the current layer: %w", err)
	}
	if cur == nil || p.driver == nil {
		return p.List()
	}
	return p.Others(cur.Digest)
}

// makeTop makes an empty folder for a context.
func makeTop(folder string, owner *rootfs.Owner) error {
	if err := os.Mkdir(folder, 0o755); err != nil || owner == nil {
		return err
	}
	return os.Lchown(folder, owner.UID, owner.GID)
}
