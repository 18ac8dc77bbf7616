package review

import (
	"maps"
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

// TestHunksCoverWhatTheyWereShownWith selects the hunk of a file by its ID, and makes something else of the file then.
func TestHunksCoverWhatTheyWereShownWith(t *testing.T) {
	t.Parallel()
	const gone = "gone"
	for name, c := range map[string]struct {
		path, shown, later string
		// stale says that the hunk is not there any more; otherwise want is what is applied.
		stale bool
		want  files
	}{
		"a new file, made executable":          {"new", "text\n", "+x text\n", true, nil},
		"a new executable, made a plain file":  {"new", "+x text\n", "text\n", true, nil},
		"a new file, made a link":              {"new", "text\n", "-> text\n", true, nil},
		"a new file, removed":                  {"new", "text\n", gone, true, nil},
		"a new file, as it was":                {"new", "+x text\n", "+x text\n", false, files{"old": "1\n", "run": "+x 1\n", "new": "+x text\n"}},
		"a changed file, made executable":      {"old", "2\n", "+x 2\n", false, files{"old": "2\n", "run": "+x 1\n"}},
		"a changed program, made a plain file": {"run", "+x 2\n", "2\n", false, files{"old": "1\n", "run": "+x 2\n"}},
		"a changed file, made a link":          {"old", "2\n", "-> 2\n", true, nil},
		"a changed file, removed":              {"old", "2\n", gone, true, nil},
		"an emptied file, removed":             {"old", "", gone, true, nil},
	} {
		base := files{"old": "1\n", "run": "+x 1\n"}
		begin := func(t *testing.T) (*world, *Selection) {
			w := newWorld(t, base)
			write(t, w.in(id), files{c.path: c.shown})
			hunk := w.changes(Query{}).Changes[0].HunkIDs()[0]
			return w, &Selection{Changes: []Selected{{Path: Path(c.path), Hunks: []string{hunk}}}}
		}
		later := func(w *world) {
			if c.later == gone {
				remove(t, w.in(id), c.path)
			} else {
				write(t, w.in(id), files{c.path: c.later})
			}
		}
		check := func(t *testing.T, w *world, err error, reason Reason) {
			t.Helper()
			want := c.want
			if c.stale {
				wantReason(t, err, reason)
				want = base
			} else {
				must(t, err)
			}
			same(t, "the workspace", read(t, w.in("workspace")), want)
		}
		t.Run(name+"/apply", func(t *testing.T) {
			t.Parallel()
			w, sel := begin(t)
			later(w)
			check(t, w, w.applying(ApplyRequest{Selection: sel, Approve: true})(false), StaleRevision)
		})
		t.Run(name+"/approve", func(t *testing.T) {
			t.Parallel()
			w, sel := begin(t)
			later(w)
			_, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: *sel, Decision: Approved, Actor: "host"})
			if err == nil {
				w.apply(ApplyRequest{})
			}
			check(t, w, err, StaleRevision)
		})
		t.Run(name+"/approved before", func(t *testing.T) {
			t.Parallel()
			w, sel := begin(t)
			w.decide(Approved, *sel)
			later(w)
			l := w.changes(Query{})
			for _, ch := range l.Changes {
				if whole, hunks := l.Verdict(ch); c.stale && (whole.Decision != "" || len(hunks) > 0) {
					t.Errorf("%s is shown with the verdicts %v and %v", ch.Path, whole, hunks)
				}
			}
			// What was approved is what was seen, whatever the context has now.
			w.apply(ApplyRequest{})
			want := files{"old": "1\n", "run": "+x 1\n"}
			want[c.path] = c.shown
			same(t, "the workspace", read(t, w.in("workspace")), want)
		})
	}
}

// TestEverythingBesideAFileOfAnIgnoredDirectory selects the root, and more below it by name.
func TestEverythingBesideAFileOfAnIgnoredDirectory(t *testing.T) {
	t.Parallel()
	for _, p := range []Path{"out", "out/lib.js"} {
		w := newWorld(t, files{".contextignore": "out\n"})
		write(t, w.in(id), files{"out/lib.js": "good\n", "out/x.js": "good\n", "plain": "plain\n"})
		w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{}, {Path: p}}}, Approve: true})
		want := files{".contextignore": "out\n", "plain": "plain\n"}
		if p != "out" {
			want["out/lib.js"] = "good\n"
		}
		same(t, string(p), read(t, w.in("workspace")), want)
	}
}

// TestRevisionCoversNamedFilesOfIgnoredDirectories names a revision, and a file of a new ignored directory.
func TestRevisionCoversNamedFilesOfIgnoredDirectories(t *testing.T) {
	t.Parallel()
	named := func(p Path) *Selection { return &Selection{Changes: []Selected{{Path: p}}} }
	for name, c := range map[string]struct {
		sel *Selection
		// ignored says that the revision is that of the list with ignored directories.
		ignored bool
		// later is what the panel writes after it.
		later  files
		reason Reason
		want   files
	}{
		"as it was":                       {named("out/lib.js"), true, nil, "", files{"out/lib.js": "good\n"}},
		"another content of equal size":   {named("out/lib.js"), true, files{"out/lib.js": "evil\n"}, StaleRevision, nil},
		"executable":                      {named("out/lib.js"), true, files{"out/lib.js": "+x good\n"}, StaleRevision, nil},
		"a link":                          {named("out/lib.js"), true, files{"out/lib.js": "-> x.js"}, StaleRevision, nil},
		"another file of the directory":   {named("out/lib.js"), true, files{"out/x.js": "evil\n"}, StaleRevision, nil},
		"a revision without its content":  {named("out/lib.js"), false, nil, StaleRevision, nil},
		"the same, and a later change":    {named("out/lib.js"), false, files{"out/lib.js": "evil\n"}, StaleRevision, nil},
		"the directory":                   {named("out"), true, nil, NotApproved, nil},
		"the directory without content":   {named("out"), false, nil, StaleRevision, nil},
		"a file beside the directory":     {named("plain"), false, nil, "", files{"plain": "plain\n"}},
		"all":                             {&Selection{All: true}, false, nil, "", files{"plain": "plain\n"}},
		"all, at the revision of content": {&Selection{All: true}, true, nil, "", files{"plain": "plain\n"}},
		"what is approved":                {nil, true, nil, "", files{"approved": "yes\n"}},
		"what is approved, after a write": {nil, true, files{"out/lib.js": "evil\n"}, StaleRevision, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := files{".contextignore": "out\n"}
			w := newWorld(t, base)
			if c.sel == nil {
				write(t, w.in(id), files{"approved": "yes\n"})
				w.decide(Approved, Selection{All: true})
			}
			write(t, w.in(id), files{"out/lib.js": "good\n", "out/x.js": "good\n", "plain": "plain\n"})
			revision := w.changes(Query{Ignored: c.ignored}).Revision
			write(t, w.in(id), c.later)
			err := w.applying(ApplyRequest{Selection: c.sel, Approve: c.sel != nil, IfRevision: revision})(false)
			want := base
			if c.reason != "" {
				wantReason(t, err, c.reason)
			} else {
				must(t, err)
				maps.Copy(want, c.want)
			}
			same(t, "the workspace", read(t, w.in("workspace")), want)
		})
	}
}
