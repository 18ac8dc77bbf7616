package contexts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
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

// drainTime bounds how long a fork, snapshot, restore, deletion or collection waits for the operations inside a context to
// end. After it, the waiting caller gives up and the gate is open again.
const drainTime = 10 * time.Second

// gate is a ready context's root and the operations that use it.
type gate struct {
	// root is nil when bare, and once the gate was taken and evict has closed it. A bare gate was made closed, by its taker.
	root       rootfs.Root
	bare       bool
	generation uint64
	// folder identifies the directory that root holds.
	folder os.FileInfo
	// born is when the gate was made. checked and noted count the nanoseconds since, which no setting of the clock changes.
	born time.Time
	// checked is when the folder was last looked at.
	checked atomic.Int64
	// account is nil when nothing bounds the context.
	account *account
	// noted is when the last use was recorded.
	noted atomic.Int64
	// leaving are what ends a Read and a Write, made once: a method value is an allocation.
	leaving [2]func()

	mu sync.Mutex
	// users counts the operations inside, writers those of them that may change something.
	users, writers int
	// shut keeps every operation out, frozen those that may change something.
	shut, frozen bool
	// idle is closed when the gate is shut and the last user has left, still when it is frozen and the last writer has.
	idle, still chan struct{}
	// turn is closed when a gate that was shut or frozen is open to all again, or retired.
	turn chan struct{}
	// closing ends when the gate is shut. A gate that is opened again has a new one.
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

// enter admits an operation. It returns the context that ends when somebody requests the gate alone. If the gate does
// not admit the operation it returns a channel that is closed when it is worth trying again.
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

// block makes the channel that blocked callers wait for.
func (g *gate) block() {
	if !g.shut && !g.frozen {
		g.turn = make(chan struct{})
	}
}

// unblock wakes the blocked callers, unless the gate blocks them for another reason too.
func (g *gate) unblock() {
	if !g.shut && !g.frozen {
		close(g.turn)
	}
}

// close admits no further operation and cancels closing for those inside. It returns a channel that is closed when all have
// left; ok is false if the gate was shut already.
func (g *gate) close() (idle <-chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return g.idle, false
	}
	g.block()
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
	g.unblock()
}

// freeze admits no further writer and returns a channel that is closed when those inside have left. The caller holds the
// context's lock, and must thaw.
func (g *gate) freeze() (still <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.block()
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
	g.unblock()
}

// retire ends a closed gate: blocked callers look for another.
func (g *gate) retire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.turn)
}

// inside describes the operations that keep the gate from being drained: all, or the writers.
func (g *gate) inside(use Use) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, kind := g.users, ""
	if use == Write {
		n, kind = g.writers, " that may write"
	}
	if n == 1 {
		return "1 operation" + kind
	}
	return fmt.Sprintf("%d operations%s", n, kind)
}

// why says what keeps a caller out.
func (g *gate) why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return "being replaced or deleted"
	}
	return "being copied"
}

// lastUse is when the folder was last looked at for an operation, as the wall clock shows now; it may have been set since.
func (g *gate) lastUse(now time.Time) time.Time {
	return now.Add(time.Duration(g.checked.Load()) - now.Sub(g.born))
}

// due reports whether the caller should look at the folder again. It is true for one of several concurrent callers.
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
	a.account, a.id, a.ctx = g.account, id, ctx
	return a, nil
}

// enter admits the caller, which must leave; closing is as of Access.Closing.
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
		if err := g.await(ctx, id, wait); err != nil {
			return nil, nil, err
		}
	}
}

// await waits until a blocked caller should try again.
func (g *gate) await(ctx context.Context, id ID, turn <-chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return busy(id, "is "+g.why())
	}
}

// blocked returns the channel of a gate that was found shut.
func (g *gate) blocked() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turn
}

// drain waits until drained is closed, at most drainTime. Otherwise it is EBUSY and names the operations of use that
// are still inside.
func (m *Manager) drain(ctx context.Context, id ID, g *gate, use Use, drained <-chan struct{}) error {
	timer := time.NewTimer(m.cfg.drainTime)
	defer timer.Stop()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return inUse(id, g.inside(use), m.cfg.drainTime)
	}
}

// noteEvery is how often the use of a context is recorded.
const noteEvery = 5 * time.Minute

// noteUse records from time to time that a context is used. The caller does not wait for it.
func (m *Manager) noteUse(id ID, g *gate, now time.Time) {
	last, elapsed := g.noted.Load(), int64(now.Sub(g.born))
	if elapsed-last < int64(noteEvery) || !g.noted.CompareAndSwap(last, elapsed) {
		return
	}
	ctx, ended, err := m.begun(context.Background(), id)
	if err != nil {
		return // the Manager is being closed
	}
	go func() {
		defer ended()
		if err := m.cfg.Store.Contexts().Used(context.WithoutCancel(ctx), string(id), now); err != nil && !errors.Is(err, metadata.ErrNotFound) {
			m.cfg.Log.Warn("the use of a context could not be recorded", zap.String("context", string(id)), zap.Error(err))
		}
	}()
}

func (m *Manager) stillThere(id ID, g *gate) bool {
	st, err := os.Lstat(m.layout.Folder(id))
	return err == nil && os.SameFile(st, g.folder)
}

// replaced retires a gate whose folder another program removed, replaced or unmounted. It asks the operations inside to end,
// and closes the handles when they have: a mount that is in use cannot be made again. The next access waits for that,
// drainTime at most, and gets a new generation.
func (m *Manager) replaced(id ID, g *gate) {
	ctx, ended, err := m.begun(context.Background(), id)
	if err != nil {
		return // the Manager is being closed
	}
	idle, ok := g.close()
	if !ok {
		ended()
		return
	}
	retire := func() {
		m.dropGate(id, g)
		g.retire()
	}
	select {
	case <-idle:
		m.evict(id, g)
		retire()
		ended()
		return
	default:
	}
	go func() {
		defer ended()
		if err := m.drain(ctx, id, g, Read, idle); err == nil {
			m.evict(id, g)
			retire()
			return
		}
		m.closeOpen(id)
		retire()
		select {
		case <-idle:
			g.closeRoot()
		case <-ctx.Done(): // the process ends with what uses the root
		}
	}()
}

// closeRoot ends a gate without users. A bare gate has no root.
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
	ctx, ended, err := m.begun(ctx, id)
	if err != nil {
		return nil, err
	}
	defer ended()
	unlock, err := m.openingOf(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if g, ok := m.gates.Load(id); ok {
		return g.(*gate), nil //nolint:forcetypeassert // gates holds nothing else
	}
	rec, err := m.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return begin(ctx, rec)
}

// openingOf takes the lock under which this process finds, mounts and opens a context. IDs that differ only by case share one.
func (m *Manager) openingOf(ctx context.Context, id ID) (unlock func(), err error) {
	unlock, err = m.opening.lock(ctx, strings.ToLower(string(id)))
	switch {
	case err == nil:
		return unlock, nil
	case m.ctx.Err() != nil:
		return nil, stopped(id)
	}
	return nil, busy(id, "is being opened")
}

// openGate mounts the context, if its driver mounts, and opens its root.
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
	if err := m.use(ctx, id, root); err != nil {
		_ = root.Close() // unused
		return nil, busy(id, "is being opened")
	}
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

// shutGate makes a bare gate for a context that is taken, which needs neither a root nor a mount.
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
