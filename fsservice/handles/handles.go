// Package handles owns the open files of panels: one table per owner, numbers
// that are never used twice, bounds, and the idle timeout.
//
// A handle is used between Use and its release; it is not closed underneath an
// operation: Close, CloseOwner and CloseContext take it out of the table at once,
// and its file is closed when the last operation on it has ended. A handle holds
// no gate of its context; the caller compares Handle.Generation with the gate's.
//
// One goroutine, the reaper, closes what was idle for too long. It also keeps
// the coarse clock, so that touching a handle is one atomic store.
package handles

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

const (
	defaultIdleTimeout = 5 * time.Minute
	defaultPerOwner    = 1024
	defaultTotal       = 16384
)

// firstFD is the first number of a table. 0 means that a request has no fd.
const firstFD = 3

// maxTombstones bounds the closed handles that an owner's table remembers.
const maxTombstones = 64

// Config of New. Zero values mean the defaults.
type Config struct {
	// IdleTimeout is after how long without an operation a handle is closed, by default 5 minutes; negative means never.
	IdleTimeout time.Duration
	// PerOwner bounds the handles of one owner, by default 1,024.
	PerOwner int
	// Total bounds the handles of all owners, by default 16,384. It is lowered to half of RLIMIT_NOFILE. The last quarter is for owners
	// that have less than their share, so that one cannot take what others need.
	Total int
}

func (c Config) withDefaults() Config {
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.PerOwner <= 0 {
		c.PerOwner = defaultPerOwner
	}
	if c.Total <= 0 {
		c.Total = defaultTotal
	}
	if limit := DescriptorLimit(); limit > 0 && c.Total > limit/2 {
		c.Total = limit / 2
	}
	return c
}

// Spec says what a handle stands for.
type Spec struct {
	// Context and Generation are where the file was opened.
	Context    contexts.ID
	Generation uint64
	// Path is the virtual path it was opened by.
	Path string
	// Flags are Node's words for the open flags: "r+".
	Flags string
	// Instance is the client instance whose lease the handle ends with; "" means none.
	Instance string
	// File is closed by the table.
	File rootfs.File
	// Stat has the attributes of the file when it was opened.
	Stat rootfs.Stat
	// IfMatch and IfNoneMatch are the condition under which an atomic file appears.
	IfMatch     string
	IfNoneMatch string
}

// Handle is an open file. Its Spec does not change.
type Handle struct {
	Spec
	FD       int32
	Owner    string
	OpenedAt time.Time

	// Position serialises the operations that use the file's own position.
	Position sync.Mutex

	born     time.Time    // the Table's
	lastUsed atomic.Int64 // coarse, ns since born
	refs     int          // guarded by Table.mu
	gone     bool         // guarded by Table.mu: out of the table
}

// LastUsed returns when an operation last began or ended, give or take a tick of the reaper.
func (h *Handle) LastUsed() time.Time { return h.born.Add(time.Duration(h.lastUsed.Load())) }

// Table holds the handles of all owners. It is safe for concurrent use.
type Table struct {
	cfg Config
	// born is when the clock began. Setting the machine's clock makes no handle idle.
	born   time.Time
	clock  atomic.Int64 // coarse, ns since born
	reaped atomic.Int64

	mu     sync.Mutex
	owners map[string]*ownerTable
	total  int   // open handles and reservations
	floor  int32 // numbers below were used by owners that are gone
	closed bool

	stop chan struct{}
	done chan struct{}
}

type ownerTable struct {
	next     int32
	handles  map[int32]*Handle
	reserved int
	graves   []grave
}

// grave remembers why a handle was closed by the service.
type grave struct {
	fd  int32
	err *fserr.Error
}

// New returns an empty Table and starts its reaper; Close ends it.
func New(cfg Config) *Table {
	t := &Table{
		cfg: cfg.withDefaults(), born: time.Now(), owners: map[string]*ownerTable{}, floor: firstFD,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go t.reap()
	return t
}

// Open calls open and gives its file the owner's next number. The bounds are
// checked before: EMFILE, and open is not called.
func (t *Table) Open(owner string, open func() (Spec, error)) (int32, error) {
	if err := t.reserve(owner); err != nil {
		return 0, err
	}
	spec, err := open()
	if err != nil {
		t.unreserve(owner)
		return 0, err
	}
	fd, err := t.insert(owner, spec)
	if err != nil {
		_ = spec.File.Close()
		return 0, err
	}
	return fd, nil
}

func (t *Table) reserve(owner string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return &fserr.Error{Code: fserr.ECANCELED, Detail: "the server is stopping"}
	}
	o := t.table(owner)
	if len(o.handles)+o.reserved >= t.cfg.PerOwner {
		return &fserr.Error{Code: fserr.EMFILE, Hint: fmt.Sprintf("%d handles are open, the limit of one panel; close some (FsService/ListHandles lists them)", t.cfg.PerOwner)}
	}
	if open := len(o.handles) + o.reserved; t.scarce() && open >= t.share() {
		return &fserr.Error{Code: fserr.EMFILE, Hint: fmt.Sprintf(
			"the server is short of handles and keeps the rest for panels with fewer than your %d; close some (FsService/ListHandles lists them)", open)}
	}
	if t.total >= t.cfg.Total {
		return &fserr.Error{Code: fserr.EMFILE, Hint: fmt.Sprintf("the server has %d handles open, its limit; close some, or try again later", t.cfg.Total)}
	}
	o.reserved++
	t.total++
	return nil
}

// scarce says that only the last quarter of the handles is left. t.mu is held.
func (t *Table) scarce() bool { return t.total >= t.cfg.Total-t.cfg.Total/4 }

// share is what each owner that has handles, and one more, could have at once, at least 1. t.mu is held.
func (t *Table) share() int {
	users := 0
	for _, o := range t.owners {
		if len(o.handles)+o.reserved > 0 {
			users++
		}
	}
	return max(1, t.cfg.Total/(users+1))
}

// table returns the owner's table, made when it is missing. t.mu is held.
func (t *Table) table(owner string) *ownerTable {
	o := t.owners[owner]
	if o == nil {
		o = &ownerTable{next: t.floor, handles: map[int32]*Handle{}}
		t.owners[owner] = o
	}
	return o
}

func (t *Table) unreserve(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total--
	if o := t.owners[owner]; o != nil && o.reserved > 0 {
		o.reserved--
	}
}

func (t *Table) insert(owner string, spec Spec) (int32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owners[owner]
	if o == nil || o.reserved == 0 || t.closed {
		t.total--
		return 0, &fserr.Error{Code: fserr.ECANCELED, Detail: "the panel was closed while the file was being opened"}
	}
	if o.next < 0 {
		t.total--
		o.reserved--
		return 0, &fserr.Error{Code: fserr.EMFILE, Hint: "this panel has used every handle number; restart the server"}
	}
	h := &Handle{Spec: spec, FD: o.next, Owner: owner, OpenedAt: time.Now(), born: t.born}
	h.lastUsed.Store(int64(h.OpenedAt.Sub(t.born)))
	o.handles[h.FD] = h
	o.next++
	o.reserved--
	return h.FD, nil
}

// Use returns the owner's handle fd, which stays open until release is called, exactly once. It fails with EBADF for a number that is
// not the owner's, and for a contextID that is set and not the handle's. If the service closed the handle, the error has the reason.
func (t *Table) Use(owner string, fd int32, contextID string) (h *Handle, release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, err = t.find(owner, fd, contextID)
	if err != nil {
		return nil, nil, err
	}
	h.refs++
	h.lastUsed.Store(t.clock.Load())
	return h, func() { t.release(h) }, nil
}

// SpecOf returns what the owner's handle fd stands for; ok is false if there is none.
func (t *Table) SpecOf(owner string, fd int32) (spec Spec, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, err := t.find(owner, fd, "")
	if err != nil {
		return Spec{}, false
	}
	return h.Spec, true
}

func (t *Table) release(h *Handle) {
	h.lastUsed.Store(t.clock.Load())
	t.mu.Lock()
	h.refs--
	last := h.gone && h.refs == 0
	t.mu.Unlock()
	if last {
		_ = h.File.Close()
	}
}

// Take takes h, which its only user holds by Use, out of the table: its number is gone, and
// its file closes with the user's release. EBUSY while others use it, EBADF when it is gone.
func (t *Table) Take(h *Handle) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case h.gone:
		return badDescriptor(h.FD)
	case h.refs > 1:
		return &fserr.Error{Code: fserr.EBUSY, Detail: fmt.Sprintf("handle %d is in use", h.FD), Hint: "wait for the replies of what uses it"}
	}
	t.remove(h)
	return nil
}

// find looks fd up. t.mu is held.
func (t *Table) find(owner string, fd int32, contextID string) (*Handle, error) {
	o := t.owners[owner]
	if o == nil {
		return nil, badDescriptor(fd)
	}
	if h := o.handles[fd]; h != nil && (contextID == "" || contextID == string(h.Context)) {
		return h, nil
	}
	for _, g := range o.graves {
		if g.fd == fd {
			return nil, g.err
		}
	}
	return nil, badDescriptor(fd)
}

func badDescriptor(fd int32) *fserr.Error {
	return &fserr.Error{Code: fserr.EBADF, Detail: fmt.Sprintf("bad file descriptor %d", fd)}
}
