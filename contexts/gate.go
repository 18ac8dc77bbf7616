package contexts

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/metadata"
)

// recheck is how long a gate trusts that the folder's name still leads to the
// folder it holds. An lstat costs about a microsecond; a person who removes a folder by hand can wait a second.
const recheck = time.Second

// gate is a ready context's root and who is using it.
type gate struct {
	// root is nil when the gate was made only to be shut.
	root       rootfs.Root
	generation uint64
	// folder identifies the directory that root holds.
	folder  os.FileInfo
	checked atomic.Int64
	// leaving is leave, made once: a method value is an allocation.
	leaving func()

	mu    sync.Mutex
	users int
	shut  bool
	// idle is closed when the gate is shut and its last user has left.
	idle chan struct{}
	// turn is closed when a shut gate is opened again or retired.
	turn chan struct{}
	// closing ends when the gate is shut; a gate that is opened again has a new one.
	closing  context.Context //nolint:containedctx // it is the signal, not a call's
	shutting context.CancelFunc
}

func newGate(root rootfs.Root, generation uint64, folder os.FileInfo, now time.Time) *gate {
	g := &gate{root: root, generation: generation, folder: folder}
	g.leaving = g.leave
	g.checked.Store(now.UnixNano())
	g.closing, g.shutting = context.WithCancel(context.Background())
	return g
}

// enter lets a user in, and tells what ends when somebody wants the gate alone. When the
// gate is shut that is nil, and wait is what to wait for before looking again.
func (g *gate) enter() (closing context.Context, wait <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, g.turn
	}
	g.users++
	return g.closing, nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.shut && g.users == 0 {
		close(g.idle)
	}
}

// close lets nobody further in and returns what tells that all have left; false
// when it was shut already.
func (g *gate) close() (idle <-chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return g.idle, false
	}
	g.shut = true
	g.shutting()
	g.idle, g.turn = make(chan struct{}), make(chan struct{})
	if g.users == 0 {
		close(g.idle)
	}
	return g.idle, true
}

// reopen undoes close.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	g.closing, g.shutting = context.WithCancel(context.Background())
	close(g.turn)
}

// retire ends a closed gate: who waits for it looks again.
func (g *gate) retire() { close(g.turn) }

// due reports whether the folder should be looked at again, to one caller each time.
func (g *gate) due(now time.Time) bool {
	last := g.checked.Load()
	return now.UnixNano()-last > int64(recheck) && g.checked.CompareAndSwap(last, now.UnixNano())
}

// Acquire implements Gate. After the first time it costs a map look-up.
func (m *Manager) Acquire(ctx context.Context, id ID) (*Access, error) {
	for {
		g, err := m.gate(ctx, id)
		if err != nil {
			return nil, err
		}
		if now := m.cfg.now(); g.due(now) && !m.stillThere(id, g) {
			m.replaced(id, g)
			continue
		}
		closing, wait := g.enter()
		if closing != nil {
			return NewAccess(g.root, g.generation, g.leaving).ClosingWith(closing), nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, busy(id, "is being deleted")
		}
	}
}

func (m *Manager) stillThere(id ID, g *gate) bool {
	st, err := os.Lstat(m.layout.Folder(id))
	return err == nil && os.SameFile(st, g.folder)
}

// replaced drops a gate whose folder was removed or replaced by somebody else.
// Its users keep the old folder until they leave; the next one gets a new generation.
func (m *Manager) replaced(id ID, g *gate) {
	idle, ok := g.close()
	if !ok {
		return
	}
	m.dropGate(id, g)
	g.retire()
	select {
	case <-idle: // at once, for a mount that is held open cannot be made again
		g.closeRoot()
	default:
		m.wg.Go(func() {
			<-idle
			g.closeRoot()
		})
	}
}

// closeRoot ends a gate that nobody uses; one that was never opened has no root.
func (g *gate) closeRoot() {
	if g.root != nil {
		_ = g.root.Close() // nothing was written through the root itself
		g.root = nil
	}
}

// dropGate forgets a gate, and makes sure that its generation is not given again.
func (m *Manager) dropGate(id ID, g *gate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.floor[id] = max(m.floor[id], g.generation+1)
	m.gates.CompareAndDelete(id, g)
}

// gate returns a context's gate, opening its root the first time.
func (m *Manager) gate(ctx context.Context, id ID) (*gate, error) {
	return m.gateOr(ctx, id, m.openGate)
}

// gateOr returns a context's gate, or the one that begin makes.
func (m *Manager) gateOr(ctx context.Context, id ID, begin func(context.Context, metadata.Context) (*gate, error)) (*gate, error) {
	if g, ok := m.gates.Load(id); ok {
		return g.(*gate), nil //nolint:forcetypeassert // gates holds nothing else
	}
	if err := m.running(id); err != nil {
		return nil, err
	}
	m.opening.Lock()
	defer m.opening.Unlock()
	if g, ok := m.gates.Load(id); ok {
		return g.(*gate), nil //nolint:forcetypeassert // gates holds nothing else
	}
	rec, err := m.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return begin(ctx, rec)
}

// openGate mounts the context, when its driver does, and opens its root.
func (m *Manager) openGate(ctx context.Context, rec metadata.Context) (*gate, error) {
	id := ID(rec.ID)
	if err := m.show(ctx, rec); err != nil {
		return nil, err
	}
	folder, err := os.Lstat(m.layout.Folder(id))
	if err != nil {
		return nil, missing(id)
	}
	root, err := rootfs.Open(m.layout.Folder(id), rootfs.Options{AllowChown: m.cfg.AllowChown, Owner: m.cfg.Owner})
	if err != nil {
		return nil, contextError(id, "could not be opened", err)
	}
	g := newGate(root, rec.Generation, folder, m.cfg.now())
	if err := m.putGate(id, g); err != nil {
		_ = root.Close() // unused
		return nil, err
	}
	return g, nil
}

// shutGate makes a gate without root, and shut, for a context that is to be taken: it need not be
// opened, nor mounted, for that.
func (m *Manager) shutGate(_ context.Context, rec metadata.Context) (*gate, error) {
	g := newGate(nil, rec.Generation, nil, m.cfg.now())
	g.close()
	return g, m.putGate(ID(rec.ID), g)
}

func (m *Manager) putGate(id ID, g *gate) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return stopped(id)
	}
	g.generation = max(g.generation, m.floor[id])
	m.gates.Store(id, g)
	return nil
}
