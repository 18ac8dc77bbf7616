package review

import (
	"maps"
	"slices"
)

// GoneDecision is a decision that no change of a list shows.
type GoneDecision struct {
	Path Path
	// Verdict is the decision. It is an approval if a part of the change is approved: Apply would write that part.
	Verdict
	// Replaced says that the context has another change of the path. Otherwise it has none.
	Replaced bool
}

// gone returns the decisions within scopes that the changes of the list do not show, by path: those on paths without a change, and approvals of which a
// part is none of the change that the path has now.
func (l *List) gone(scopes []Path) (out []GoneDecision) {
	there, trees := map[Path]*Change{}, map[Path]bool{}
	for _, c := range l.Changes {
		there[c.Path] = c
		if c.Tree != nil {
			trees[c.Path] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(l.state.Decided)) {
		if below(p, trees) || !slices.ContainsFunc(scopes, p.Within) { // the list does not say whether there is such a change
			continue
		}
		d, c := l.state.Decided[p], there[p]
		switch {
		case c == nil:
			out = append(out, GoneDecision{p, d.first(func(string) bool { return true }), false})
		case l.state.current(c) == nil:
			if v := d.first(l.hides(c)); v.Decision == Approved {
				out = append(out, GoneDecision{p, v, true})
			}
		}
	}
	return out
}

// hides returns a function that says which hunks of an earlier content are none of a change; "" stands for the earlier change as a whole.
func (l *List) hides(c *Change) func(hunk string) bool {
	_, shown := l.Verdict(c)
	return func(hunk string) bool {
		_, is := shown[hunk]
		return !is
	}
}

// first returns a verdict on the whole or on hunks that are chosen: an approval, if one is, and of these the latest. It is zero if there is none.
func (d *decided) first(chosen func(hunk string) bool) (out Verdict) {
	take := func(hunk string, v Verdict) {
		if !chosen(hunk) {
			return
		}
		later := v.At.After(out.At)
		if v.Decision == out.Decision && later || out.Decision != Approved && (v.Decision == Approved || later) {
			out = v
		}
	}
	if d.Whole != nil {
		take("", *d.Whole)
	}
	for hunk, v := range d.Hunks {
		take(hunk, v)
	}
	return out
}
