package review

import (
	"strings"
	"testing"
)

// TestPendingEndsWithTheReview submits three changes. The review is pending until all of them were applied or discarded, and again after an undo.
func TestPendingEndsWithTheReview(t *testing.T) {
	w := newWorld(t, files{"a": numbered(30), "b": "b\n", "c": "c\n"})
	want := func(what string, submitted, decisions bool) {
		t.Helper()
		s, d, err := w.reviews.Pending(t.Context(), id)
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
	w.decide(Approved, Selection{Changes: []Selected{{Path: "a", Hunks: []string{l.Changes[0].Hunks()[0].ID}}, {Path: "b"}}})
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
	if s, _, err := w.reviews.Pending(t.Context(), id); err != nil || !s {
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
		hunk := l.Changes[0].Hunks()[0].ID
		_, err = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "a", Hunks: []string{hunk}}}}, "", "panel")
		must(t, err)
		if submitted, _, err := w.reviews.Pending(t.Context(), id); err != nil || !submitted {
			t.Errorf("after one of two hunks was discarded: submitted %t, %v", submitted, err)
		}
		if rest := (Selection{Changes: []Selected{{Path: "a"}}}); apply {
			w.decide(Approved, rest)
			w.apply(ApplyRequest{})
		} else {
			_, err = w.reviews.Discard(t.Context(), id, rest, "", "panel")
			must(t, err)
		}
		if submitted, _, err := w.reviews.Pending(t.Context(), id); err != nil || submitted {
			t.Errorf("after the other one was applied (%t) or discarded: submitted %t, %v", apply, submitted, err)
		}
	}
}
