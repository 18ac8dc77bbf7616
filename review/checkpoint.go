package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Checkpoint is what a context held at one time. Its contents stay in the store until Record or Drop ends it.
type Checkpoint struct {
	reviews *Reviews
	context string
	// digest names the layer that versions change.
	digest   string
	versions map[Path]Version
	// trees are the new directories that are ignored. Their content is not kept.
	trees map[Path]TreeSize
	// journal is the last entry of that time.
	journal int64
}

// Checkpoint keeps what a context holds, for Record. The content of ignored directories is not kept.
func (r *Reviews) Checkpoint(ctx context.Context, id string) (*Checkpoint, error) {
	unlock, err := r.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c, err := r.checkpoint(ctx, id)
	if err == nil {
		err = r.hold(c)
	}
	return c, err
}

// hold keeps the contents of a checkpoint until it ends. It fails with EDQUOT if those of the context would keep too much together. The caller
// has the context's lock.
func (r *Reviews) hold(c *Checkpoint) error {
	kept := map[string]bool{}
	r.mu.Lock()
	for other := range r.checkpoints {
		if other.context == c.context {
			other.use(kept)
		}
	}
	r.mu.Unlock()    // the context's lock keeps others from being added
	delete(kept, "") // of what was removed
	others := len(kept) > 0
	c.use(kept)
	space, err := r.store.space(kept)
	if err != nil {
		return err
	}
	if most := r.bounds.checkpointBytes; others && space > most {
		return &fserr.Error{
			Code: fserr.EDQUOT, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("the commands with a checkpoint that run in the context would keep %s of %s of earlier contents", seed.Size(space), seed.Size(most)),
			Hint:   "wait until one of them has ended, or start the command without a checkpoint",
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkpoints[c] = true
	return nil
}

// use adds the contents of a checkpoint.
func (c *Checkpoint) use(used map[string]bool) {
	for _, v := range c.versions {
		used[v.Hash] = true
	}
}

// Drop ends a checkpoint without a record.
func (c *Checkpoint) Drop() {
	c.reviews.mu.Lock()
	defer c.reviews.mu.Unlock()
	delete(c.reviews.checkpoints, c)
}

func (r *Reviews) checkpoint(ctx context.Context, id string) (_ *Checkpoint, err error) {
	l, origin, err := r.opened(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	next, err := r.journal.next()
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{reviews: r, context: id, digest: origin.Digest, journal: next - 1}
	return c, r.frozen(ctx, id, func(ctx context.Context, root rootfs.Root) error {
		diffs, err := r.compare(ctx, Query{Context: id}, origin, l.base, root, nil)
		if err != nil {
			return err
		}
		if err := r.keepAfter(ctx, root, diffs); err != nil {
			return err
		}
		var beside map[Path]Difference
		c.versions, beside = after(diffs, l.state.Overrides)
		c.trees = map[Path]TreeSize{}
		for p, d := range beside {
			if d.Tree != nil {
				c.trees[p] = *d.Tree
			}
		}
		return nil
	})
}

// keepAfter puts the later versions of differences into the store. If it fails with errLater, it has named all large files.
func (r *Reviews) keepAfter(ctx context.Context, root rootfs.Root, diffs []Difference) (err error) {
	var later error
	for i := range diffs {
		if diffs[i].After, err = r.kept(ctx, root, diffs[i]); errors.Is(err, errLater) {
			later = err
		} else if err != nil {
			return err
		}
	}
	return later
}

// kept puts the later version of a difference into the store. A file that another program writes meanwhile is kept as it was read. A large one that keeps
// changing is not read, and has no hash.
func (r *Reviews) kept(ctx context.Context, root rootfs.Root, d Difference) (Version, error) {
	if !d.After.Exists() || d.Barred != "" || d.Tree != nil || r.store.has(ctx, d.After.Hash) {
		return d.After, nil
	}
	v, _, err := r.store.keep(ctx, root, d.Path)
	if errors.Is(err, errUnstable) {
		err = nil
	}
	return v, err
}

// Recorded is what Record recorded.
type Recorded struct {
	// Entry is the number of the journal entry, 0 if nothing changed.
	Entry int64
	// LeftOut are paths that changed and are not in the entry.
	LeftOut []Path
	// Unrecorded are new directories that are ignored, and that were made, removed, or changed in size: undo leaves them alone.
	Unrecorded []Path
}

// treesBetween returns the new directories that are ignored and differ between two checkpoints.
func treesBetween(from, to *Checkpoint) (paths []Path) {
	all := maps.Clone(from.trees)
	maps.Copy(all, to.trees)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		before, was := from.trees[p]
		if now, is := to.trees[p]; was != is || before != now {
			paths = append(paths, p)
		}
	}
	return paths
}

// Record makes an entry of what a context changed since a checkpoint. It leaves out the paths for which others is true, and those of
// entries that were made meanwhile.
func (r *Reviews) Record(ctx context.Context, from *Checkpoint, actor, command string, others func(Path) bool) (out Recorded, err error) {
	defer from.Drop()
	unlock, err := r.lock(ctx, from.context)
	if err != nil {
		return out, err
	}
	defer unlock()
	to, err := r.checkpoint(ctx, from.context)
	if err != nil {
		return out, err
	}
	if to.digest != from.digest {
		return out, refuse(StaleRevision, nil, "the context was replaced meanwhile", "")
	}
	journaled, err := r.changedBy(from.context, from.journal)
	if err != nil {
		return out, err
	}
	e := &Entry{Kind: EntryExec, Context: from.context, Actor: actor, Command: command, InContext: true}
	changed, err := r.stepsBetween(ctx, from, to)
	if err != nil {
		return out, err
	}
	for _, s := range changed {
		if journaled[s.Path] || others(s.Path) || isUnread(s.Before) || isUnread(s.After) {
			out.LeftOut = append(out.LeftOut, s.Path)
		} else {
			e.Steps = append(e.Steps, s)
		}
	}
	e.Unrecorded = treesBetween(from, to)
	out.Unrecorded = e.Unrecorded
	if len(e.Steps) == 0 {
		return out, nil
	}
	err = r.append(ctx, e)
	out.Entry = e.ID
	return out, err
}

// changedBy lists the paths of a context that entries after one have changed.
func (r *Reviews) changedBy(id string, after int64) (map[Path]bool, error) {
	ids, err := r.journal.ids(doneSuffix)
	if err != nil {
		return nil, err
	}
	out := map[Path]bool{}
	for _, n := range ids {
		if n <= after {
			continue
		}
		e, err := r.journal.listed(n, doneSuffix)
		if err != nil {
			return nil, err
		}
		if e == nil || e.Context != id || !e.InContext {
			continue
		}
		for _, s := range e.Steps {
			out[s.Path] = true
		}
	}
	return out, nil
}

// stepsBetween lists what differs between two checkpoints of a context, or what one of them did not read. All other contents are in the store then. It leaves out what is below a directory whose
// content one of them did not keep: the workspace's ignore files may have changed between them.
func (r *Reviews) stepsBetween(ctx context.Context, from, to *Checkpoint) (steps []step, err error) {
	origin, err := r.cfg.Contexts.Origin(ctx, from.context)
	if err != nil {
		return nil, err
	}
	layer, err := r.baseOf(origin, &state{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, layer.close()) }()
	paths := map[Path]Version{}
	maps.Copy(paths, from.versions)
	maps.Copy(paths, to.versions)
	unkept := map[Path]bool{}
	for _, at := range []*Checkpoint{from, to} {
		for p := range at.trees {
			unkept[p] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if below(p, unkept) {
			continue
		}
		s := step{Path: p}
		for _, side := range []struct {
			at  *Checkpoint
			out *Version
		}{{from, &s.Before}, {to, &s.After}} {
			v, ok := side.at.versions[p]
			if !ok {
				if v, err = r.keepEntry(ctx, layer, layer.lookup(p)); err != nil {
					return nil, err
				}
			}
			*side.out = v
		}
		if s.did() != Unchanged || isUnread(s.Before) {
			steps = append(steps, s)
		}
	}
	return steps, nil
}

// isUnread reports whether a version has no hash, since its file kept changing.
func isUnread(v Version) bool { return v.Exists() && v.Hash == "" }

// append adds an entry of what was done already.
func (r *Reviews) append(ctx context.Context, e *Entry) error {
	free, err := r.lockWorkspace(ctx)
	if err != nil {
		return err
	}
	defer free()
	if err := r.resolve(ctx); err != nil {
		return err
	}
	if e.ID, err = r.journal.next(); err != nil {
		return err
	}
	e.At = time.Now().UTC()
	if err := r.journal.write(e, doneSuffix); err != nil {
		return err
	}
	r.boundJournal()
	return nil
}

// EntryChanges lists what an entry of a context's journal changed. may is asked whether the caller may read it. Close the List.
func (r *Reviews) EntryChanges(ctx context.Context, id string, entry int64, may func(e *Entry) error) (_ *List, err error) {
	e, err := r.journal.read(entry, doneSuffix)
	if err == nil && e.Context != id {
		err = noEntry(entry)
	}
	if err == nil {
		err = may(e)
	}
	if err != nil {
		return nil, err
	}
	l := &List{context: id, state: &state{}, base: &base{store: r.store, overrides: map[Path]Version{}}, stored: true, room: newRoom(ctx)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, s := range e.Steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d := Difference{Path: s.Path, Before: s.Before, After: s.After}
		if s.did() == Unchanged {
			continue
		}
		l.base.overrides[s.Path] = s.Before
		c, err := describe(ctx, l.room, d, r.store.opener(s.Before), r.store.opener(s.After), false)
		if err != nil {
			return nil, err
		}
		if err := l.room.keepText(c.Text); err != nil {
			return nil, err
		}
		c.withoutIDs()
		l.Changes = append(l.Changes, c)
	}
	renames(l.Changes)
	return l, nil
}
