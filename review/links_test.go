package review

import "testing"

// A path that leads through a link of the context is no path of its own: what lies behind the link is at another one.
func TestChangesDoNotFollowLinksAboveAPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"real/f": "1\n", "dir/f": "2\n"})
	remove(t, w.in(id), "dir/f")
	write(t, w.in(id), files{"real/f": "changed\n", "dir": "-> real", "loop": "-> loop"})
	for _, q := range []Path{"loop/f", "loop/f/g"} {
		if l := w.changes(Query{Paths: []Path{q}}); len(l.Changes) != 0 {
			t.Errorf("%s: the changes are %v", q, l.Changes)
		}
	}
	l := w.changes(Query{Paths: []Path{"dir/f"}})
	if len(l.Changes) != 1 || l.Changes[0].Kind != Deleted {
		t.Errorf("dir/f: the changes are %+v", l.Changes)
	}
	wantReason(t, func() error {
		_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Approve: true, Actor: "host", Selection: &Selection{Changes: []Selected{{Path: "loop/f"}}}})
		return err
	}(), StaleRevision)
}
