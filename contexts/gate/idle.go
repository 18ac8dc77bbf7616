package gate

import (
	"context"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/metadata"
)

// idleTime bounds how long Idle waits, first for writers and then for all other operations. Writers wait for as long.
const idleTime = 100 * time.Millisecond

// Freeze has a driver make a part of what a context changed (driver.Sharer), and then calls f, before anybody can change the context
// again. Nothing that is open in the context suffers: Freeze fails with EBUSY, and leaves the context as it was, if operations, handles,
// watches or programs use it. The context keeps its generation. The context's lock is held.
func (t *Gates) Freeze(ctx context.Context, rec metadata.Context, d driver.Sharer, f func(part string) error) error {
	if err := t.Show(ctx, rec); err != nil {
		return err
	}
	p := t.Mounts.place(d, rec)
	if err := d.Sharable(ctx, p); err != nil {
		return err
	}
	part, err := d.NewPart(ctx, p)
	if err != nil {
		return err
	}
	t.cat.Events.Step("part-made")
	frozen := false
	err = t.idle(ctx, rec, func() error {
		release, err := catalog.LockDirectory(ctx, p.State) // no other process mounts it meanwhile
		if err != nil {
			return err
		}
		defer release()
		if err := d.Freeze(ctx, p, part); err != nil {
			return err
		}
		frozen = true
		t.cat.Events.Step("frozen")
		return f(part)
	})
	if !frozen {
		t.cat.Staging.Discard(filepath.Join(d.Parts(), part))
	}
	return err
}

// Sharable fails if a driver cannot make a part of what a context changed.
func (t *Gates) Sharable(ctx context.Context, rec metadata.Context, d driver.Sharer) error {
	return d.Sharable(ctx, t.Mounts.place(d, rec))
}

// idle calls f while no operation is inside a context and its root is closed. Unlike Take it ends no operation: it fails with EBUSY if they
// do not end by themselves.
func (t *Gates) idle(ctx context.Context, rec metadata.Context, f func() error) error {
	id := catalog.ID(rec.ID)
	g, err := t.gate(ctx, id, t.openGate)
	if err != nil {
		return err
	}
	unlock, err := t.Opening(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	drained := g.freeze()
	defer g.thaw()
	if err := g.drain(ctx, id, Write, drained, idleTime); err != nil {
		return err
	}
	idle, ok := g.hold()
	if !ok { // its folder was replaced by hand
		return inUse(id, g.inside(Read), 0)
	}
	if err := g.drain(ctx, id, Read, idle, idleTime); err != nil {
		g.resume()
		return err
	}
	t.gates.CompareAndDelete(id, g) // callers wait in Opening
	g.closeRoot()
	defer g.retire()
	err = f()
	rec.Generation = g.generation
	if _, e := t.openGate(context.WithoutCancel(ctx), rec); err == nil {
		err = e // the next access opens it, or gets the error
	}
	return err
}
