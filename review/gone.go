package review

import (
	"context"
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

// gone returns the decisions within scopes that the changes of the list do not show, by path: those on paths without a
// change, and those of which a part is none of the change that the path has now. It looks into new ignored directories, which
// the list shows as one change.
func (r *Reviews) gone(ctx context.Context, l *List, scopes []Path) (out []GoneDecision, err error) {
	there, trees := map[Path]*Change{}, map[Path]bool{}
	for _, c := range l.Changes {
		there[c.Path] = c
		if c.Tree != nil {
			trees[c.Path] = true
		}
	}
	var decided, inTrees []Path
	for _, p := range slices.Sorted(maps.Keys(l.state.Decided)) {
		if !slices.ContainsFunc(scopes, p.Within) {
			continue
		}
		if decided = append(decided, p); below(p, trees) {
			inTrees = append(inTrees, p)
		}
	}
	if len(inTrees) > 0 {
		inside, err := r.changes(ctx, Query{Context: l.context, Paths: inTrees, Ignored: true}, nil)
		if err != nil {
			return nil, err
		}
		for _, c := range inside.Changes {
			there[c.Path] = c
		}
		if err := inside.Close(); err != nil {
			return nil, err
		}
	}
	for _, p := range decided {
		d, c := l.state.Decided[p], there[p]
		switch {
		case c == nil:
			out = append(out, GoneDecision{p, d.first(func(string) bool { return true }), false})
		case l.state.current(c) == nil:
			if v := d.first(d.hiddenBy(c)); v.Decision != "" {
				out = append(out, GoneDecision{p, v, true})
			}
		}
	}
	return out, nil
}

// hiddenBy returns a function that reports whether a later change of the path does not have a hunk; "" stands for the earlier
// change as a whole.
func (d *decided) hiddenBy(c *Change) func(hunk string) bool {
	shown := d.on(c)
	isShown := func(hunk string) bool { return shown[hunk].Decision != "" }
	return func(hunk string) bool {
		if hunk == "" {
			return !d.isOfHunks() || slices.ContainsFunc(d.WholeHunks, func(id string) bool { return !isShown(id) })
		}
		return !isShown(hunk)
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
