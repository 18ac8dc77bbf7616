package contexts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Manager owns the contexts of one workspace. It implements Admin. Any number of
// Managers, in any number of processes, may share a workspace and its store.
type Manager struct {
	cfg    Config
	layout Layout
	// state is the state directory as Open found it.
	state  os.FileInfo
	locks  locks
	layers *layer.Store
	pool   *pooling
	source seed.Source
	// templates is what Open makes of cfg.Templates.
	templates *templates
	// reserve is for deletions on a full disk.
	reserve reserve

	// ctx ends with Close; wg has every goroutine that outlives the call that began it.
	ctx    context.Context //nolint:containedctx // the Manager's own life
	cancel context.CancelFunc
	wg     sync.WaitGroup
	// clearing ends some time after ctx, in which what is half made may still be removed.
	clearing struct {
		context.Context //nolint:containedctx // as above
		cancel          context.CancelFunc
	}

	// gates holds a *gate per ID. opening has a lock per context, for what is not the hot path: finding, mounting and
	// opening it. See openingOf.
	gates   sync.Map
	opening keyed
	// mounted, once a context was mounted, gives up the share of the lock of that name, which opening guards too.
	mounted func()
	// using is what a killed process had open, and what this one has.
	using *using
	// layering is held by the seeding that scans the workspace and may build a layer.
	layering chan struct{}

	mu       sync.Mutex
	closed   bool
	flights  map[string]*flight
	floor    map[ID]uint64
	onDelete []func(id ID, panels []string)
	onTake   []func(id ID)
}

var _ Admin = (*Manager)(nil)

// Open makes the contexts directory when it is missing, sweeps what a crash left,
// and returns the workspace's Manager. A newer state format is a *FormatError.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	l, err := NewLayout(cfg.Workspace, cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := l.Make(cfg.Version); err != nil {
		return nil, err
	}
	root, err := rootfs.Open(l.Workspace, rootfs.Options{FollowMounts: true})
	if err != nil {
		return nil, layoutError(fserr.CodeOf(err), err, "workspace %s cannot be opened: %s", l.Workspace, fserr.CodeOf(err).Text())
	}
	templates, err := openTemplates(cfg, l, l.Source(root))
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	state, err := os.Stat(l.State)
	if err != nil {
		return nil, errors.Join(err, templates.close(), root.Close())
	}
	using, err := openUsing(ctx, locks{dir: l.Locks})
	if err != nil {
		return nil, errors.Join(err, templates.close(), root.Close())
	}
	m := newManager(cfg, l, root)
	m.templates, m.using, m.state = templates, using, state
	if err := m.reconcile(ctx); err != nil {
		_ = m.Close() // the first error counts
		return nil, err
	}
	m.yieldPool()
	if m.pool.driver != nil {
		m.wg.Go(m.keepPool)
	}
	m.keepReserve()
	return m, nil
}

func newManager(cfg Config, l Layout, root rootfs.Root) *Manager {
	m := &Manager{
		cfg: cfg, layout: l, locks: locks{dir: l.Locks}, layers: layer.New(l.Layers, cfg.Owner),
		source: l.Source(root), reserve: reserve{l.Reserve},
		layering: make(chan struct{}, 1), flights: map[string]*flight{}, floor: map[ID]uint64{},
	}
	m.pool = newPooling(cfg, l, m.layers)
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.clearing.Context, m.clearing.cancel = context.WithCancel(context.Background())
	return m
}

// Source is the workspace as what reads it sees it. root is the workspace's, opened to follow mounts.
func (l Layout) Source(root rootfs.Root) seed.Source {
	return seed.Source{Root: root, Dir: l.Workspace, Avoid: within(l.Workspace, l.Dir)}
}

// within returns dir relative to base, slash-separated, "" when it lies elsewhere.
func within(base, dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(base, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// closeTime bounds how long Close waits: once for what it cancelled, once for the operations inside contexts.
const closeTime = 5 * time.Second

// Close cancels seedings and other changes and waits for them, closes every root, and unmounts what is mounted unless another
// process uses it. Call it when nothing more is acquired, and every file that was opened in a context is closed. An
// operation that does not end within closeTime is left alone with its root, and Close returns EBUSY.
// Closing again does nothing.
func (m *Manager) Close() error {
	m.mu.Lock()
	again := m.closed
	m.closed = true
	m.mu.Unlock()
	if again {
		return nil
	}
	m.cancel()
	late := time.AfterFunc(m.cfg.closeTime/2, m.clearing.cancel)
	defer late.Stop()
	defer m.clearing.cancel()
	if !m.waited() {
		return &fserr.Error{Code: fserr.EBUSY, Detail: fmt.Sprintf("changes of contexts did not end within %s", m.cfg.closeTime)}
	}
	errs := []error{m.closeGates()}
	m.unuse()
	m.unmountUnused()
	if err := m.templates.close(); err != nil {
		errs = append(errs, fmt.Errorf("close the repositories of templates: %w", err))
	}
	if err := m.source.Root.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close the workspace: %w", err))
	}
	return errors.Join(errs...)
}

// waited reports whether everything that begun registered has ended, for which it waits closeTime at most.
func (m *Manager) waited() bool {
	ended := make(chan struct{})
	go func() {
		m.wg.Wait()
		close(ended)
	}()
	timer := time.NewTimer(m.cfg.closeTime)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// closeGates closes all gates at once, then each root whose operations end in time.
func (m *Manager) closeGates() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.closeTime)
	defer cancel()
	idle := map[*gate]<-chan struct{}{}
	m.gates.Range(func(_, value any) bool {
		g := value.(*gate) //nolint:forcetypeassert // gates holds nothing else
		idle[g], _ = g.close()
		return true
	})
	var errs []error
	m.gates.Range(func(key, value any) bool {
		id, g := key.(ID), value.(*gate) //nolint:forcetypeassert // gates holds nothing else
		m.gates.CompareAndDelete(key, g)
		g.retire()
		select {
		case <-idle[g]:
			if err := g.root.Close(); err != nil {
				errs = append(errs, fmt.Errorf("close a context: %w", err))
			}
		case <-ctx.Done():
			errs = append(errs, inUse(id, g.inside(Read), m.cfg.closeTime))
		}
		return true
	})
	return errors.Join(errs...)
}

// Moved returns an error (EIO) when the contexts directory is no longer the one that was opened: it was moved or removed, alone or
// with the workspace.
func (m *Manager) Moved() error {
	st, err := os.Stat(m.layout.State)
	if err == nil && os.SameFile(st, m.state) || err != nil && !isGone(err) {
		return nil
	}
	return &fserr.Error{
		Code: fserr.EIO, Kind: fserr.KindContext, Detail: "the contexts directory was moved or removed after the server started",
		Hint: "stop the server, and run 'ctxfs serve' where the workspace is now", Err: err,
	}
}

// isGone reports that a path, or a directory on the way to it, is not there.
func isGone(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOENT || code == fserr.ENOTDIR
}

// Layout returns the paths.
func (m *Manager) Layout() Layout { return m.layout }

// OnTake registers f, called when a context that is deleted or replaced is shut and its operations have ended. f must close
// what its owner still holds open of the context: a mount that is in use can neither be ended nor made again.
func (m *Manager) OnTake(f func(id ID)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onTake = append(m.onTake, f)
}

// OnDelete registers f, called after a context was deleted, with the panels that were bound to it.
func (m *Manager) OnDelete(f func(id ID, panels []string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onDelete = append(m.onDelete, f)
}
