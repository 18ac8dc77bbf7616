package review

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// A context has two revisions. That of its changes has the number of files and bytes alone of new ignored directories, and that of its changes with
// Query.Ignored has their content too. They are equal if there is no such directory.

// revisionOf names changes.
func revisionOf(changes []*Change) string {
	var ids []string
	for _, c := range changes {
		ids = append(ids, string(c.Path), c.ID, fmt.Sprint(c.Tree))
	}
	return idOf("revision.2", ids)
}

// errListIgnored asks for the changes with Query.Ignored.
var errListIgnored = errors.New("review: the revision may be the one with ignored directories")

// revisionCheck refuses a call that was made for another revision, or for one that does not say what the selected files hold.
type revisionCheck struct {
	// want is the revision, "" for any.
	want string
	// scope are the paths that are selected; "" is everything.
	scope []Path
	// refusal is what the changes without Query.Ignored gave.
	refusal error
}

// check is called with all changes: without Query.Ignored, and again with it if it returns errListIgnored.
func (r *revisionCheck) check(changes []*Change) error {
	unlisted := r.unlisted(changes)
	if r.want == "" && len(unlisted) > 0 {
		return errListIgnored
	}
	is := revisionOf(changes)
	switch {
	case r.want == "":
		return nil
	case r.refusal == nil:
		if is == r.want && len(unlisted) == 0 {
			return nil
		}
		r.refusal = refuse(StaleRevision, nil, fmt.Sprintf("the context is at revision %s, not %s", is, r.want), "list the changes again")
		if is == r.want {
			r.refusal = refuse(StaleRevision, unlisted, "the revision does not say what new ignored directories hold", "list the changes with ignored, and name the revision of that list")
		}
		if slices.ContainsFunc(changes, func(c *Change) bool { return c.Tree != nil }) {
			return errListIgnored
		}
		return r.refusal
	case is == r.want:
		return nil
	}
	return r.refusal
}

// unlisted returns the selected paths at or below a directory that is one change.
func (r *revisionCheck) unlisted(changes []*Change) (out []Path) {
	for _, p := range r.scope {
		if slices.ContainsFunc(changes, func(c *Change) bool { return c.Tree != nil && isWithin(p, c.Path) }) {
			out = append(out, p)
		}
	}
	return out
}

// checkRevision refuses a call that was made for another revision; "" is any. The call selects no files of the context.
func (r *Reviews) checkRevision(ctx context.Context, id, want string) error {
	if want == "" {
		return nil
	}
	at := &revisionCheck{want: want}
	check := func(_ context.Context, _ rootfs.Root, l *List) error { return at.check(l.Changes) }
	l, err := r.changes(ctx, Query{Context: id}, check)
	if errors.Is(err, errListIgnored) {
		l, err = r.changes(ctx, Query{Context: id, Ignored: true}, check)
	}
	if err != nil {
		return err
	}
	return l.Close()
}
