package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// The calls and notes of a link. The server calls hello, held, keep, has, pause, take and stop, and notes closing, resume, deleted and retire. The
// runner calls acquire, baseline, usage, begin and record, and notes yield, release and drop.
const (
	opHello    = "hello"
	opHeld     = "held"
	opKeep     = "keep"
	opHas      = "has"
	opTake     = "take"
	opRetire   = "retire"
	opStop     = "stop"
	opClosing  = "closing"
	opDeleted  = "deleted"
	opAcquire  = "acquire"
	opRelease  = "release"
	opYield    = "yield"
	opPause    = "pause"
	opResume   = "resume"
	opUsage    = "usage"
	opBaseline = "baseline"
	opBegin    = "begin"
	opRecord   = "record"
	opDrop     = "drop"
)

// lease is a use of a context that the runner has. The runner numbers them.
type lease struct {
	ID      uint64       `json:"id"`
	Context contexts.ID  `json:"context"`
	Use     contexts.Use `json:"use"`
	// Folder is set once the lease was granted.
	Folder     folder `json:"folder"`
	Generation uint64 `json:"generation,omitempty"`
	// Quota says that the context has a quota.
	Quota bool `json:"quota,omitempty"`
	// Yields says that the command can be paused.
	Yields bool `json:"yields,omitempty"`
}

// folder identifies a directory that is open somewhere: a mount that replaced another has another device.
type folder struct{ Device, Inode uint64 }

func folderOf(fd int) (folder, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return folder{}, fmt.Errorf("stat the context's folder: %w", err)
	}
	return folder{st.Dev, st.Ino}, nil
}

// remoteGate is the gate of contexts as the runner has it: the server opens them. It implements exec.Gate.
type remoteGate struct {
	mu sync.Mutex
	// link is nil while no server is connected.
	link   *link
	last   uint64
	leases map[uint64]*heldLease
}

// heldLease is a lease that was requested or granted.
type heldLease struct {
	lease
	granted bool
	closing context.Context //nolint:containedctx // it is the signal, not a call's
	close   context.CancelFunc
	// pauser is nil unless the lease yields; resume is nil unless it is paused.
	pauser contexts.Pauser
	resume func()
	// pausing is true while the pauser works, abandoned if the server resumed it meanwhile.
	pausing, abandoned bool
}

func noServer() error {
	return &fserr.Error{Code: fserr.EAGAIN, Detail: "no server runs", Hint: "start it and try again"}
}

// Acquire implements exec.Gate. It fails with EAGAIN while no server is connected.
func (g *remoteGate) Acquire(ctx context.Context, id contexts.ID, use contexts.Use) (*contexts.Access, error) {
	g.mu.Lock()
	l := g.link
	if l == nil {
		g.mu.Unlock()
		return nil, noServer()
	}
	g.last++
	h := &heldLease{lease: lease{ID: g.last, Context: id, Use: use}}
	h.closing, h.close = context.WithCancel(context.Background())
	g.leases[h.ID] = h
	g.mu.Unlock()
	root, err := g.request(ctx, l, h)
	if err != nil {
		g.release(h)
		return nil, err
	}
	return contexts.NewRemoteAccess(h.closing, root, h.Generation, &remoteUse{g, h}, func() {
		_ = root.Close() // nothing was written through the root itself
		g.release(h)
	}), nil
}

func (g *remoteGate) request(ctx context.Context, l *link, h *heldLease) (rootfs.Root, error) {
	var granted lease
	dir, err := l.call(ctx, opAcquire, h.lease, &granted)
	if err != nil {
		return nil, err
	}
	if dir == nil {
		return nil, &fserr.Error{Code: fserr.EIO, Detail: "the server gave no descriptor of the context's folder"}
	}
	defer closeFile(dir)
	at, err := folderOf(int(dir.Fd()))
	if err != nil {
		return nil, err
	}
	root, err := rootfs.OpenAt(int(dir.Fd()), rootfs.Options{})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link != l { // the next server has not seen this lease
		_ = root.Close() // unused
		return nil, errGone
	}
	h.granted, h.Folder, h.Generation, h.Quota = true, at, granted.Generation, granted.Quota
	return root, nil
}

func (g *remoteGate) release(h *heldLease) {
	h.close()
	g.mu.Lock()
	delete(g.leases, h.ID)
	l := g.link
	g.mu.Unlock()
	if l != nil {
		l.note(opRelease, h.ID)
	}
}

// connect makes l the link to the server, and returns the one before. nil disconnects.
func (g *remoteGate) connect(l *link) (before *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, g.link = g.link, l
	return before
}

// disconnect forgets the server of l, unless there is a newer one. What that server paused continues.
func (g *remoteGate) disconnect(l *link) {
	g.mu.Lock()
	if g.link != l {
		g.mu.Unlock()
		return
	}
	g.link = nil
	var resumes []func()
	for _, h := range g.leases {
		if h.resume != nil {
			resumes = append(resumes, h.resume)
			h.resume = nil
		}
	}
	g.mu.Unlock()
	for _, resume := range resumes {
		resume()
	}
}

func (g *remoteGate) connected() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.link != nil
}

// heldPage is how many leases one reply of opHeld has at most.
const heldPage = 256

// held returns the granted leases with numbers above after, in order, up to heldPage.
func (g *remoteGate) held(after uint64) []lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []lease{}
	for h := range maps.Values(g.leases) {
		if h.granted && h.ID > after {
			list = append(list, h.lease)
		}
	}
	slices.SortFunc(list, func(a, b lease) int { return cmp.Compare(a.ID, b.ID) })
	return list[:min(len(list), heldPage)]
}

// has reports whether a lease is still held.
func (g *remoteGate) has(id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leases[id] != nil
}

// closing ends the use of a context that the server asks back.
func (g *remoteGate) closing(body json.RawMessage) {
	var id uint64
	if json.Unmarshal(body, &id) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.leases[id]; h != nil {
		h.close()
	}
}
