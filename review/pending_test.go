package review

import (
	"os"
	"strings"
	"testing"
)

// TestPendingEndsWithTheReview submits three changes. The review is pending until all of them were applied or discarded, and again after an undo.
func TestPendingEndsWithTheReview(t *testing.T) {
	w := newWorld(t, files{"a": numbered(30), "b": "b\n", "c": "c\n"})
	want := func(what string, submitted, decisions bool) {
		t.Helper()
		s, err := w.reviews.Submitted(t.Context(), id)
		must(t, err)
		d, err := w.reviews.Pending(id)
		must(t, err)
		if s != submitted || d != decisions {
			t.Errorf("%s: submitted %t, decisions %t, want %t and %t", what, s, d, submitted, decisions)
		}
	}
	write(t, w.in(id), files{"a": strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30)), "b": "B\n", "c": "C\n"})
	want("at first", false, false)
	l, err := w.reviews.Submit(t.Context(), id, "title", "", "panel")
	must(t, err)
	want("after the submission", true, false)
	w.decide(Approved, Selection{Changes: []Selected{{Path: "a", Hunks: []string{l.Changes[0].HunkIDs()[0]}}, {Path: "b"}}})
	want("with decisions", true, true)
	w.apply(ApplyRequest{})
	want("after one of two hunks and one of two other files were applied", true, false)
	w.decide(Approved, Selection{Changes: []Selected{{Path: "a"}}})
	last := w.apply(ApplyRequest{})
	want("with one file left", true, false)
	discarded, err := w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "c"}}}, "", "panel")
	must(t, err)
	want("after the rest was discarded", false, false)
	_, err = w.undo(discarded.ID)
	must(t, err)
	want("after an undo of the discard", true, false)
	_, err = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "c"}}}, "", "panel")
	must(t, err)
	_, err = w.undo(last.ID)
	must(t, err)
	if s, err := w.reviews.Submitted(t.Context(), id); err != nil || !s {
		t.Errorf("after an undo of the last apply: submitted %t, %v", s, err)
	}
}

// TestPartOfADiscardLeavesTheRestPending discards one of two hunks that were submitted, and then discards or applies the other.
func TestPartOfADiscardLeavesTheRestPending(t *testing.T) {
	t.Parallel()
	for _, apply := range []bool{false, true} {
		w := newWorld(t, files{"a": numbered(30)})
		write(t, w.in(id), files{"a": strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30))})
		l, err := w.reviews.Submit(t.Context(), id, "title", "", "panel")
		must(t, err)
		hunk := l.Changes[0].HunkIDs()[0]
		_, err = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "a", Hunks: []string{hunk}}}}, "", "panel")
		must(t, err)
		if submitted, err := w.reviews.Submitted(t.Context(), id); err != nil || !submitted {
			t.Errorf("after one of two hunks was discarded: submitted %t, %v", submitted, err)
		}
		if rest := (Selection{Changes: []Selected{{Path: "a"}}}); apply {
			w.decide(Approved, rest)
			w.apply(ApplyRequest{})
		} else {
			_, err = w.reviews.Discard(t.Context(), id, rest, "", "panel")
			must(t, err)
		}
		if submitted, err := w.reviews.Submitted(t.Context(), id); err != nil || submitted {
			t.Errorf("after the other one was applied (%t) or discarded: submitted %t, %v", apply, submitted, err)
		}
	}
}

// TestRejectionsAreNotPending has rejections, of a file and of a hunk, and approvals.
func TestRejectionsAreNotPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": numbered(30), "b": "b\n"})
	write(t, w.in(id), files{"a": changedTwice(), "b": "B\n"})
	hunk := Selection{Changes: []Selected{{Path: "a", Hunks: []string{w.changes(Query{}).Changes[0].HunkIDs()[0]}}}}
	for _, step := range []struct {
		what     string
		decision Decision
		sel      Selection
		pending  bool
	}{
		{"a rejected hunk", Rejected, hunk, false}, {"a rejected file", Rejected, Selection{Changes: []Selected{{Path: "b"}}}, false},
		{"an approved hunk", Approved, hunk, true}, {"what was approved, rejected", Rejected, hunk, false},
		{"an approved file", Approved, Selection{Changes: []Selected{{Path: "b"}}}, true}, {"all taken back", "", Selection{All: true}, false},
	} {
		w.decide(step.decision, step.sel)
		if pending, err := w.reviews.Pending(id); err != nil || pending != step.pending {
			t.Errorf("%s: pending %t, %v", step.what, pending, err)
		}
	}
}

// TestASubmissionEndsWithItsChanges submits a changed file, a new one and a deletion. The agent does other things then.
func TestASubmissionEndsWithItsChanges(t *testing.T) {
	t.Parallel()
	base := files{"a": "a\n", "gone": "gone\n", "other": "1\n"}
	back := func(w *world) { remove(w.t, w.in(id), "new"); write(w.t, w.in(id), base) }
	for name, c := range map[string]struct {
		agent     func(w *world)
		submitted bool
	}{
		"nothing":                 {func(*world) {}, true},
		"takes all back":          {back, false},
		"takes one back":          {func(w *world) { remove(w.t, w.in(id), "new") }, true},
		"changes one further":     {func(w *world) { back(w); write(w.t, w.in(id), files{"a": "another\n"}) }, true},
		"changes another file":    {func(w *world) { back(w); write(w.t, w.in(id), files{"other": "2\n"}) }, false},
		"takes all back, decided": {func(w *world) { w.decide(Rejected, Selection{All: true}); back(w) }, false},
		"has all of it applied":   {func(w *world) { w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}}) }, false},
		"goes on after the apply": {func(w *world) { w.applyMore(); write(w.t, w.in(id), files{"other": "2\n"}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, base)
			write(t, w.in(id), files{"a": "A\n", "new": "new\n"})
			remove(t, w.in(id), "gone")
			_, err := w.reviews.Submit(t.Context(), id, "title", "", "panel")
			must(t, err)
			c.agent(w)
			if submitted, err := w.reviews.Submitted(t.Context(), id); err != nil || submitted != c.submitted {
				t.Errorf("submitted %t, %v, want %t", submitted, err, c.submitted)
			}
		})
	}
}

// TestASubmissionWithoutItsLayerIsPending: the context cannot be compared, so that nobody knows what the agent took back.
func TestASubmissionWithoutItsLayerIsPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "a\n"})
	write(t, w.in(id), files{"a": "A\n"})
	_, err := w.reviews.Submit(t.Context(), id, "title", "", "panel")
	must(t, err)
	must(t, os.RemoveAll(w.in("layer")))
	if submitted, err := w.reviews.Submitted(t.Context(), id); err != nil || !submitted {
		t.Errorf("submitted %t, %v", submitted, err)
	}
}
