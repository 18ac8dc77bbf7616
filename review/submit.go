package review

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Submit says that a context's changes are ready to be reviewed, and keeps them as a revision, with which the context can be compared later.
func (r *Reviews) Submit(ctx context.Context, id, title, message, actor string) (*List, error) {
	unlock, err := r.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var rev *revision
	l, err := r.changes(ctx, Query{Context: id}, func(ctx context.Context, root rootfs.Root, l *List) (err error) {
		rev, err = r.seal(ctx, root, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err = r.store.flush(rev.newContents(l.state)); err == nil {
		err = r.revisions.write(id, rev, r.bounds)
	}
	if err != nil {
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

// Counts says how many changes a List has, how far they are decided, and how many lines they add and remove.
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
	if ids := c.HunkIDs(); len(ids) > 0 && whole.Decision == "" {
		all = nil
		for _, id := range ids {
			all = append(all, hunks[id])
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
	l, chosen, left, err := r.choose(ctx, id, sel, ifRevision)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	e = &Entry{Kind: EntryDiscard, Context: id, Actor: actor, InContext: true, LeftOut: left}
	for _, c := range chosen {
		want := c.Before
		if c.hunks != nil {
			if want, _, err = r.part(c.Path, c.Before, c.After, func(h *Hunk) bool { return !c.hunks[h.ID] }); err != nil {
				return nil, err
			}
		}
		e.Steps = append(e.Steps, step{Path: c.Path, Before: c.After, After: want, Partly: !want.Same(c.Before), from: c.After, to: want})
	}
	if len(e.Steps) == 0 {
		return nil, nothingSelected(left)
	}
	if err := r.inContext(ctx, e); err != nil {
		return nil, err
	}
	r.tell(id, Event{Kind: EventDiscarded, Journal: e.ID})
	return e, nil
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
		e, err := r.journal.listed(id, doneSuffix)
		if err != nil {
			return nil, false, err
		}
		if e == nil || !match(e) {
			continue
		}
		if len(out) == limit {
			return out, true, nil
		}
		out = append(out, e)
	}
	return out, false, nil
}
