package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Decided says what Decide decided on.
type Decided struct {
	Changes, Hunks int
	LeftOut        []LeftOut
}

// DecideRequest says what Decide decides on, and how.
type DecideRequest struct {
	Context   string
	Selection Selection
	// Decision is "" to take earlier ones back.
	Decision Decision
	Comment  string
	Actor    string
	// IfRevision, if not "", must be the context's revision.
	IfRevision string
}

// Decide records a decision on changes, and keeps the contents that it is about. A request that does not approve withdraws every decision on what it names,
// whatever the context has there now.
func (r *Reviews) Decide(ctx context.Context, req DecideRequest) (out Decided, err error) {
	unlock, err := r.lock(ctx, req.Context)
	if err != nil {
		return out, err
	}
	defer unlock()
	req.Selection.withdraws, req.Selection.approves = req.Decision != Approved, req.Decision == Approved
	l, chosen, left, err := r.choose(ctx, req.Context, req.Selection, req.IfRevision)
	if err != nil && req.Selection.withdraws {
		l, left, err = r.withdrawOnly(ctx, req, err)
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	out.LeftOut = left
	for _, p := range l.withdrawn {
		out.Changes++
		delete(l.state.Decided, p)
	}
	verdict := Verdict{Decision: req.Decision, Comment: req.Comment, Actor: req.Actor, At: time.Now().UTC()}
	for _, c := range chosen {
		out.Changes++
		out.Hunks += len(c.hunks)
		l.state.decide(c, verdict)
	}
	if n := l.state.comments(); req.Comment != "" && n > r.bounds.commentBytes {
		return Decided{}, &fserr.Error{
			Code: fserr.EDQUOT, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("the comments on the context would take %s of %s: each change keeps its own", seed.Size(n), seed.Size(r.bounds.commentBytes)),
			Hint:   "decide on fewer changes with the comment, or shorten it",
		}
	}
	if err := r.flush(chosen); err != nil {
		return Decided{}, err
	}
	if err := r.states.write(req.Context, l.state); err != nil {
		return Decided{}, err
	}
	r.tell(req.Context, Event{Kind: EventDecided})
	return out, nil
}

// comments returns the size of all comments, in bytes.
func (st *state) comments() (n int64) {
	for _, d := range st.Decided {
		if d.Whole != nil {
			n += int64(len(d.Whole.Comment))
		}
		for _, v := range d.Hunks {
			n += int64(len(v.Comment))
		}
	}
	return n
}

// choose finds what a selection names, and keeps the contents of it. left has what All, or a directory, leaves out. Close the List.
func (r *Reviews) choose(ctx context.Context, id string, sel Selection, ifRevision string) (l *List, chosen []*choice, left []LeftOut, err error) {
	scope, err := sel.scope()
	if err != nil {
		return nil, nil, nil, err
	}
	q := Query{Context: id, Paths: scope, Ignored: sel.Changes != nil || sel.Patch != nil, Links: sel.approves && sel.Patch == nil}
	if ifRevision != "" || slices.Contains(scope, "") {
		q = Query{Context: id, Ignored: false}
	}
	at := &revisionCheck{want: ifRevision, scope: scope}
	pick := func(ctx context.Context, root rootfs.Root, l *List) error {
		if err := at.check(l.Changes); err != nil {
			return err
		}
		if sel.approves {
			l.markRejected()
		}
		before := func(c *Change) ([]byte, error) {
			return whole(c.Path, c.Before, func() (io.ReadCloser, error) { return l.base.open(l.base.lookup(c.Path)) })
		}
		text := func(c *Change) (*TextDiff, error) {
			return l.text(ctx, c, openerIn(root, c.Difference), l.room.showNow)
		}
		for {
			named, changes := sel, l.Changes
			if sel.withdraws {
				named, changes, l.withdrawn = l.withdraw(sel)
			}
			if sel.Approved {
				chosen = l.chooseApproved(changes)
				err = allowed(chosen)
			} else {
				chosen, left, err = named.choose(changes, text, before)
			}
			if err != nil {
				return err
			}
			changed, err := r.keep(ctx, root, chosen)
			if err != nil || changed == nil {
				return err
			}
			if changed.Unstable = true; !sel.withdraws {
				return allowed([]*choice{changed})
			}
		}
	}
	l, err = r.changes(ctx, q, pick)
	if errors.Is(err, errListIgnored) {
		q.Ignored = true
		l, err = r.changes(ctx, q, pick)
	}
	if err == nil {
		if err = r.keepBase(ctx, l.base, chosen); err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return l, chosen, left, err
}

// flush puts what was kept of the chosen changes on the disk: they are about to be recorded.
func (r *Reviews) flush(chosen []*choice) error {
	hashes := map[string]bool{}
	for _, c := range chosen {
		for _, v := range []Version{c.Before, c.After} {
			if v.Exists() {
				hashes[v.Hash] = true
			}
		}
	}
	return r.store.flush(hashes)
}

// markRejected notes in the changes what earlier decisions reject of them.
func (l *List) markRejected() {
	for _, c := range l.Changes {
		whole, hunks := l.Verdict(c)
		c.rejected = map[string]bool{}
		for id, v := range hunks {
			if v.Decision == Rejected {
				c.rejected[id] = true
			}
		}
		if whole.Decision == Rejected || len(c.rejected) == len(c.HunkIDs()) && len(c.rejected) > 0 {
			c.rejected[""] = true
		}
	}
}

// chooseApproved chooses what is approved of changes.
func (l *List) chooseApproved(changes []*Change) (out []*choice) {
	for _, c := range changes {
		if chosen := l.approvedOf(c); chosen != nil {
			out = append(out, chosen)
		}
	}
	return out
}

// approvedOf chooses what is approved of a change: all of it, or hunks. It is nil if nothing is.
func (l *List) approvedOf(c *Change) *choice {
	whole, hunks := l.Verdict(c)
	out := &choice{Change: c, hunks: map[string]bool{}}
	for id, v := range hunks {
		if v.Decision == Approved {
			out.hunks[id] = true
		}
	}
	switch {
	case whole.Decision == Approved && len(out.hunks) == len(hunks):
		out.hunks = nil
	case len(out.hunks) == 0:
		return nil
	}
	return out
}

// withdraw finds the decisions that a selection takes back without recording another one: those on paths whose change, if there is one, cannot be decided on
// now. Otherwise an approval would be applied that nobody could take back. rest is what the selection names among the other changes.
func (l *List) withdraw(sel Selection) (rest Selection, others []*Change, gone []Path) {
	rest, at := sel, map[Path]*Change{}
	for _, c := range l.Changes {
		at[c.Path] = c
	}
	for _, p := range slices.Sorted(maps.Keys(l.state.Decided)) {
		c, d := at[p], l.state.Decided[p]
		isNamed, isRecorded := sel.All, c != nil
		switch {
		case sel.Approved:
			isNamed, isRecorded = d.isApproved(), c != nil && l.approvedOf(c) != nil
		case sel.Changes != nil:
			ids := []string{(Difference{Path: p, Before: d.Before, After: d.After}).id()}
			if c != nil {
				ids = append(ids, c.ID)
			}
			isNamed = slices.ContainsFunc(sel.Changes, func(s Selected) bool {
				return len(s.Hunks) == 0 && (c == nil && s.covers(p) || s.names(p, ids...))
			})
			isRecorded = c != nil && slices.ContainsFunc(sel.Changes, func(s Selected) bool { return s.names(p, c.ID) })
		}
		if isNamed && !(isRecorded && c.isDecidable()) {
			gone = append(gone, p)
			delete(at, p)
		}
	}
	for _, c := range l.Changes {
		if at[c.Path] != nil {
			others = append(others, c)
		}
	}
	if sel.Changes == nil {
		return rest, others, gone
	}
	rest.Changes = []Selected{}
	for _, s := range sel.Changes {
		isOfOther := func(c *Change) bool { return c.isDecidable() && s.names(c.Path, c.ID) }
		if !slices.ContainsFunc(gone, s.covers) || slices.ContainsFunc(others, isOfOther) {
			rest.Changes = append(rest.Changes, s)
		}
	}
	return rest, others, gone
}

// withdrawOnly finds the decisions that a request takes back if the context could not be compared. It fails with the error of that, which is why, for a
// refusal, and unless there is a decision on each path that is named. left has the directories whose changes are not known.
func (r *Reviews) withdrawOnly(ctx context.Context, req DecideRequest, why error) (l *List, left []LeftOut, err error) {
	var refusal *Error
	if errors.As(why, &refusal) || req.IfRevision != "" || ctx.Err() != nil {
		return nil, nil, why
	}
	st, err := r.states.read(req.Context)
	if err != nil {
		return nil, nil, err
	}
	l = &List{context: req.Context, state: st, base: &base{}}
	rest, _, gone := l.withdraw(req.Selection)
	if len(gone) == 0 || len(rest.Changes) > 0 {
		return nil, nil, why
	}
	l.withdrawn = gone
	if req.Selection.All {
		left = []LeftOut{{Reason: unstable}}
	}
	for _, s := range req.Selection.Changes {
		if st.Decided[s.Path] == nil {
			left = append(left, LeftOut{Path: s.Path, Reason: unstable})
		}
	}
	return l, left, nil
}

// keep puts what the context holds of the chosen changes into the store. It returns the first one that holds another content by now, if there is one.
func (r *Reviews) keep(ctx context.Context, root rootfs.Root, chosen []*choice) (changed *choice, err error) {
	var later error
	for _, c := range chosen {
		if !c.After.Exists() || r.store.has(ctx, c.After.Hash) {
			continue
		}
		v, _, err := r.store.keep(ctx, root, c.Path)
		if errors.Is(err, errLater) { // the others are named too
			later = err
			continue
		}
		if errors.Is(err, errUnstable) || err == nil && v.Hash != c.After.Hash {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, later
}

// keepBase puts the base's contents of the chosen changes into the store: the layer may go before they are applied.
func (r *Reviews) keepBase(ctx context.Context, b *base, chosen []*choice) error {
	for _, c := range chosen {
		if !c.Before.Exists() || r.store.has(ctx, c.Before.Hash) {
			continue
		}
		if _, err := r.keepEntry(ctx, b, b.lookup(c.Path)); err != nil {
			return err
		}
	}
	return nil
}

// keepEntry puts a content of a base into the store, and returns the version with its hash.
func (r *Reviews) keepEntry(ctx context.Context, b *base, e entry) (v Version, err error) {
	v = e.Version
	if !v.Exists() {
		return v, nil
	}
	content, err := b.open(e)
	if err != nil {
		return v, err
	}
	v.Hash, v.Size, err = r.store.Put(ctx, content)
	return v, errors.Join(err, content.Close())
}

// decide records a verdict on what is chosen of a change. Earlier verdicts on hunks that are still there stay.
func (st *state) decide(c *choice, v Verdict) {
	d := &decided{Before: c.Before, After: c.After}
	switch old := st.Decided[c.Path]; {
	case c.hunks != nil:
		d.Hunks = old.on(c.Change)
		for id := range c.hunks {
			d.Hunks[id] = v
		}
		maps.DeleteFunc(d.Hunks, func(_ string, v Verdict) bool { return v.Decision == "" })
	case v.Decision != "":
		d.Whole = &v
		d.WholeHunks = slices.Clone(c.HunkIDs())
	}
	if d.Whole == nil && len(d.Hunks) == 0 {
		delete(st.Decided, c.Path)
		return
	}
	if st.Decided == nil {
		st.Decided = map[Path]*decided{}
	}
	st.Decided[c.Path] = d
}

// current returns what was decided on exactly this change, nil for nothing.
func (st *state) current(c *Change) *decided {
	d := st.Decided[c.Path]
	if d == nil || !d.Before.Same(c.Before) || !d.After.Same(c.After) {
		return nil
	}
	return d
}

// on returns the verdicts on the hunks of a change. Those on an earlier content of the file count for the hunks that it had in common.
func (d *decided) on(c *Change) map[string]Verdict {
	out := map[string]Verdict{}
	if d == nil || !d.Before.Same(c.Before) {
		return out
	}
	decided := d.verdicts()
	for _, id := range c.HunkIDs() {
		if v, ok := decided[id]; ok {
			out[id] = v
		}
	}
	return out
}

// Verdict returns what was decided on exactly this change as a whole, and on its hunks. A verdict on an earlier content of
// the file counts for the hunks that it had in common.
func (l *List) Verdict(c *Change) (whole Verdict, hunks map[string]Verdict) {
	if d := l.state.current(c); d != nil && d.Whole != nil {
		whole = *d.Whole
	}
	return whole, l.state.Decided[c.Path].on(c)
}

// approved returns the version that is approved of what was decided, with its content in the store; ok is false if nothing is.
func (r *Reviews) approved(p Path, d *decided) (v Version, ok bool, err error) {
	if d.Whole != nil {
		return d.After, d.Whole.Decision == Approved, nil
	}
	return r.part(p, d.Before, d.After, func(h *Hunk) bool { return d.Hunks[h.ID].Decision == Approved })
}

// part returns the version before with some hunks of the one after. ok is false if there is none of them.
func (r *Reviews) part(p Path, before, after Version, chosen func(h *Hunk) bool) (v Version, ok bool, err error) {
	old, err := r.store.text(before)
	if err != nil {
		return v, false, err
	}
	now, err := r.store.text(after)
	if err != nil {
		return v, false, err
	}
	text := diffVersions(p, before, after, old, now, math.MaxInt).Select(func(h *Hunk) bool {
		some := chosen(h)
		ok = ok || some
		return some
	})
	v = before
	if !before.Exists() {
		v = after
	}
	v.Hash, v.Size, err = r.store.Put(context.Background(), bytes.NewReader(text))
	return v, ok, err
}
