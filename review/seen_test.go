package review

import (
	"testing"
)

// TestDryRunIsRefusedAsTheRealCall has calls that are refused. A dry run is refused for the same reason.
func TestDryRunIsRefusedAsTheRealCall(t *testing.T) {
	t.Parallel()
	all := &Selection{All: true}
	for name, c := range map[string]struct {
		prepare func(w *world) func(dry bool) error
		reason  Reason
	}{
		"apply of an unseen change": {func(w *world) func(bool) error {
			seen := w.changes(Query{}).Changes[0].ID
			write(t, w.in(id), files{"f": "unseen\n"})
			return w.applying(ApplyRequest{Selection: &Selection{All: true, Seen: []string{seen}}, Approve: true})
		}, StaleRevision},
		"apply at another revision": {func(w *world) func(bool) error {
			revision := w.changes(Query{}).Revision
			write(t, w.in(id), files{"f": "unseen\n"})
			return w.applying(ApplyRequest{Selection: all, Approve: true, IfRevision: revision})
		}, StaleRevision},
		"apply of what is not approved": {func(w *world) func(bool) error { return w.applying(ApplyRequest{Selection: all}) }, NotApproved},
		"apply of what the workspace changed too": {func(w *world) func(bool) error {
			write(t, w.in("workspace"), files{"f": "the user's\n"})
			return w.applying(ApplyRequest{Selection: all, Approve: true})
		}, Conflicting},
		"undo of a discard after an edit": {func(w *world) func(bool) error {
			e, err := w.reviews.Discard(t.Context(), id, *all, "", "panel")
			must(t, err)
			write(t, w.in(id), files{"f": "later\n"})
			return w.undoing(e.ID)
		}, Conflicting},
		"undo of an apply after an edit": {func(w *world) func(bool) error {
			e := w.apply(ApplyRequest{Selection: all, Approve: true})
			write(t, w.in("workspace"), files{"f": "later\n"})
			return w.undoing(e.ID)
		}, Conflicting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"f": "base\n"})
			write(t, w.in(id), files{"f": "agent\n"})
			call := c.prepare(w)
			before, workspace := read(t, w.in(id)), read(t, w.in("workspace"))
			wantReason(t, call(true), c.reason)
			wantReason(t, call(false), c.reason)
			same(t, "the context", read(t, w.in(id)), before)
			same(t, "the workspace", read(t, w.in("workspace")), workspace)
		})
	}
}

// applying returns an Apply that can be a dry run.
func (w *world) applying(req ApplyRequest) func(dry bool) error {
	return func(dry bool) error {
		req.Context, req.Actor, req.DryRun = id, "host", dry
		_, err := w.reviews.Apply(w.t.Context(), req)
		return err
	}
}

// undoing returns an Undo that can be a dry run.
func (w *world) undoing(entry int64) func(dry bool) error {
	return func(dry bool) error {
		_, err := w.reviews.Undo(w.t.Context(), UndoRequest{ID: entry, Actor: "host", DryRun: dry, May: func(*Entry) error { return nil }})
		return err
	}
}
