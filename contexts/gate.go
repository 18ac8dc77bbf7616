package contexts

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/metadata"
)

// recheck is how long a gate trusts that the folder's name still leads to the
// folder it holds. An lstat costs about a microsecond; a person who removes a folder by hand can wait a second.
const recheck = time.Second

// gate is a ready context's root and who is using it.
type gate struct {
	// root is nil when the gate was made only to be shut, which bare tells; and once nobody is inside any more.
	root       rootfs.Root
	bare       bool
	generation uint64
	// folder identifies the directory that root holds.
	folder os.FileInfo
	// born is when the gate was made. What follows counts the nanoseconds since, which no setting of the clock changes.
	born time.Time
	// checked is when the folder was last looked at.
	checked atomic.Int64
	// account is nil when nothing bounds the context.
	account *account
	// noted is when the last use was written down.
	noted atomic.Int64
	// leaving are what ends a Read and a Write, made once: a method value is an allocation.
	leaving [2]func()

	mu sync.Mutex
	// users are all who are inside, writers those of them who may change something.
	users, writers int
	// shut bars everybody, frozen those who would write.
	shut, frozen bool
	// idle is closed when the gate is shut and its last user has left, still when it is frozen and
	// its last writer has.
	idle, still chan struct{}
	// turn is closed when a gate that was shut or frozen is open to all again, or retired.
	turn chan struct{}
	// closing ends when the gate is shut; a gate that is opened again has a new one.
	closing  context.Context //nolint:containedctx // it is the signal, not a call's
	shutting context.CancelFunc
}

func newGate(root rootfs.Root, generation uint64, folder os.FileInfo, now time.Time) *gate {
	g := &gate{root: root, generation: generation, folder: folder, born: now}
	g.leaving = [2]func(){Read: g.leave, Write: g.leaveWriter}
	g.noted.Store(-int64(noteEvery))
	g.closing, g.shutting = context.WithCancel(context.Background())
	return g
}

// enter lets a user in, and tells what ends when somebody wants the gate alone. When he
// must wait that is nil, and wait is what to wait for before looking again.
func (g *gate) enter(use Use) (closing context.Context, wait <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || (g.frozen && use == Write) {
		return nil, g.turn
	}
	g.users++
	g.writers += int(use)
	return g.closing, nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left()
}

func (g *gate) leaveWriter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writers--
	if g.frozen && g.writers == 0 {
		close(g.still)
	}
	g.left()
}

func (g *gate) left() {
	g.users--
	if g.shut && g.users == 0 {
		close(g.idle)
	}
}

// bar makes what those wait for who are not let in.
func (g *gate) bar() {
	if !g.shut && !g.frozen {
		g.turn = make(chan struct{})
	}
}

// unbar lets those who wait look again.
func (g *gate) unbar() {
	if !g.shut && !g.frozen {
		close(g.turn)
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
	g.bar()
	g.shut = true
	g.shutting()
	g.idle = make(chan struct{})
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
	g.unbar()
}

// freeze lets no further writer in and returns what tells that those inside have left. Only
// who holds the context's lock may freeze, and must thaw.
func (g *gate) freeze() (still <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bar()
	g.frozen, g.still = true, make(chan struct{})
	if g.writers == 0 {
		close(g.still)
	}
	return g.still
}

// thaw undoes freeze.
func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = false
	g.unbar()
}

// retire ends a closed gate: who waits for it looks again.
func (g *gate) retire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.turn)
}

// why says what keeps somebody out.
func (g *gate) why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return "being replaced or deleted"
	}
	return "being copied"
}

// lastUse is when the folder was last looked at for somebody, as the wall clock shows now; it may have been set since.
func (g *gate) lastUse(now time.Time) time.Time {
	return now.Add(time.Duration(g.checked.Load()) - now.Sub(g.born))
}

// due reports whether the folder should be looked at again, to one caller each time.
func (g *gate) due(now time.Time) bool {
	last, elapsed := g.checked.Load(), int64(now.Sub(g.born))
	return elapsed-last > int64(recheck) && g.checked.CompareAndSwap(last, elapsed)
}

// Acquire implements Gate. After the first time it costs a map look-up.
func (m *Manager) Acquire(ctx context.Context, id ID, use Use) (*Access, error) {
	g, closing, err := m.enter(ctx, id, use)
	if err != nil {
		return nil, err
	}
	a := NewAccess(g.root, g.generation, g.leaving[use]).ClosingWith(closing)
	a.account, a.id = g.account, id
	return a, nil
}

// enter lets the caller in, who must leave; closing is as of Access.Closing.
func (m *Manager) enter(ctx context.Context, id ID, use Use) (g *gate, closing context.Context, err error) {
	for {
		g, err := m.gate(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if now := m.cfg.now(); g.due(now) {
			if !m.stillThere(id, g) {
				m.replaced(id, g)
				continue
			}
			m.noteUse(id, g, now)
		}
		closing, wait := g.enter(use)
		if closing != nil {
			return g, closing, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, busy(id, "is "+g.why())
		}
	}
}

// noteEvery is how often the use of a context is written down.
const noteEvery = 5 * time.Minute

// noteUse writes down that a context is used, now and then, and behind the caller's back.
func (m *Manager) noteUse(id ID, g *gate, now time.Time) {
	last, elapsed := g.noted.Load(), int64(now.Sub(g.born))
	if elapsed-last < int64(noteEvery) || !g.noted.CompareAndSwap(last, elapsed) {
		return
	}
	_, ended, err := m.begun(context.Background(), id)
	if err != nil {
		return // it is being closed
	}
	go func() {
		defer ended()
		if err := m.cfg.Store.Contexts().Used(context.Background(), string(id), now); err != nil && !errors.Is(err, metadata.ErrNotFound) {
			m.cfg.Log.Warn("the use of a context could not be recorded", zap.String("context", string(id)), zap.Error(err))
		}
	}()
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
	root, err := m.cfg.OpenRoot(m.layout.Folder(id), rootfs.Options{AllowChown: m.cfg.AllowChown, Owner: m.cfg.Owner})
	if err != nil {
		return nil, contextError(id, "could not be opened", err)
	}
	m.use(id, root)
	now := m.cfg.now()
	g := newGate(root, rec.Generation, folder, now)
	if d, dir, err := m.held(rec); err == nil {
		g.account = m.accountOf(d, dir)
	}
	if err := m.putGate(id, g); err != nil {
		_ = root.Close() // unused
		return nil, err
	}
	m.noteUse(id, g, now)
	return g, nil
}

// shutGate makes a gate without root, and shut, for a context that is to be taken: it need not be
// opened, nor mounted, for that.
func (m *Manager) shutGate(_ context.Context, rec metadata.Context) (*gate, error) {
	g := newGate(nil, rec.Generation, nil, m.cfg.now())
	g.bare = true
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
