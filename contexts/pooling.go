package contexts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/pool"
)

// DefaultPoolMaxBytes is Config.PoolMaxBytes when that is 0.
const DefaultPoolMaxBytes = 1 << 30

// pooling fills the pool in the background: one copy at a time, never while a seeding is under way.
type pooling struct {
	*pool.Pool
	// driver makes the copies; nil when there is no pool to fill.
	driver driver.Sparer
	// wake has room for one.
	wake chan struct{}

	mu sync.Mutex
	// seedings counts those that run, halts who wants nothing to be filled; quiet is closed while both are 0.
	seedings, halts int
	quiet           chan struct{}
	// stop ends the filling that runs, ended is closed when it has.
	stop  context.CancelFunc
	ended chan struct{}
	// cheap tells that copies share the layer's extents; found out once.
	cheap func() bool
}

func newPooling(cfg Config, l Layout, layers *layer.Store) *pooling {
	p := &pooling{Pool: pool.New(l.Pool, layers, cfg.Owner), wake: make(chan struct{}, 1), quiet: make(chan struct{})}
	close(p.quiet)
	p.cheap = sync.OnceValue(func() bool { return sharesExtents(l.Staging) })
	if cfg.Pool > 0 {
		p.driver, _ = cfg.Driver.(driver.Sparer)
	}
	return p
}

// busy says that a seeding, or somebody who wants nothing to be filled, begins; done says that it ended.
func (p *pooling) busy(count *int) (done func()) {
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

// seeding holds the filling up until done.
func (p *pooling) seeding() (done func()) { return p.busy(&p.seedings) }

// halt cancels the filling that runs, waits for its end, and keeps others from beginning until resume. It fails if ctx ends first.
func (p *pooling) halt(ctx context.Context) (resume func(), err error) {
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

// turn waits until nobody seeds.
func (p *pooling) turn(ctx context.Context) error {
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
func (p *pooling) begin(ctx context.Context) (_ context.Context, end func(), ok bool) {
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

// yieldEvery is how often the disk is looked at while the pool holds copies.
const yieldEvery = 2 * time.Second

// keepPool fills the pool whenever a seeding has ended, and gives it up when the disk is short, until the Manager is closed.
func (m *Manager) keepPool() {
	lowerPriority()
	look := time.NewTicker(yieldEvery)
	defer look.Stop()
	for {
		select {
		case <-m.pool.wake:
		case <-look.C:
			m.yieldPool()
			continue
		case <-m.ctx.Done():
			return
		}
		for more := true; more; {
			if m.pool.turn(m.ctx) != nil {
				return
			}
			var err error
			if more, err = m.fillPool(); err != nil && m.ctx.Err() == nil {
				m.cfg.Log.Warn("the pool could not be filled", zap.Error(err))
			}
		}
	}
}

// fillPool makes one copy, or drops one that is not needed; more tells that it is worth calling again.
func (m *Manager) fillPool() (more bool, err error) {
	ctx, end, ok := m.pool.begin(m.ctx)
	if !ok {
		return true, nil
	}
	defer end()
	release, err := m.locks.work(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	cur, err := m.layers.Current()
	if cur == nil || err != nil {
		return false, err
	}
	all, err := m.pool.List()
	if err != nil {
		return false, err
	}
	others, err := m.pool.Others(cur.Digest)
	if err != nil {
		return false, err
	}
	room := m.poolHasRoom(cur, len(others) > 0)
	switch {
	case len(all)-len(others) < m.cfg.Pool && room:
		err = m.addSpare(ctx, cur)
	case len(others) > 0:
		err = m.dropSpare(ctx, others[0].Name)
	default:
		return false, nil
	}
	if ctx.Err() != nil { // it was halted, and will be woken
		return false, nil
	}
	return err == nil, err
}

// poolHasRoom tells whether a copy of a layer may be made: it is not too big, and leaves the reserve.
func (m *Manager) poolHasRoom(l *layer.Layer, replaces bool) bool {
	if m.pool.cheap() {
		return true
	}
	if l.Manifest.Bytes > m.cfg.PoolMaxBytes {
		return false
	}
	free, err := freeBytes(m.layout.Staging)
	return err != nil || replaces || free-spaceFor(l.Manifest.Entries) >= m.diskShort()
}

// diskShort is the free space, in bytes, below which the pool is given up.
func (m *Manager) diskShort() int64 { return max(m.cfg.DiskReserve, fullDisk) }

// yieldPool gives up copies until the disk is no longer short, or none is left. While somebody seeds it leaves that to checkNeed.
func (m *Manager) yieldPool() {
	ctx, end, ok := m.pool.begin(m.ctx)
	if !ok {
		return
	}
	defer end()
	short := func() bool {
		free, err := freeBytes(m.layout.Staging)
		return err == nil && free < m.diskShort() || lacksInodes(m.layout.Staging)
	}
	if !short() || m.pool.cheap() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	release, err := m.locks.work(ctx)
	if err != nil {
		return // it is being closed, or another process sweeps
	}
	defer release()
	for short() && m.giveUpSpare(ctx) {
		continue
	}
}

// addSpare puts a copy of l into the pool: one of another layer brought up to date, or a new one.
func (m *Manager) addSpare(ctx context.Context, l *layer.Layer) error {
	staged, err := m.stage("pool")
	if err != nil {
		return err
	}
	defer m.discard(staged)
	made := filepath.Join(staged, "folder")
	how := pool.Miss
	if others, err := m.pool.Others(l.Digest); err == nil && len(others) > 0 {
		how, err = m.pool.ClaimOther(ctx, l, made)
		if err != nil {
			m.cfg.Log.Info("a copy of the pool is dropped", zap.Error(err))
		}
	}
	if how == pool.Miss {
		if err := m.makeTop(made); err != nil {
			return err
		}
		if err := m.pool.driver.PrepareSpare(ctx, l.Tree, made, func(driver.Progress) { _ = m.pool.turn(ctx) }); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.pool.Put(made, l.Digest)
}

// dropSpare removes a copy. It makes no directory, which a full disk may have no room for.
func (m *Manager) dropSpare(ctx context.Context, name string) error {
	staged := filepath.Join(m.layout.Staging, fmt.Sprintf("pool-%s-%x", name, rand.Uint64()))
	return m.pool.Remove(ctx, name, staged)
}

// giveUpSpare drops a copy of the pool, any; false when there is none.
func (m *Manager) giveUpSpare(ctx context.Context) bool {
	all, err := m.pool.List()
	if err != nil || len(all) == 0 {
		return false
	}
	last := all[len(all)-1].Name
	if err := m.dropSpare(ctx, last); ctx.Err() != nil {
		return false // the next start removes what is left of it
	} else if err != nil {
		m.cfg.Log.Warn("a copy of the pool could not be given up", zap.Error(err))
		return false
	}
	m.cfg.Log.Info("a copy of the pool is given up: the disk is short", zap.String("copy", last))
	return true
}

// claim has the pool make a context's folder; false when the driver is to.
func (m *Manager) claim(ctx context.Context, f *flight, l *layer.Layer, folder string) bool {
	if m.pool.driver == nil || l == nil || l.Manifest.Template != "" {
		return false
	}
	how, err := m.pool.Claim(ctx, l, folder)
	if err != nil {
		m.cfg.Log.Info("a copy of the pool is dropped", zap.Error(err))
	}
	f.pool = how
	if how == pool.Miss {
		return false
	}
	f.phase(PhaseCopying)
	f.counts(l.Manifest.Files, l.Manifest.Bytes)
	m.cfg.onPhase("claimed")
	return true
}

// makeTop makes an empty folder as a context's.
func (m *Manager) makeTop(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if o := m.cfg.Owner; o != nil {
		return os.Lchown(folder, o.UID, o.GID)
	}
	return nil
}

// poolGarbage lists the ready copies that are not of the current layer; all when there is none, or no pool.
// A collection removes them.
func (m *Manager) poolGarbage() ([]pool.Copy, error) {
	cur, err := m.layers.Current()
	if err != nil {
		return nil, fmt.Errorf("find the current layer: %w", err)
	}
	if cur == nil || m.pool.driver == nil {
		return m.pool.List()
	}
	return m.pool.Others(cur.Digest)
}
