package review

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Submit says that a context's changes are ready to be reviewed, and keeps them as a revision, with which the context can be compared later.
func (r *Reviews) Submit(ctx context.Context, id, title, message, actor string) (*List, error) {
	unlock, err := r.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var rev *revision
	l, err := r.changes(ctx, Query{Context: id}, func(root rootfs.Root, l *List) (err error) {
		rev, err = r.seal(root, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.revisions.write(id, rev); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.state.Submitted = &Submission{Title: title, Message: message, Revision: l.Revision, Actor: actor, At: time.Now().UTC()}
	if err := r.states.write(id, l.state); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	r.tell(id, Event{Kind: EventSubmitted})
	return l, l.Close()
}

// Submission returns what was submitted last, nil for nothing.
func (l *List) Submission() *Submission { return l.state.Submitted }

// State says how far a review is.
type State int

// The states, in the order of the proto's.
const (
	StateNone State = iota
	StateOpen
	StateSubmitted
	StatePartlyDecided
	StateDecided
)

// Counts are those of a List.
type Counts struct {
	Changes, Approved, Rejected, Undecided int
	Added, Removed                         int64
}

// Counts counts the changes and their lines.
func (l *List) Counts() Counts {
	out := Counts{Changes: len(l.Changes)}
	for _, c := range l.Changes {
		if c.Text != nil {
			added, removed := c.Text.Lines()
			out.Added += int64(added)
			out.Removed += int64(removed)
		}
		approved, rejected, undecided := l.decisions(c)
		if approved {
			out.Approved++
		}
		if rejected {
			out.Rejected++
		}
		if undecided {
			out.Undecided++
		}
	}
	return out
}

// decisions says whether some of a change is approved, rejected and undecided.
func (l *List) decisions(c *Change) (approved, rejected, undecided bool) {
	whole, hunks := l.Verdict(c)
	all := []Verdict{whole}
	if hs := c.Hunks(); len(hs) > 0 && whole.Decision == "" {
		all = nil
		for _, h := range hs {
			all = append(all, hunks[h.ID])
		}
	} else {
		all = slices.AppendSeq(all, maps.Values(hunks))
	}
	for _, v := range all {
		approved = approved || v.Decision == Approved
		rejected = rejected || v.Decision == Rejected
		undecided = undecided || v.Decision == ""
	}
	return approved, rejected, undecided
}

// State returns how far the review is.
func (l *List) State() State {
	n := l.Counts()
	switch {
	case n.Changes == 0:
		return StateNone
	case n.Undecided == 0:
		return StateDecided
	case n.Approved+n.Rejected > 0:
		return StatePartlyDecided
	case l.state.Submitted != nil && l.state.Submitted.Revision == l.Revision:
		return StateSubmitted
	}
	return StateOpen
}

// Discard puts the base's content back into the context, for what is selected.
func (r *Reviews) Discard(ctx context.Context, id string, sel Selection, ifRevision, actor string) (e *Entry, err error) {
	unlock, err := r.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	l, chosen, _, err := r.choose(ctx, id, sel, ifRevision)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	e = &Entry{Kind: EntryDiscard, Context: id, Actor: actor, InContext: true}
	for _, c := range chosen {
		want := c.Before
		if c.hunks != nil {
			if want, _, err = r.part(c.Path, c.Before, c.After, func(h *Hunk) bool { return !c.hunks[h.ID] }); err != nil {
				return nil, err
			}
		}
		e.Steps = append(e.Steps, step{Path: c.Path, Before: c.After, After: want, from: c.After, to: want})
	}
	if len(e.Steps) == 0 {
		return nil, refuse(StaleRevision, nil, "nothing is selected", "list the changes again")
	}
	if err := r.inContext(ctx, e); err != nil {
		return nil, err
	}
	r.tell(id, Event{Kind: EventDiscarded, Journal: e.ID})
	return e, nil
}

// inContext takes an entry's steps in its context: each file is merged as in the workspace, and written in place, so that handles stay what they are.
func (r *Reviews) inContext(ctx context.Context, e *Entry) error {
	free, err := r.lockWorkspace(ctx)
	if err != nil {
		return err
	}
	defer free()
	return r.cfg.Contexts.Changing(ctx, e.Context, func(root rootfs.Root) error {
		w := &workspace{root: root, store: r.store, merger: r.ws.merger}
		conflicts, err := w.plan(ctx, e.Steps, false)
		if err == nil && len(conflicts) > 0 {
			err = conflicting("nothing was done: the context changed these files since", conflicts)
		}
		if err != nil {
			return err
		}
		if e.ID, err = r.journal.next(); err != nil {
			return err
		}
		e.At = time.Now().UTC()
		if err := r.journal.begin(e); err != nil {
			return err
		}
		for i := range e.Steps {
			if err := w.writeInPlace(&e.Steps[i]); err != nil {
				return fserr.Wrap(err, "discard", "/"+string(e.Steps[i].Path), "")
			}
		}
		return r.journal.finish(e)
	})
}

// writeInPlace makes a path of a context what a step says.
func (w *workspace) writeInPlace(s *step) error {
	p := string(s.Path)
	switch {
	case s.did() == Unchanged:
		return nil
	case !s.After.Exists():
		err := w.root.Unlink(p)
		w.pruneAbove(s.Path)
		return err
	case s.Before.Type != s.After.Type || s.After.Type != rootfs.TypeFile:
		sw := &swaps{w: w}
		if err := sw.add(s); err != nil {
			return err
		}
		if _, err := sw.take(); err != nil {
			return err
		}
		return sw.done()
	}
	return w.overwrite(p, s.After)
}

// overwrite writes a file as Node's writeFile does: the same inode, written and then cut.
func (w *workspace) overwrite(p string, v Version) (err error) {
	content, err := w.store.Open(v.Hash)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	f, _, err := w.root.OpenNoFollow(p, rootfs.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(f, content)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(n), f.Chmod(v.Mode))
}

// Journal lists entries, the newest first, from before the ID before on (0: from the newest), at most limit.
func (r *Reviews) Journal(ctx context.Context, match func(e *Entry) bool, before int64, limit int) (out []*Entry, more bool, err error) {
	ids, err := r.journal.ids(doneSuffix)
	if err != nil {
		return nil, false, err
	}
	for _, id := range slices.Backward(ids) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if before != 0 && id >= before {
			continue
		}
		e, err := r.journal.read(id, doneSuffix)
		if err != nil {
			return nil, false, err
		}
		if !match(e) {
			continue
		}
		if len(out) == limit {
			return out, true, nil
		}
		out = append(out, e)
	}
	return out, false, nil
}
