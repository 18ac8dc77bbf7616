package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
)

// BatchOptions of Batch.
type BatchOptions struct {
	// Steps returns the steps. It is called when no other caller changes the context.
	Steps func(a *Access) ([]batch.Step, error)
	// DryRun only plans the batch.
	DryRun bool
	// Diff describes the changes in Batched.Diff. Reserve is called with the memory that this takes, in bytes, before that grows.
	Diff    bool
	Reserve func(bytes int64) error
	// Sync flushes the new contents to the disk.
	Sync bool
}

// Batched is Batch's result.
type Batched struct {
	// Written has the attributes of what each step wrote, nil for a step that wrote nothing that is there after the last one.
	Written []*rootfs.Stat
	// Diff is a unified diff of all changes; DiffCut says that it would be longer.
	Diff    []byte
	DiffCut bool
	// Bytes counts the content that was written.
	Bytes int64
}

// Batch carries out steps as one change. Other batches, and callers that change the context, wait until it ends; callers that read it wait
// during the renames at the end. It waits at most DrainTime for the operations inside, and fails with EBUSY if they do not end. Commands
// that run in the context are not paused: if they change what the batch relies on, it fails. If the batch fails, nothing is changed.
func (t *Gates) Batch(ctx context.Context, id catalog.ID, opts BatchOptions) (out Batched, err error) {
	turn, err := t.batches.Lock(ctx, string(id))
	if err != nil {
		return out, catalog.Busy(id, "has another batch")
	}
	defer turn()
	unlock, err := t.cat.LockContext(ctx, id, func() {})
	if err != nil {
		return out, catalog.Busy(id, "is being copied or replaced")
	}
	defer unlock()
	a, err := t.Acquire(ctx, id, Read)
	if err != nil {
		return out, err
	}
	defer a.Release()
	return (&batchRun{gates: t, access: a, opts: opts}).run(ctx)
}

// batchRun is one Batch.
type batchRun struct {
	gates  *Gates
	access *Access
	opts   BatchOptions
	batch  *batch.Batch
}

func (r *batchRun) run(ctx context.Context) (Batched, error) {
	dir := r.gates.cat.Layout.Batch(r.access.id)
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return Batched{}, err
	}
	release, err := catalog.LockDirectory(ctx, dir)
	if err != nil {
		return Batched{}, err
	}
	defer release()
	out, flipped, err := r.change(ctx, dir)
	if !flipped {
		return out, err
	}
	if err := r.batch.Clean(context.WithoutCancel(ctx)); err != nil { // the changes are made
		r.gates.cat.Log.Warn("what a batch replaced takes space until the context is opened again", zap.String("context", string(r.access.id)), zap.Error(err))
	}
	return out, nil
}

// change makes the changes. flipped says that they are made.
func (r *batchRun) change(ctx context.Context, dir string) (out Batched, flipped bool, err error) {
	g, id := r.access.gate, r.access.id
	limit := r.gates.cfg.DrainTime
	drained := g.freeze()
	defer g.thaw()
	if err := g.drain(ctx, id, Write, drained, limit); err != nil {
		return out, false, err
	}
	if err := batch.Recover(context.WithoutCancel(ctx), r.access.Root, dir); err != nil { // what the last one could not remove
		return out, false, broken(id, err)
	}
	if out, err = r.prepare(ctx, dir); err != nil || r.opts.DryRun {
		return out, false, err
	}
	if err := r.alone(ctx, g); err != nil {
		return Batched{}, false, errors.Join(err, r.batch.Drop())
	}
	out.Written, err = r.batch.Flip()
	if errors.Is(err, batch.ErrBroken) {
		r.gates.cat.Log.Error("a batch failed and could not be undone; the next access tries again", zap.String("context", string(id)), zap.Error(err))
		r.gates.replaced(id, g)
		err = broken(id, err)
	}
	return out, err == nil, err
}

// secludeTime is how long readers are kept out at a time while a batch waits for those inside.
const secludeTime = 100 * time.Millisecond

// alone waits until nobody else is inside, DrainTime at most. If a reader stays, the others come in again between the attempts.
func (r *batchRun) alone(ctx context.Context, g *gate) error {
	limit := r.gates.cfg.DrainTime
	for end := time.Now().Add(limit); ; {
		if err := g.drain(ctx, r.access.id, Read, g.seclude(), min(secludeTime, limit)); err == nil || ctx.Err() != nil {
			return err
		}
		g.include()
		if !time.Now().Before(end) {
			return inUse(r.access.id, g.inside(Read), limit)
		}
		select {
		case <-time.After(secludeTime):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// prepare plans and stages the batch.
func (r *batchRun) prepare(ctx context.Context, dir string) (out Batched, err error) {
	steps, err := r.opts.Steps(r.access)
	if err != nil {
		return out, err
	}
	if r.batch, err = batch.New(ctx, r.access.Root, steps); err != nil {
		return out, err
	}
	r.batch.Point = func(phase string) { r.gates.cat.Events.Step("batch-" + phase) }
	if r.opts.Diff {
		if out.Diff, out.DiffCut, err = r.batch.Diff(ctx, r.opts.Reserve); err != nil {
			return out, err
		}
	}
	cost := r.batch.Cost()
	if err := r.access.Charge(cost.Takes, cost.Entries); err != nil || r.opts.DryRun {
		return out, err
	}
	out.Bytes = cost.Size
	return out, r.batch.Stage(ctx, dir, r.opts.Sync)
}

// recoverBatch undoes what an interrupted batch did to a context that is being opened.
func (t *Gates) recoverBatch(ctx context.Context, id catalog.ID, root rootfs.Root) error {
	dir := t.cat.Layout.Batch(id)
	if !batch.Pending(dir) {
		return nil
	}
	release, err := catalog.LockDirectory(ctx, dir) // the batch of another process may be running
	if err != nil {
		return catalog.Busy(id, "has a batch that another process carries out")
	}
	defer release()
	err = batch.Recover(context.WithoutCancel(ctx), root, dir)
	if errors.Is(err, batch.ErrLeftovers) {
		t.cat.Log.Warn("what an earlier batch replaced could not be removed: further batches fail until it is", zap.String("context", string(id)), zap.Error(err))
		return nil
	}
	if err != nil {
		return broken(id, err)
	}
	t.cat.Log.Info("undid an interrupted batch", zap.String("context", string(id)))
	return nil
}

// broken is the error of a context with an interrupted batch that cannot be undone now, or a finished one that cannot be removed.
func broken(id catalog.ID, err error) error {
	if errors.Is(err, batch.ErrLeftovers) {
		return catalog.Wrap(id, "cannot carry out a further batch", err)
	}
	told := fserr.Error{Code: fserr.CodeOf(err)}
	if e, ok := errors.AsType[*fserr.Error](err); ok {
		told = *e
	}
	told.Err = fmt.Errorf("%w: %w", batch.ErrBroken, err)
	told.Hint = "remove what is in the way in its folder, such as a mount, and retry; or restore a snapshot of the context, or delete it; " +
		"or stop the server and run 'ctxfs doctor --repair', which leaves the changes half made"
	return catalog.Wrap(id, "has an interrupted batch that could not be undone", &told)
}

// GiveUpBatch makes a context usable that has a batch which cannot be undone: it is left half made. It returns the directories in the context
// that have what could not be put back. ended is false if there was no such batch.
func (t *Gates) GiveUpBatch(ctx context.Context, id catalog.ID) (kept []string, ended bool, err error) {
	if !batch.Pending(t.cat.Layout.Batch(id)) {
		return nil, false, nil
	}
	a, err := t.Acquire(ctx, id, Read)
	if err == nil { // it was undone
		a.Release()
		return nil, false, nil
	}
	if !errors.Is(err, batch.ErrBroken) {
		return nil, false, err
	}
	unlock, err := t.Opening(ctx, id)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	root, _, err := t.openRoot(id) // Acquire has mounted it
	if err != nil {
		return nil, false, err
	}
	kept, err = batch.GiveUp(ctx, root, t.cat.Layout.Batch(id))
	return kept, err == nil, errors.Join(err, root.Close())
}

// Rest says that an operation that reads does nothing with the context until it calls resume, such as while its client does not read what
// it has sent: a batch does not wait for it. resume waits until a batch ends that has the context to itself, or fails when ctx ends.
func (a *Access) Rest() (resume func(ctx context.Context) error) {
	if a.gate == nil {
		return func(context.Context) error { return nil }
	}
	a.gate.rest(1)
	return a.gate.resumeReading
}

func (g *gate) rest(more int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resting += more
	g.checkSecluded()
}

func (g *gate) resumeReading(ctx context.Context) error {
	for {
		wait := g.restEnds()
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			g.rest(-1) // the operation ends
			return ctx.Err()
		}
	}
}

// restEnds ends a Rest, unless it returns a channel to wait for.
func (g *gate) restEnds() (wait <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.secluded {
		return g.turn
	}
	g.resting--
	return nil
}

// seclude blocks every operation on a frozen gate, until thaw. It returns a channel that is closed when those inside have left, but for the
// caller, pausers and users that rest.
func (g *gate) seclude() (alone <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ch := make(chan struct{})
	g.secluded, g.secluding = true, ch
	g.checkSecluded()
	return ch
}

// include undoes seclude: it wakes the blocked callers. Those that may change something then wait for another turn.
func (g *gate) include() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.secluded, g.secluding = false, nil
	if !g.shut { // else the gate may be retired, and its last turn over
		close(g.turn)
		g.turn = make(chan struct{})
	}
}

// checkSecluded closes secluding when it is time. mu is held.
func (g *gate) checkSecluded() {
	if g.secluding != nil && g.users-len(g.pausers)-g.resting <= 1 {
		close(g.secluding)
		g.secluding = nil
	}
}
