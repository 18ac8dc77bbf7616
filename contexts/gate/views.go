package gate

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/keyed"
)

// viewIdle is how long a snapshot stays open after its last user left.
const viewIdle = time.Minute

// Kept is a snapshot on disk.
type Kept struct {
	Context catalog.ID
	Name    string
	// Taken is when it was taken, ns since the epoch. It distinguishes the snapshot from another one that had the same name.
	Taken int64
}

// Views are the snapshots that are open for reading in this process. A snapshot is opened at its first use, and closed a minute after its
// last one. The zero Views has none.
type Views struct {
	mu     sync.Mutex
	open   map[Kept]*view
	closed bool
	// opening has a lock per snapshot.
	opening keyed.Locks
}

// view is a snapshot that is open.
type view struct {
	root rootfs.Root
	// dir is where the snapshot is, and found what was there when it was opened.
	dir   string
	found os.FileInfo
	// born is when it was opened; checked is when dir was last looked at, and counts from then.
	born    time.Time
	checked time.Duration
	users   int
	// gone says that the last user must close the root.
	gone bool
	idle *time.Timer
}

// Acquire opens a snapshot for reading. If the snapshot is not open, it calls find for where the snapshot is and how to open it. The caller
// must call Access.Release exactly once. The generation of the Access is Kept.Taken.
func (v *Views) Acquire(ctx context.Context, k Kept, find func(ctx context.Context) (dir string, root rootfs.Root, err error)) (*Access, error) {
	if a := v.use(k); a != nil {
		return a, nil
	}
	unlock, err := v.opening.Lock(ctx, string(k.Context)+"@"+k.Name)
	if err != nil {
		return nil, catalog.Busy(k.Context, "has a snapshot that is being opened")
	}
	defer unlock()
	if a := v.use(k); a != nil {
		return a, nil
	}
	dir, root, err := find(ctx)
	if err != nil {
		return nil, err
	}
	found, err := os.Lstat(dir)
	if err == nil && !v.put(k, &view{root: root, dir: dir, found: found, born: time.Now()}) {
		err = catalog.Stopped(k.Context)
	}
	if err != nil {
		_ = root.Close() // nothing was written
		return nil, err
	}
	if a := v.use(k); a != nil {
		return a, nil
	}
	return nil, catalog.Busy(k.Context, "has a snapshot that is being deleted")
}

// put adds a view, unless Close was called.
func (v *Views) put(k Kept, w *view) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	if v.open == nil {
		v.open = map[Kept]*view{}
	}
	w.idle = time.AfterFunc(viewIdle, func() { v.expire(k, w) })
	v.open[k] = w
	return true
}

// use returns an Access to a snapshot that is open, or nil.
func (v *Views) use(k Kept) *Access {
	v.mu.Lock()
	w := v.open[k]
	if w == nil {
		v.mu.Unlock()
		return nil
	}
	w.users++
	w.idle.Stop()
	now := time.Since(w.born)
	due := now-w.checked > recheck
	if due {
		w.checked = now
	}
	v.mu.Unlock()
	if due && !w.stillThere() { // another process deleted it
		v.Drop(func(other Kept) bool { return other == k })
		v.leave(w)
		return nil
	}
	return NewAccess(w.root, uint64(k.Taken), func() { v.leave(w) })
}

func (w *view) stillThere() bool {
	st, err := os.Lstat(w.dir)
	return err == nil && os.SameFile(st, w.found)
}

// leave ends one use.
func (v *Views) leave(w *view) {
	v.mu.Lock()
	w.users--
	last := w.users == 0
	if last && !w.gone {
		w.idle.Reset(viewIdle)
	}
	last = last && w.gone
	v.mu.Unlock()
	if last {
		_ = w.root.Close() // nothing was written
	}
}

// expire closes a view that nobody used for a while.
func (v *Views) expire(k Kept, w *view) {
	v.end(func(other Kept, o *view) bool { return other == k && o == w && o.users == 0 })
}

// Drop closes the snapshots that which selects, each when its last user has left. Later uses look for them again.
func (v *Views) Drop(which func(Kept) bool) {
	v.end(func(k Kept, _ *view) bool { return which(k) })
}

// Close closes all of them, and opens no others.
func (v *Views) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.end(func(Kept, *view) bool { return true })
}

func (v *Views) end(which func(Kept, *view) bool) {
	v.mu.Lock()
	var unused []*view
	for k, w := range v.open {
		if !which(k, w) {
			continue
		}
		delete(v.open, k)
		w.idle.Stop()
		if w.gone = true; w.users == 0 {
			unused = append(unused, w)
		}
	}
	v.mu.Unlock()
	for _, w := range unused {
		_ = w.root.Close() // nothing was written
	}
}
