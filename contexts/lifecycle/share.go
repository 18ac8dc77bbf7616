package lifecycle

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/metadata"
)

// points are the latest moments of contexts that copies share: a copy that was requested before a moment, and waited, is of that moment too.
type points struct {
	mu sync.Mutex
	// clock orders requests and moments.
	clock uint64
	by    map[catalog.ID]*point
}

// point is the latest moment of a context of which copies are requested.
type point struct {
	requests   int
	at         uint64
	part       string
	generation uint64
}

// request announces a copy of a context, and returns when that was. The caller must call done when it has the copy.
func (p *points) request(id catalog.ID) (asked uint64, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.by[id]
	if q == nil {
		q = &point{}
		p.by[id] = q
	}
	q.requests++
	p.clock++
	return p.clock, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if q.requests--; q.requests == 0 {
			delete(p.by, id)
		}
	}
}

// keep remembers the part that was made of a context just now.
func (p *points) keep(rec metadata.Context, part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock++
	if q := p.by[catalog.ID(rec.ID)]; q != nil {
		q.at, q.part, q.generation = p.clock, part, rec.Generation
	}
}

// since returns a part that was made after a request, or "".
func (p *points) since(rec metadata.Context, asked uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.by[catalog.ID(rec.ID)]; q != nil && q.at > asked && q.generation == rec.Generation {
		return q.part
	}
	return ""
}

// crowded reports whether several copies of a context are requested.
func (p *points) crowded(id catalog.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.by[id]
	return q != nil && q.requests > 1
}

// share makes dst a copy of a context that shares what the context changed, if that is worth it and nothing is open in the context. It
// returns false if the caller must copy the changes.
func (c *changes) share(ctx context.Context, rec metadata.Context, d driver.Sharer, state, dst string, asked uint64) (shared bool, err error) {
	if part := c.points.since(rec, asked); part != "" {
		if _, err := os.Lstat(filepath.Join(d.Parts(), part)); err == nil {
			return true, d.OnPart(part, dst)
		}
	}
	if d.Small(ctx, state) {
		return false, nil
	}
	err = c.gates.Freeze(ctx, rec, d, func(part string) error {
		c.points.keep(rec, part)
		return d.OnPart(part, dst)
	})
	if _, begun := os.Lstat(dst); err == nil || begun == nil || ctx.Err() != nil {
		return true, err
	}
	c.cat.Log.Debug("a context is copied file by file", zap.String("context", rec.ID), zap.Error(err))
	if !c.points.crowded(catalog.ID(rec.ID)) {
		return false, nil
	}
	return true, c.copyPart(ctx, rec, d, state, dst)
}

// copyPart makes dst a copy of a context that is in use. The copies that wait for their turn share the part that it copies.
func (c *changes) copyPart(ctx context.Context, rec metadata.Context, d driver.Sharer, state, dst string) error {
	id, name := catalog.ID(rec.ID), rand.Text()
	part := filepath.Join(d.Parts(), name)
	if err := c.room(ctx, id, state); err != nil {
		return err
	}
	if err := durable.MkdirAll(d.Parts(), 0o700); err != nil {
		return err
	}
	var sharable error
	err := c.duplicate(ctx, id, d, state, part, func(f func(context.Context) error) error {
		return c.gates.Frozen(ctx, id, func(ctx context.Context) error {
			sharable = c.gates.Sharable(ctx, rec, d)
			if sharable == nil {
				c.points.keep(rec, name)
			}
			return f(ctx)
		})
	})
	switch {
	case err != nil:
		c.points.keep(rec, "")
		c.cat.Staging.Discard(part)
		return err
	case sharable != nil:
		return disk.RenameNoReplace(part, dst)
	}
	return d.OnPart(name, dst)
}

// unusedParts lists the directories of parts that no context and no snapshot leads to. The caller holds the work lock alone, so that no
// copy is being made. If something cannot be read, no part is unused.
func (c *changes) unusedParts() ([]string, error) {
	var unused []string
	for _, d := range c.cat.Drivers.Sharers() {
		entries, err := os.ReadDir(d.Parts())
		if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
			continue
		}
		if err != nil {
			return nil, catalog.NotListed("the parts of contexts", err)
		}
		used, err := c.partsInUse(d)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !used[e.Name()] {
				unused = append(unused, filepath.Join(d.Parts(), e.Name()))
			}
		}
	}
	return unused, nil
}

// partsInUse names the parts that the states of contexts and snapshots lead to.
func (c *changes) partsInUse(d driver.Sharer) (map[string]bool, error) {
	states, err := c.statesOf(d)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, state := range states {
		names, err := d.PartsOf(state)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			used[name] = true
		}
	}
	return used, nil
}

// statesOf lists the states of the contexts and snapshots of a driver.
func (c *changes) statesOf(d driver.Sharer) ([]string, error) {
	states, err := entriesOf(c.cat.Layout.DriverState(d.Name(), ""))
	if err != nil {
		return nil, err
	}
	contexts, err := entriesOf(c.cat.Layout.Snapshots)
	if err != nil {
		return nil, err
	}
	for _, dir := range contexts {
		kept, err := entriesOf(dir)
		if err != nil {
			return nil, err
		}
		for _, snapshot := range kept {
			r, err := readSnapshot(snapshot)
			if err != nil {
				return nil, err
			}
			if r.Driver == d.Name() { // the data of others is what a panel wrote
				states = append(states, filepath.Join(snapshot, snapshotData))
			}
		}
	}
	return states, nil
}

// entriesOf lists the paths in a directory, which need not exist.
func entriesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, catalog.NotListed("the state of contexts", err)
	}
	paths := make([]string, len(entries))
	for i, e := range entries {
		paths[i] = filepath.Join(dir, e.Name())
	}
	return paths, nil
}

// dropParts removes the parts that only a deleted context or snapshot led to. It leaves them to the next collection if contexts are being made, or if
// it fails.
func (c *changes) dropParts(ctx context.Context) {
	release, ok, err := c.cat.Locks.TryAlone(catalog.WorkLock)
	if err != nil || !ok {
		return
	}
	unused, err := c.unusedParts()
	var t *trash
	if err == nil && len(unused) > 0 {
		t, err = c.newTrash(ctx)
	}
	for i := 0; err == nil && i < len(unused); i++ {
		err = disk.RenameNoReplace(unused[i], filepath.Join(t.dir, strconv.Itoa(i)))
	}
	release()
	if err != nil {
		c.cat.Log.Warn("parts of a deleted context stay until the next collection", zap.Error(catalog.Cause(err)))
	}
	if t != nil {
		_, _ = c.empty(ctx, t) // the next sweep removes what is left
	}
}
