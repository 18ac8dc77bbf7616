package handles

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
)

// CloseFD closes the owner's handle fd, as Use finds it. While operations on it run
// the number is gone at once and the file closes when they end.
func (t *Table) CloseFD(owner string, fd int32, contextID string) error {
	t.mu.Lock()
	h, err := t.find(owner, fd, contextID)
	if err != nil {
		t.mu.Unlock()
		return err
	}
	idle := t.remove(h)
	t.mu.Unlock()
	if idle {
		return h.File.Close()
	}
	return nil
}

// remove takes h out of its table and reports whether the caller must close its file now. t.mu is held.
func (t *Table) remove(h *Handle) bool {
	delete(t.owners[h.Owner].handles, h.FD)
	t.total--
	h.gone = true
	return h.refs == 0
}

// bury removes h and remembers why. t.mu is held.
func (t *Table) bury(h *Handle, why *fserr.Error) bool {
	o := t.owners[h.Owner]
	if len(o.graves) >= maxTombstones {
		o.graves = slices.Delete(o.graves, 0, 1)
	}
	o.graves = append(o.graves, grave{h.FD, why})
	return t.remove(h)
}

func closeAll(hs []*Handle) {
	for _, h := range hs {
		_ = h.File.Close()
	}
}

// CloseOwner closes the owner's handles and forgets its table. It returns how many were open.
func (t *Table) CloseOwner(owner string) int {
	t.mu.Lock()
	o := t.owners[owner]
	if o == nil {
		t.mu.Unlock()
		return 0
	}
	n := len(o.handles)
	idle := t.removeIf(func(h *Handle) *fserr.Error {
		if h.Owner != owner {
			return nil
		}
		return &fserr.Error{Code: fserr.EBADF}
	})
	t.floor = max(t.floor, o.next)
	delete(t.owners, owner)
	t.mu.Unlock()
	closeAll(idle)
	return n
}

// CloseInstance closes the handles of an owner's client instance that is gone, and
// returns how many were open.
func (t *Table) CloseInstance(owner, instance string) int {
	t.mu.Lock()
	o := t.owners[owner]
	if o == nil {
		t.mu.Unlock()
		return 0
	}
	before := len(o.handles)
	var idle []*Handle
	for _, h := range o.handles {
		if h.Instance == instance && t.bury(h, instanceGone(h)) {
			idle = append(idle, h)
		}
	}
	n := before - len(o.handles)
	t.mu.Unlock()
	closeAll(idle)
	return n
}

func instanceGone(h *Handle) *fserr.Error {
	return &fserr.Error{Code: fserr.EBADF, Detail: fmt.Sprintf("bad file descriptor %d (closed: its client instance is gone)", h.FD)}
}

// CloseContext closes the handles of a context that was deleted, restored, or replaced or unmounted by another program. It returns
// how many were open. Their later use is ESTALE.
func (t *Table) CloseContext(id contexts.ID) int {
	t.mu.Lock()
	before := t.open()
	idle := t.removeIf(func(h *Handle) *fserr.Error {
		if h.Context != id {
			return nil
		}
		return &fserr.Error{
			Code: fserr.ESTALE, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("handle %d is closed: context '%s' was deleted, restored, replaced or unmounted", h.FD, id),
			Hint:   "open the file again",
		}
	})
	n := before - t.open()
	t.mu.Unlock()
	closeAll(idle)
	return n
}

// removeIf buries the handles for which why gives a reason and returns those whose
// files are to be closed now. t.mu is held.
func (t *Table) removeIf(why func(*Handle) *fserr.Error) []*Handle {
	var idle []*Handle
	for _, o := range t.owners {
		for _, h := range o.handles {
			if reason := why(h); reason != nil && t.bury(h, reason) {
				idle = append(idle, h)
			}
		}
	}
	return idle
}

// open counts the open handles. t.mu is held.
func (t *Table) open() int {
	n := 0
	for _, o := range t.owners {
		n += len(o.handles)
	}
	return n
}

// Count returns the number of open handles of all owners.
func (t *Table) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open()
}

// Reaped returns how many handles were closed for being idle.
func (t *Table) Reaped() int64 { return t.reaped.Load() }

// List returns the handles of owner, or of all owners when it is "", by owner and fd.
func (t *Table) List(owner string) []*Handle {
	t.mu.Lock()
	var hs []*Handle
	for name, o := range t.owners {
		if owner != "" && name != owner {
			continue
		}
		for _, h := range o.handles {
			hs = append(hs, h)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(hs, func(a, b *Handle) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.FD, b.FD))
	})
	return hs
}

// Close ends the reaper, waits for it, and closes every handle. Calling it again does nothing.
func (t *Table) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		<-t.done
		return nil
	}
	t.closed = true
	idle := t.removeIf(func(*Handle) *fserr.Error { return &fserr.Error{Code: fserr.EBADF} })
	t.mu.Unlock()
	closeAll(idle)
	close(t.stop)
	<-t.done
	return nil
}

// tick is how often the reaper looks, which is also the clock's resolution.
func (t *Table) tick() time.Duration {
	if t.cfg.IdleTimeout < 0 {
		return 10 * time.Second
	}
	return min(max(t.cfg.IdleTimeout/10, 10*time.Millisecond), 10*time.Second)
}

func (t *Table) reap() {
	defer close(t.done)
	ticker := time.NewTicker(t.tick())
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case now := <-ticker.C:
			t.clock.Store(int64(now.Sub(t.born)))
			t.closeIdle(now)
		}
	}
}

// closeIdle closes what was idle for the timeout. A touch may be a tick older than
// the clock told, so a tick more is waited.
func (t *Table) closeIdle(now time.Time) {
	if t.cfg.IdleTimeout < 0 {
		return
	}
	limit := int64(now.Sub(t.born) - t.cfg.IdleTimeout - t.tick())
	t.mu.Lock()
	before := t.open()
	idle := t.removeIf(func(h *Handle) *fserr.Error {
		if h.refs > 0 || h.lastUsed.Load() > limit {
			return nil
		}
		return &fserr.Error{Code: fserr.EBADF, Detail: fmt.Sprintf("bad file descriptor %d (closed after %s idle)", h.FD, short(t.cfg.IdleTimeout))}
	})
	t.reaped.Add(int64(before - t.open()))
	t.mu.Unlock()
	closeAll(idle)
}

// short prints 5m0s as 5m.
func short(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
