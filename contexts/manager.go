package contexts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

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

	// gates holds a *gate per ID. opening serialises what is not the hot path: looking for a context.
	gates   sync.Map
	opening sync.Mutex
	// mounted, once a context was mounted, gives up the share of the lock; opening guards it.
	mounted func()
	// using is what a killed process had open, and what this one has; opening guards it.
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
	using, err := openUsing(locks{dir: l.Locks})
	if err != nil {
		return nil, errors.Join(err, templates.close(), root.Close())
	}
	m := newManager(cfg, l, root)
	m.templates, m.using = templates, using
	if err := m.reconcile(ctx); err != nil {
		_ = m.Close() // the first error counts
		return nil, err
	}
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

// Close ends running seedings, waits for them and for running operations, closes every root, and
// unmounts what is mounted, if no other process uses it. It must be called once nothing more is
// acquired, and every file that was opened in a context is closed.
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
	var err error
	m.gates.Range(func(key, value any) bool {
		g := value.(*gate) //nolint:forcetypeassert // gates holds nothing else
		if idle, ok := g.close(); ok {
			m.gates.CompareAndDelete(key, g)
			g.retire()
			<-idle
			if e := g.root.Close(); err == nil && e != nil {
				err = fmt.Errorf("close a context: %w", e)
			}
		}
		return true
	})
	m.wg.Wait()
	m.unuse()
	m.unmountUnused()
	if e := m.templates.close(); err == nil && e != nil {
		err = fmt.Errorf("close the repositories of templates: %w", e)
	}
	if e := m.source.Root.Close(); err == nil && e != nil {
		err = fmt.Errorf("close the workspace: %w", e)
	}
	return err
}

// Layout returns the paths.
func (m *Manager) Layout() Layout { return m.layout }

// OnTake registers f, called when a context that is to be deleted or replaced is shut and nobody is
// inside any more. What f's owner still holds open of it must be closed: a mount that is in use cannot be ended.
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
