package review

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Decided says what Decide decided on.
type Decided struct {
	Changes, Hunks int
	LeftOut        []LeftOut
}

// DecideRequest of Decide.
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

// Decide records a decision on changes, and keeps the contents that it is about.
func (r *Reviews) Decide(ctx context.Context, req DecideRequest) (out Decided, err error) {
	unlock, err := r.lock(ctx, req.Context)
	if err != nil {
		return out, err
	}
	defer unlock()
	req.Selection.withdraws, req.Selection.approves = req.Decision != Approved, req.Decision == Approved
	l, chosen, left, err := r.choose(ctx, req.Context, req.Selection, req.IfRevision)
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
	if err := r.states.write(req.Context, l.state); err != nil {
		return Decided{}, err
	}
	r.tell(req.Context, Event{Kind: EventDecided})
	return out, nil
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
	pick := func(root rootfs.Root, l *List) error {
		if err := at.check(l.Changes); err != nil {
			return err
		}
		var out []*Change
		if sel.approves {
			l.markRejected()
		}
		if sel.withdraws {
			sel.Changes, l.withdrawn = l.state.withdraw(sel, l.Changes)
		}
		before := func(c *Change) ([]byte, error) {
			return whole(c.Path, c.Before, func() (io.ReadCloser, error) { return l.base.open(l.base.lookup(c.Path)) })
		}
		chosen, out, err = sel.choose(l.Changes, func(c *Change) (*TextDiff, error) { return c.text(l.base, root) }, before)
		if err != nil {
			return err
		}
		left = leftOuts(out)
		return r.keep(root, chosen)
	}
	l, err = r.changes(ctx, q, pick)
	if errors.Is(err, errListIgnored) {
		q.Ignored = true
		l, err = r.changes(ctx, q, pick)
	}
	if err == nil {
		if err = r.keepBase(l.base, chosen); err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return l, chosen, left, err
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
		if whole.Decision == Rejected || len(c.rejected) == len(c.Hunks()) && len(c.rejected) > 0 {
			c.rejected[""] = true
		}
	}
}

// withdraw returns what is selected but for changes that are not there any more, and the paths of such changes on which there is a decision: an approval
// would be applied although no list of changes shows it.
func (st *state) withdraw(sel Selection, changes []*Change) (rest []Selected, gone []Path) {
	there := map[Path]bool{}
	for _, c := range changes {
		there[c.Path] = true
	}
	for _, p := range slices.Sorted(maps.Keys(st.Decided)) {
		selected := sel.All || slices.ContainsFunc(sel.Changes, func(s Selected) bool { return isWithin(p, s.Path) && len(s.Hunks) == 0 })
		if selected && !there[p] {
			gone = append(gone, p)
		}
	}
	if sel.Changes == nil {
		return nil, gone
	}
	rest = []Selected{}
	for _, s := range sel.Changes {
		within := func(p Path) bool { return isWithin(p, s.Path) }
		if !slices.ContainsFunc(gone, within) || slices.ContainsFunc(changes, func(c *Change) bool { return within(c.Path) }) {
			rest = append(rest, s)
		}
	}
	return rest, gone
}

// keep puts what the context holds of the chosen changes into the store.
func (r *Reviews) keep(root rootfs.Root, chosen []*choice) error {
	for _, c := range chosen {
		if !c.After.Exists() || r.store.has(c.After.Hash) {
			continue
		}
		v, _, err := r.store.keep(root, c.Path)
		if err == nil && v.Hash != c.After.Hash {
			err = errUnstable
		}
		if errors.Is(err, errUnstable) {
			c.Unstable = true
			err = allowed([]*choice{c})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepBase puts the base's contents of the chosen changes into the store: the layer may go before they are applied.
func (r *Reviews) keepBase(b *base, chosen []*choice) error {
	for _, c := range chosen {
		if !c.Before.Exists() || r.store.has(c.Before.Hash) {
			continue
		}
		if _, err := r.keepEntry(b, b.lookup(c.Path)); err != nil {
			return err
		}
	}
	return nil
}

// keepEntry puts a content of a base into the store, and returns the version with its hash.
func (r *Reviews) keepEntry(b *base, e entry) (v Version, err error) {
	v = e.Version
	if !v.Exists() {
		return v, nil
	}
	content, err := b.open(e)
	if err != nil {
		return v, err
	}
	v.Hash, v.Size, err = r.store.Put(content)
	return v, errors.Join(err, content.Close())
}

// decide records a verdict on what is chosen of a change. Earlier verdicts on hunks that are still there stay.
func (st *state) decide(c *choice, v Verdict) {
	if st.Decided == nil {
		st.Decided = map[Path]*decided{}
	}
	d := st.current(c.Change)
	if d == nil {
		d = &decided{Before: c.Before, After: c.After}
		if old := st.Decided[c.Path]; old != nil && old.Before.Same(c.Before) {
			d.carry(old, c.Change)
		}
	}
	switch {
	case c.hunks == nil && v.Decision == "":
		d.Whole, d.Hunks = nil, nil
	case c.hunks == nil:
		d.Whole, d.Hunks = &v, nil
	default:
		d.spread(c.Change)
		for id := range c.hunks {
			if v.Decision == "" {
				delete(d.Hunks, id)
			} else {
				d.Hunks[id] = v
			}
		}
	}
	if d.Whole == nil && len(d.Hunks) == 0 {
		delete(st.Decided, c.Path)
		return
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

// carry takes over the verdicts on hunks that are still there.
func (d *decided) carry(old *decided, c *Change) {
	for _, h := range c.Hunks() {
		if v, ok := old.Hunks[h.ID]; ok {
			if d.Hunks == nil {
				d.Hunks = map[string]Verdict{}
			}
			d.Hunks[h.ID] = v
		}
	}
}

// spread makes a verdict on the whole one on each hunk, so that one of them can get another.
func (d *decided) spread(c *Change) {
	if d.Hunks == nil {
		d.Hunks = map[string]Verdict{}
	}
	if d.Whole == nil {
		return
	}
	for _, h := range c.Hunks() {
		if _, ok := d.Hunks[h.ID]; !ok {
			d.Hunks[h.ID] = *d.Whole
		}
	}
	d.Whole = nil
}

// Verdict returns what was decided on the change as a whole, and on its hunks. A verdict on an earlier content of the file counts for the
// hunks that it had in common.
func (l *List) Verdict(c *Change) (whole Verdict, hunks map[string]Verdict) {
	hunks = map[string]Verdict{}
	d := l.state.Decided[c.Path]
	if d == nil || !d.Before.Same(c.Before) {
		return whole, hunks
	}
	same := d.After.Same(c.After)
	if same && d.Whole != nil {
		whole = *d.Whole
	}
	for _, h := range c.Hunks() {
		if v, ok := d.Hunks[h.ID]; ok {
			hunks[h.ID] = v
		} else if same && d.Whole != nil {
			hunks[h.ID] = *d.Whole
		}
	}
	return whole, hunks
}

// approved returns the version that is approved of what was decided, with its content in the store; ok is false if nothing is.
func (r *Reviews) approved(p Path, d *decided) (v Version, ok bool, err error) {
	if d.Whole != nil && len(d.Hunks) == 0 {
		return d.After, d.Whole.Decision == Approved, nil
	}
	return r.part(p, d.Before, d.After, func(h *Hunk) bool { return d.verdict(h.ID).Decision == Approved })
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
	text := diffVersions(p, before, after, old, now).Select(func(h *Hunk) bool {
		some := chosen(h)
		ok = ok || some
		return some
	})
	v = before
	if !before.Exists() {
		v = after
	}
	v.Hash, v.Size, err = r.store.Put(bytes.NewReader(text))
	return v, ok, err
}
