package review

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDecisionsOnChangesThatAreGoneAreListed: Apply would write what was approved although no change shows it.
func TestDecisionsOnChangesThatAreGoneAreListed(t *testing.T) {
	two := strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30))
	second := strings.Replace(numbered(30), "line 25\n", "twenty-five\n", 1)
	approve := func(w *world) { w.decide(Approved, Selection{All: true}) }
	reject := func(w *world) { w.decide(Rejected, Selection{All: true}) }
	approveX := func(w *world) { w.decide(Approved, Selection{Changes: []Selected{{Path: "ign/x"}}}) }
	writes := func(p, content string) func(w *world) {
		return func(w *world) { write(w.t, w.in(id), files{p: content}) }
	}
	for name, row := range map[string]struct {
		decide, after func(w *world)
		query         Query
		want          []string
	}{
		"shown":                          {approve, func(*world) {}, Query{}, nil},
		"taken back":                     {approve, func(w *world) { w.discard() }, Query{}, []string{"a approved gone", "d/b approved gone"}},
		"taken back, a path":             {approve, func(w *world) { w.discard() }, Query{Paths: []Path{"d"}}, []string{"d/b approved gone"}},
		"rejected":                       {reject, func(w *world) { w.discard() }, Query{}, []string{"a rejected gone", "d/b rejected gone"}},
		"rejected, edited":               {reject, writes("d/b", "BB\n"), Query{}, []string{"d/b rejected replaced"}},
		"edited":                         {approve, writes("d/b", "BB\n"), Query{}, []string{"d/b approved replaced"}},
		"withdrawn":                      {approve, func(w *world) { w.discard(); w.decide(Rejected, Selection{All: true}) }, Query{}, nil},
		"decided again":                  {approve, func(w *world) { write(w.t, w.in(id), files{"d/b": "BB\n"}); approve(w) }, Query{}, nil},
		"applied":                        {approve, func(w *world) { w.apply(ApplyRequest{}) }, Query{}, nil},
		"in an ignored tree":             {approveX, func(*world) {}, Query{}, nil},
		"ignored, taken back":            {approveX, func(w *world) { remove(w.t, w.in(id), "ign/x", "ign/y") }, Query{}, []string{"ign/x approved gone"}},
		"in an ignored tree, taken back": {approveX, func(w *world) { remove(w.t, w.in(id), "ign/x") }, Query{}, []string{"ign/x approved gone"}},
		"in an ignored tree, edited":     {approveX, writes("ign/x", "X\n"), Query{}, []string{"ign/x approved replaced"}},
		"in an ignored tree, elsewhere":  {approveX, func(w *world) { remove(w.t, w.in(id), "ign/x") }, Query{Paths: []Path{"d"}}, nil},
		"a hunk that is left":            {func(w *world) { w.hunk(1) }, writes("a", second), Query{}, nil},
		"a hunk that is gone":            {func(w *world) { w.hunk(0) }, writes("a", second), Query{}, []string{"a approved replaced"}},
		"of a comparison":                {approve, func(w *world) { w.discard() }, Query{Against: Against{Workspace: true}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": numbered(30), "d/b": "b\n", ".gitignore": "ign\n"})
			write(t, w.in(id), files{"a": two, "d/b": "B\n", "ign/x": "x\n", "ign/y": "y\n"})
			row.decide(w)
			row.after(w)
			for _, drift := range []bool{false, true} {
				row.query.Drift = drift
				var got []string
				for _, g := range w.changes(row.query).Gone {
					got = append(got, fmt.Sprintf("%s %s %s", g.Path, g.Decision, map[bool]string{true: "replaced", false: "gone"}[g.Replaced]))
					if g.Comment != "because" || g.Actor != map[bool]string{true: "host", false: ""}[drift] || g.At.IsZero() {
						t.Errorf("drift %t: it says %+v", drift, g)
					}
				}
				if !slices.Equal(got, row.want) {
					t.Errorf("drift %t: the list says %q, want %q", drift, got, row.want)
				}
			}
		})
	}
}

// hunk approves a hunk of the first change.
func (w *world) hunk(i int) {
	w.t.Helper()
	c := w.changes(Query{}).Changes[0]
	w.decide(Approved, Selection{Changes: []Selected{{Path: c.Path, Hunks: []string{c.HunkIDs()[i]}}}})
}

// TestTheLatestApprovalOfAChangeIsNamed has two approved hunks and a rejected one, which all are gone.
func TestTheLatestApprovalOfAChangeIsNamed(t *testing.T) {
	t.Parallel()
	text := numbered(30)
	w := newWorld(t, files{"a": text})
	write(t, w.in(id), files{"a": strings.NewReplacer("line 5\n", "5\n", "line 15\n", "15\n", "line 25\n", "25\n").Replace(text)})
	hunks := w.changes(Query{}).Changes[0].HunkIDs()
	for i, d := range []Decision{Approved, Approved, Rejected} {
		_, err := w.reviews.Decide(t.Context(), DecideRequest{
			Context: id, Decision: d, Actor: "host", Comment: fmt.Sprint(i), Selection: Selection{Changes: []Selected{{Path: "a", Hunks: []string{hunks[i]}}}},
		})
		must(t, err)
	}
	w.discard()
	if g := w.changes(Query{}).Gone; len(g) != 1 || g[0].Decision != Approved || g[0].Comment != "1" {
		t.Errorf("the list says %+v", g)
	}
}
