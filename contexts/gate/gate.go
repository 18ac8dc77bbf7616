// Package gate opens contexts. Every operation on a context goes through Gates.Acquire, which gives the context's root, its
// generation and a release. The package owns what is open: the roots, the mounts, the marks of open contexts, and the accounts
// of their quotas.
//
// Operations share the gate of a context. Gates.Take gives the context to one caller alone: it asks the operations inside to
// end (Access.Closing) and waits for them. Gates.Frozen blocks only operations that change something.
package gate

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/metadata"
)

// Use is the way in which an operation uses a context.
type Use int

// The uses of a context.
const (
	Read  Use = 0
	Write Use = 1
)

// Access is an open gate.
type Access struct {
	// Root is the context's folder. It must not be used after Release.
	Root rootfs.Root
	// Generation rises when the folder is replaced.
	Generation uint64
	id         catalog.ID
	account    *account
	// gate is nil if the Access is not one of Gates, remote if it is none of another process.
	gate     *gate
	remote   Remote
	ctx      context.Context //nolint:containedctx // the acquiring call's, for Charge
	release  func()
	released atomic.Bool
	closing  context.Context //nolint:containedctx // it is the signal, not a call's
}

// NewAccess returns an Access that calls release, once, on Release.
func NewAccess(root rootfs.Root, generation uint64, release func()) *Access {
	return &Access{Root: root, Generation: generation, release: release, closing: context.Background()}
}

// Closing ends when a caller is about to replace or delete the context. An operation that may last as long as its client
// pleases must then end, with ESTALE.
func (a *Access) Closing() context.Context { return a.closing }

// Charge must be called before up to so many bytes of content are written, or so many files, directories and links are made. It
// fails with EDQUOT if the context would exceed its quota. It waits at most until the context of Acquire ends, and then fails
// with EAGAIN.
func (a *Access) Charge(bytes, entries int64) error {
	if a.account == nil {
		return nil
	}
	return a.account.charge(a.ctx, a.id, bytes, entries)
}

// Release closes the gate again. Only its first call has an effect.
func (a *Access) Release() {
	if !a.released.Swap(true) {
		a.release()
	}
}

// recheck is how long a gate trusts that the folder's name still leads to the folder of its root. An lstat costs about a
// microsecond. For this long, operations may miss that a folder was removed by hand.
const recheck = time.Second

// gate is a ready context's root and the operations that use it.
type gate struct {
	// root is nil if bare, and after the gate was taken and evict closed the root. The taker of a context makes a bare gate
	// and makes it shut.
	root       rootfs.Root
	bare       bool
	generation uint64
	// rec is the record as of when the gate was made.
	rec metadata.Context
	// folder identifies the directory of root.
	folder os.FileInfo
	// dirs are the directories of direct zones.
	dirs []held
	// born is when the gate was made. checked, used and noted count nanoseconds since then, which no setting of the clock changes.
	born time.Time
	// checked is when the folder was last looked at.
	checked atomic.Int64
	// used is what checked was at the last use; -1 if there was none.
	used atomic.Int64
	// account is nil if the context has no quota.
	account *account
	// noted is when the last use was recorded.
	noted atomic.Int64
	// recordings are those that run; nil if there are none.
	recordings atomic.Pointer[[]*Recording]
	// leaving are the functions that end a Read and a Write, made once: a method value is an allocation.
	leaving [2]func()

	mu sync.Mutex
	// users counts the operations inside, writers those of them that may change something.
	users, writers int
	// pausers are the users that Yield.
	pausers map[*Access]Pauser
	// resting counts the users that Rest.
	resting int
	// shut blocks every operation, frozen those that may change something.
	shut, frozen bool
	// secluded blocks every operation too, while the gate is frozen. secluding is closed when only the caller that secludes it, pausers and
	// resting users are left inside; then it is nil.
	secluded  bool
	secluding chan struct{}
	// idle is closed when the gate is shut and the last user has left, still when it is frozen and the last writer has left.
	idle, still chan struct{}
	// turn is closed when a gate that was shut or frozen is open to all again, when it is secluded no more, and when it is retired.
	turn chan struct{}
	// closing ends when the gate is shut. A gate that is opened again has a new one.
	closing  context.Context //nolint:containedctx // it is the signal, not a call's
	shutting context.CancelFunc
}

func newGate(root rootfs.Root, generation uint64, folder os.FileInfo, now time.Time) *gate {
	g := &gate{root: root, generation: generation, folder: folder, born: now}
	g.leaving = [2]func(){Read: g.leave, Write: g.leaveWriter}
	g.used.Store(-1)
	g.noted.Store(-int64(NoteEvery))
	g.closing, g.shutting = context.WithCancel(context.Background())
	return g
}

// enter admits an operation. It returns a context that is cancelled when a caller requests the gate alone. If the gate does
// not admit the operation it returns a channel that is closed when it is worth trying again.
func (g *gate) enter(use Use) (closing context.Context, wait <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || g.secluded || (g.frozen && use == Write) {
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
	g.writerLeft()
	g.left()
}

func (g *gate) writerLeft() {
	g.writers--
	if g.frozen && g.writers == 0 {
		close(g.still)
	}
}

func (g *gate) left() {
	g.users--
	if g.shut && g.users == 0 {
		close(g.idle)
	}
	g.checkSecluded()
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

// hold admits no further operation, as close does, and lets those inside go on. ok is false if the gate was shut already.
func (g *gate) hold() (idle <-chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return g.idle, false
	}
	g.block()
	g.shut, g.idle = true, make(chan struct{})
	if g.users == 0 {
		close(g.idle)
	}
	return g.idle, true
}

// resume undoes hold.
func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	g.unblock()
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
	g.frozen, g.secluded, g.secluding = false, false, nil
	g.unblock()
}

// retire ends a closed gate: blocked callers look for another.
func (g *gate) retire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.turn)
}

// drain waits until drained is closed, limit at most. Otherwise it fails with EBUSY and names the operations of use that are
// still inside.
func (g *gate) drain(ctx context.Context, id catalog.ID, use Use, drained <-chan struct{}, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return inUse(id, g.inside(use), limit)
	}
}

// await waits until a blocked caller should try again.
func (g *gate) await(ctx context.Context, id catalog.ID, turn <-chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return catalog.Busy(id, "is "+g.why())
	}
}

// blocked returns the channel of a gate that was found shut.
func (g *gate) blocked() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turn
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

// why describes what blocks a caller.
func (g *gate) why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut && !g.frozen {
		return "being replaced or deleted"
	}
	return "being copied"
}

// use notes that an operation of a caller that is no observer enters. It reports whether it is the first since the folder was looked at.
func (g *gate) use(ctx context.Context) bool {
	checked := g.checked.Load()
	if g.used.Load() >= checked || observes(ctx) {
		return false
	}
	g.used.Store(checked)
	return true
}

// lastUse is when the folder was last looked at for an operation, by the wall clock as it is set now; zero if there was none.
func (g *gate) lastUse(now time.Time) time.Time {
	used := g.used.Load()
	if used < 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(used) - now.Sub(g.born))
}

type observerKey struct{}

// Observe returns a context whose operations do not count as a use of what they enter: they look, and keep nothing from being idle.
func Observe(ctx context.Context) context.Context {
	return context.WithValue(ctx, observerKey{}, true)
}

func observes(ctx context.Context) bool {
	return ctx.Value(observerKey{}) != nil
}

// due reports whether the caller should look at the folder again. It is true for one of several concurrent callers.
func (g *gate) due(now time.Time) bool {
	last, elapsed := g.checked.Load(), int64(now.Sub(g.born))
	return elapsed-last > int64(recheck) && g.checked.CompareAndSwap(last, elapsed)
}

// closeRoot ends a gate without users. A bare gate has no root.
func (g *gate) closeRoot() {
	if g.root != nil {
		_ = g.root.Close() // nothing was written through the root itself
		g.root = nil
	}
}
