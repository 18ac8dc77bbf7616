package review

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// editedAt is numbered(40) with other texts on these lines.
func editedAt(lines ...int) string {
	text := numbered(40)
	for _, n := range lines {
		text = strings.Replace(text, fmt.Sprintf("line %d\n", n), fmt.Sprintf("edited %d\n", n), 1)
	}
	return text
}

// TestVerdictsOnAWholeFileStayOnItsHunks decides on a file as a whole, of which lines 5 and 20 are changed. The agent edits
// the file then, and everything is approved and applied.
func TestVerdictsOnAWholeFileStayOnItsHunks(t *testing.T) {
	t.Parallel()
	agent := func(lines ...int) func(w *world) {
		return func(w *world) { write(w.t, w.in(id), files{"d/f": editedAt(lines...)}) }
	}
	// applyHunk approves the first hunk alone, and applies it.
	applyHunk := func(w *world) {
		hunk := w.changes(Query{}).Changes[0].HunkIDs()[0]
		w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "d/f", Hunks: []string{hunk}}}}, Approve: true})
	}
	for name, c := range map[string]struct {
		decision Decision
		later    func(w *world)
		// shown has the verdict on the file and those on its hunks, and gone those that are not shown.
		shown, gone string
		// applied is what all of it makes of the workspace, and left is how many hunks it leaves out; -1 is the whole file.
		applied string
		left    int
	}{
		"rejected, and nothing":              {Rejected, func(*world) {}, "rejected: 5 rejected, 20 rejected", "", editedAt(), -1},
		"rejected, and another line":         {Rejected, agent(5, 20, 35), ": 5 rejected, 20 rejected, 35 ", "", editedAt(35), 2},
		"rejected, and one of them":          {Rejected, agent(5, 21), ": 5 rejected, 21 ", "rejected replaced", editedAt(21), 1},
		"rejected, and one of them put back": {Rejected, agent(5), ": 5 rejected", "rejected replaced", editedAt(), -1},
		"rejected, and both":                 {Rejected, agent(6, 21), ": 6 , 21 ", "rejected replaced", editedAt(6, 21), 0},
		"rejected, and as it was": {Rejected, func(w *world) { agent(5, 20, 35)(w); agent(5, 20)(w) },
			"rejected: 5 rejected, 20 rejected", "", editedAt(), -1},
		"rejected, and decided on another hunk": {Rejected, func(w *world) {
			agent(5, 20, 35)(w)
			hunks := w.changes(Query{}).Changes[0].HunkIDs()
			w.decide(Approved, Selection{Changes: []Selected{{Path: "d/f", Hunks: []string{hunks[2]}}}})
		}, ": 5 rejected, 20 rejected, 35 approved", "", editedAt(35), 2},
		"rejected, and taken back": {Rejected, func(w *world) { agent(5, 20, 35)(w); w.decide("", Selection{Changes: []Selected{{Path: "d/f"}}}) },
			": 5 , 20 , 35 ", "", editedAt(5, 20, 35), 0},
		"rejected, and approved by its name": {Rejected, func(w *world) { agent(5, 20, 35)(w); w.decide(Approved, Selection{Changes: []Selected{{Path: "d/f"}}}) },
			"approved: 5 approved, 20 approved, 35 approved", "", editedAt(5, 20, 35), 0},
		"rejected, and a hunk applied": {Rejected, applyHunk, ": 20 rejected", "", editedAt(5), -1},
		"rejected, and no executable": {Rejected, func(w *world) { must(w.t, os.Chmod(filepath.Join(w.in(id), "d/f"), 0o644)) },
			": 5 rejected, 20 rejected", "", editedAt(), -1},
		"approved, and another line":   {Approved, agent(5, 20, 35), ": 5 approved, 20 approved, 35 ", "", editedAt(5, 20, 35), 0},
		"approved, and one of them":    {Approved, agent(5, 21), ": 5 approved, 21 ", "approved replaced", editedAt(5, 21), 0},
		"approved, and a hunk applied": {Approved, applyHunk, ": 20 approved", "", editedAt(5, 20), 0},
	} {
		for way, sel := range map[string]Selection{"all": {All: true}, "directory": {Changes: []Selected{{Path: "d"}}}} {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				base, changed := numbered(40), editedAt(5, 20)
				if strings.HasSuffix(name, "executable") {
					base, changed = "+x "+base, "+x "+changed
				}
				w := newWorld(t, files{"d/f": base, "d/other": "1\n"})
				write(t, w.in(id), files{"d/f": changed})
				w.decide(c.decision, Selection{Changes: []Selected{{Path: "d/f"}}})
				c.later(w)
				l := w.changes(Query{})
				if got := shownVerdicts(l); got != c.shown {
					t.Errorf("the verdicts are %q, want %q", got, c.shown)
				}
				if got := goneOf(l); got != c.gone {
					t.Errorf("decisions that are not shown: %q, want %q", got, c.gone)
				}
				write(t, w.in(id), files{"d/other": "2\n"})
				out := w.decide(Approved, sel)
				w.apply(ApplyRequest{})
				want := map[int][]LeftOut{-1: {{"d/f", rejected, 0}}, 0: nil}[c.left]
				if c.left > 0 {
					want = []LeftOut{{"d/f", rejected, c.left}}
				}
				if !slices.Equal(out.LeftOut, want) {
					t.Errorf("left out are %v, want %v", out.LeftOut, want)
				}
				applied := c.applied
				if strings.HasPrefix(base, "+x ") {
					applied = "+x " + applied
				}
				same(t, "the workspace", read(t, w.in("workspace")), files{"d/f": applied, "d/other": "2\n"})
			})
		}
	}
}

// shownVerdicts returns the verdict on the first change, and those on its hunks by line.
func shownVerdicts(l *List) string {
	whole, verdicts := l.Verdict(l.Changes[0])
	var hunks []string
	for _, h := range l.Changes[0].Text.Hunks {
		hunks = append(hunks, fmt.Sprintf("%d %s", h.Base+1, verdicts[h.ID].Decision))
	}
	return string(whole.Decision) + ": " + strings.Join(hunks, ", ")
}

// goneOf returns the decisions that no change shows.
func goneOf(l *List) string {
	var out []string
	for _, g := range l.Gone {
		out = append(out, string(g.Decision)+map[bool]string{true: " replaced", false: " gone"}[g.Replaced])
	}
	return strings.Join(out, ", ")
}

// TestARejectionOfAChangeWithoutHunksHoldsForThatChange rejects changes that have no hunks, or one that each edit replaces.
// The agent makes another change of the file: the rejection is named, and does not hold for what nobody saw then.
func TestARejectionOfAChangeWithoutHunksHoldsForThatChange(t *testing.T) {
	t.Parallel()
	const gone = "gone"
	for name, c := range map[string]struct{ path, first, then string }{
		"a binary file":              {"bin", "2\x00", "3\x00"},
		"a binary file, made a text": {"bin", "2\x00", "3\n"},
		"a text, made a binary file": {"old", "2\n", "2\x00"},
		"a new file":                 {"new", "1\n", "1\n2\n"},
		"a new empty file":           {"new", "", "1\n"},
		"a new link":                 {"new", "-> old", "-> bin"},
		"a deletion":                 {"old", gone, "2\n"},
		"a deletion after an edit":   {"old", "2\n", gone},
		"a program made a file":      {"run", "1\n", "2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"bin": "1\x00", "old": "1\n", "run": "+x 1\n"})
			agent := func(content string) {
				if content == gone {
					remove(t, w.in(id), c.path)
					return
				}
				write(t, w.in(id), files{c.path: content})
			}
			agent(c.first)
			w.decide(Rejected, Selection{All: true})
			wantReason(t, w.applying(ApplyRequest{Selection: &Selection{All: true}, Approve: true})(false), NotApproved)
			agent(c.then)
			l := w.changes(Query{})
			if whole, hunks := l.Verdict(l.Changes[0]); whole.Decision != "" || len(hunks) > 0 {
				t.Errorf("the change has the verdicts %v and %v", whole, hunks)
			}
			if got := goneOf(l); got != "rejected replaced" || l.Gone[0].Comment != "because" {
				t.Errorf("decisions that are not shown: %+v", l.Gone)
			}
			w.decide(Approved, Selection{All: true})
			if got := goneOf(w.changes(Query{})); got != "" {
				t.Errorf("after another decision, decisions are not shown: %q", got)
			}
			w.apply(ApplyRequest{})
			same(t, "the workspace", read(t, w.in("workspace")), read(t, w.in(id)))
		})
	}
}

// TestRejectionsOutliveARestore restores a snapshot. A rejection stays with its change: a change that the context has again shows it, and one that it does
// not have is among those that are gone. A rejection on another base is dropped, and so is an approval: the restore was asked whether it may go.
func TestRejectionsOutliveARestore(t *testing.T) {
	t.Parallel()
	base, changed := numbered(30), strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30))
	for name, c := range map[string]struct {
		// do is done between the snapshot and the restore.
		do func(w *world)
		// want are the decisions on the hunks of a, and on b.
		want, gone string
	}{
		"nothing":           {func(*world) {}, " rejected, rejected", ""},
		"another change":    {func(w *world) { write(t, w.in(id), files{"a": "x\n", "b": "x\n"}) }, " rejected, rejected", ""},
		"everything undone": {func(w *world) { w.discard() }, " rejected, rejected", ""},
		"the base of a moved": {func(w *world) {
			w.apply(ApplyRequest{Selection: &Selection{Approved: true}})
		}, " , rejected", ""},
		"a file approved as a whole": {func(w *world) {
			w.decide(Approved, Selection{Changes: []Selected{{Path: "b"}}})
		}, " rejected, ", ""},
		"a file decided later": {func(w *world) {
			write(t, w.in(id), files{"later": "later\n"})
			w.decide(Rejected, Selection{Changes: []Selected{{Path: "later"}}})
		}, " rejected, rejected", "later"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": base, "b": "b\n"})
			write(t, w.in(id), files{"a": changed, "b": "agent\n"})
			hunks := w.changes(Query{}).Changes[0].HunkIDs()
			w.snapshot("s")
			w.decide(Approved, Selection{Changes: []Selected{{Path: "a", Hunks: hunks[:1]}}})
			w.decide(Rejected, Selection{Changes: []Selected{{Path: "a", Hunks: hunks[1:]}, {Path: "b"}}})
			c.do(w)
			w.restore("s")
			l := w.changes(Query{Drift: true})
			_, ofA := l.Verdict(l.Changes[0])
			ofB, _ := l.Verdict(l.Changes[1])
			got := fmt.Sprintf("%s %s, %s", ofA[hunks[0]].Decision, ofA[hunks[1]].Decision, ofB.Decision)
			if got != c.want {
				t.Errorf("the decisions are %q, want %q", got, c.want)
			}
			gone := ""
			for _, g := range l.Gone {
				gone += string(g.Path)
			}
			if gone != c.gone {
				t.Errorf("the decisions on %q are gone, want %q", gone, c.gone)
			}
			must(t, w.reviews.Copied(id, "ctx_b", "")) // a fork has none
			if st, err := w.reviews.states.read("ctx_b"); err != nil || len(st.Decided) != 0 {
				t.Errorf("a fork has the decisions %v (%v)", st.Decided, err)
			}
		})
	}
}
