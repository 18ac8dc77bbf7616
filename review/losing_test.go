package review

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

// snapshots counts how often a snapshot of a world is opened.
type snapshots struct {
	*world
	opened int
}

func (s *snapshots) Snapshot(ctx context.Context, id, name string) (SnapshotView, error) {
	s.opened++
	return s.world.Snapshot(ctx, id, name)
}

// snapshot copies the context.
func (w *world) snapshot(name string) {
	w.t.Helper()
	dir := w.in(id + "@" + name)
	must(w.t, os.Mkdir(dir, 0o755))
	write(w.t, dir, read(w.t, w.in(id)))
	must(w.t, w.reviews.Copied(id, id+"@"+name, ""))
}

// restore puts a snapshot in place of the context.
func (w *world) restore(name string) {
	w.t.Helper()
	must(w.t, os.RemoveAll(w.in(id)))
	must(w.t, os.Mkdir(w.in(id), 0o755))
	write(w.t, w.in(id), read(w.t, w.in(id+"@"+name)))
	must(w.t, w.reviews.Copied(id+"@"+name, id, ""))
}

// TestSnapshotsHoldChangesThatWereNotApplied takes a snapshot of changes, which are the only copy of them once the context has other content.
func TestSnapshotsHoldChangesThatWereNotApplied(t *testing.T) {
	edited := files{"a": "A\n", "new": "new\n"}
	for name, row := range map[string]struct {
		before, after func(w *world)
		// files is how many changes of the snapshot are not applied; 0 if the snapshot holds none.
		files int
	}{
		"no change":                        {func(w *world) { w.restore("clean") }, func(*world) {}, 0},
		"still in the context":             {func(*world) {}, func(*world) {}, 2},
		"discarded":                        {func(*world) {}, func(w *world) { w.discard() }, 2},
		"restored to what was clean":       {func(*world) {}, func(w *world) { w.restore("clean") }, 2},
		"ignored":                          {func(w *world) { w.restore("clean"); write(w.t, w.in(id), files{"x.log": "log\n"}) }, func(w *world) { w.discard() }, 0},
		"a deletion":                       {func(w *world) { w.restore("clean"); remove(w.t, w.in(id), "b") }, func(w *world) { w.discard() }, 1},
		"applied":                          {func(*world) {}, func(w *world) { w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}}) }, 0},
		"applied before the snapshot":      {func(w *world) { w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}}) }, func(*world) {}, 0},
		"applied, and changed since":       {func(*world) {}, func(w *world) { w.applyTwice() }, 0},
		"applied, then the clean restored": {func(*world) {}, func(w *world) { w.applyTwice(); w.restore("clean") }, 0},
		"applied in part": {func(*world) {}, func(w *world) {
			w.apply(ApplyRequest{Approve: true, Selection: &Selection{Changes: []Selected{{Path: "a"}}}})
		}, 1},
		"applied in a later version": {func(*world) {}, func(w *world) { w.applyMore() }, 1},
		"the apply was undone": {func(*world) {}, func(w *world) {
			e := w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}})
			_, err := w.undo(e.ID)
			must(w.t, err)
		}, 2},
		"the undo was undone": {func(*world) {}, func(w *world) {
			e := w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}})
			undo, err := w.undo(e.ID)
			must(w.t, err)
			_, err = w.undo(undo.ID)
			must(w.t, err)
		}, 0},
		"clean when it was taken": {func(w *world) { w.discard() }, func(w *world) {
			write(w.t, w.in(id), files{"b": "B\n"})
			w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": "a\n", "b": "b\n", ".gitignore": "*.log\n"})
			counted := &snapshots{world: w}
			w.reviews.cfg.Contexts = counted
			w.snapshot("clean")
			write(t, w.in(id), edited)
			row.before(w)
			w.snapshot("s")
			want := func(files int) {
				t.Helper()
				var snapshots []LosingSnapshot
				if files > 0 {
					snapshots = []LosingSnapshot{{"s", files}}
				}
				got, err := w.reviews.Losing(t.Context(), id, true)
				must(t, err)
				if !slices.Equal(got.Snapshots, snapshots) {
					t.Errorf("the snapshots %v would be lost, want %v", got.Snapshots, snapshots)
				}
			}
			_, err := w.reviews.Losing(t.Context(), id, true) // what this remembers must not count afterwards
			must(t, err)
			row.after(w)
			want(row.files)
			opened := counted.opened
			want(row.files)
			if counted.opened != opened {
				t.Error("the snapshots were compared again")
			}
			if row.files > 0 {
				if e := wantReason(t, w.reviews.UnappliedAnywhere(t.Context(), id), NotApplied); !strings.Contains(e.Detail, " s (files: ") {
					t.Errorf("the refusal does not name the snapshot: %v", e)
				}
			}
		})
	}
}

// TestSnapshotsAreComparedAgainAfterIgnoreFilesChange has a snapshot of four new files, some of which ignore files leave out.
func TestSnapshotsAreComparedAgainAfterIgnoreFilesChange(t *testing.T) {
	for name, row := range map[string]struct {
		// before and after are of the workspace; "" removes.
		before, after files
		// files are how many changes the snapshot holds before and after.
		files [2]int
		again bool
	}{
		"a file of the workspace":              {nil, files{".gitignore": "*.log\n"}, [2]int{4, 1}, true},
		"a file that leaves nothing out now":   {files{".gitignore": "*.log\n"}, files{".gitignore": "#\n"}, [2]int{1, 4}, true},
		"a file that is gone":                  {files{".gitignore": "*.log\n"}, files{".gitignore": ""}, [2]int{1, 4}, true},
		"a file of a directory":                {nil, files{"dir/.gitignore": "*\n"}, [2]int{4, 2}, true},
		"a file in a new directory":            {nil, files{"dir/sub/.gitignore": "*\n"}, [2]int{4, 3}, true},
		"a file of the seeding":                {nil, files{".contextignore": "*.log\n"}, [2]int{4, 1}, true},
		"a repository's own file":              {files{".git/HEAD": "x\n", ".git/objects/x": "x\n", ".git/refs/x": "x\n"}, files{".git/info/exclude": "*.log\n"}, [2]int{4, 1}, true},
		"a directory that is a repository now": {files{".gitignore": "/dir/\n"}, files{"dir/.git/HEAD": "x\n"}, [2]int{2, 4}, true},
		"other files":                          {files{".gitignore": "*.log\n"}, files{"a": "A\n", "other/.gitignore": "*\n", "more": "x\n"}, [2]int{1, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": "a\n"})
			counted := &snapshots{world: w}
			w.reviews.cfg.Contexts = counted
			write(t, w.in("workspace"), row.before)
			write(t, w.in(id), files{"x.log": "x\n", "new": "new\n", "dir/y.log": "y\n", "dir/sub/z.log": "z\n"})
			w.snapshot("s")
			look := func(files int) {
				t.Helper()
				got, err := w.reviews.Losing(t.Context(), id, true)
				must(t, err)
				if len(got.Snapshots) != 1 || got.Snapshots[0].Files != files {
					t.Errorf("the snapshots %v would be lost, want one with %d files", got.Snapshots, files)
				}
			}
			look(row.files[0])
			opened := counted.opened
			for p, text := range row.after {
				if text == "" {
					remove(t, w.in("workspace"), p)
					delete(row.after, p)
				}
			}
			write(t, w.in("workspace"), row.after)
			look(row.files[1])
			if again := counted.opened != opened; again != row.again {
				t.Errorf("the snapshot was compared again: %t, want %t", again, row.again)
			}
			opened = counted.opened
			look(row.files[1])
			if counted.opened != opened {
				t.Error("the snapshot was compared again, and nothing had changed")
			}
		})
	}
}

// applyTwice applies all changes, and then further ones of the same files.
func (w *world) applyTwice() {
	w.t.Helper()
	w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}})
	w.applyMore()
}

// applyMore edits a file of the changes once more, and applies all changes.
func (w *world) applyMore() {
	w.t.Helper()
	write(w.t, w.in(id), files{"a": "A again\n"})
	w.apply(ApplyRequest{Approve: true, Selection: &Selection{All: true}})
}

// TestApprovedChangesAreNotLost approves changes, and lets the agent do something else then. Apply would still write what was approved: it is named as
// long as it is neither applied nor withdrawn.
func TestApprovedChangesAreNotLost(t *testing.T) {
	for name, row := range map[string]struct {
		selection     Selection
		after         func(w *world)
		approved, all []Path
	}{
		"still there":       {Selection{All: true}, func(*world) {}, nil, []Path{"a", "b"}},
		"taken back":        {Selection{All: true}, func(w *world) { w.discard() }, []Path{"a", "b"}, []Path{"a", "b"}},
		"edited further":    {Selection{All: true}, func(w *world) { write(w.t, w.in(id), files{"b": "BB\n"}) }, []Path{"b"}, []Path{"b", "a"}},
		"one hunk":          {Selection{}, func(w *world) { w.discard() }, []Path{"a"}, []Path{"a"}},
		"an ignored file":   {Selection{Changes: []Selected{{Path: "x.log"}}}, func(w *world) { w.discard() }, []Path{"x.log"}, []Path{"x.log"}},
		"withdrawn":         {Selection{All: true}, func(w *world) { w.discard(); w.decide(Rejected, Selection{All: true}) }, nil, nil},
		"taken back by one": {Selection{All: true}, func(w *world) { write(w.t, w.in(id), files{"b": "b\n"}) }, []Path{"b"}, []Path{"b", "a"}},
		"applied":           {Selection{All: true}, func(w *world) { w.discard(); w.apply(ApplyRequest{}) }, nil, []Path{"a", "b"}},
		"restored":          {Selection{All: true}, func(w *world) { w.restore("clean") }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"a": numbered(30), "b": "b\n", ".gitignore": "*.log\n"})
			w.snapshot("clean")
			write(t, w.in(id), files{"a": strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30)), "b": "B\n", "x.log": "log\n"})
			if name == "one hunk" {
				row.selection.Changes = []Selected{{Path: "a", Hunks: []string{w.changes(Query{}).Changes[0].HunkIDs()[1]}}}
			}
			w.decide(Approved, row.selection)
			row.after(w)
			got, err := w.reviews.Losing(t.Context(), id, false)
			must(t, err)
			if !slices.Equal(got.Approved, row.approved) {
				t.Errorf("what was approved would be lost at %q, want %q", got.Approved, row.approved)
			}
			err = w.reviews.Unapplied(t.Context(), id)
			if len(row.all) == 0 {
				must(t, err)
				return
			}
			if e := wantReason(t, err, NotApplied); !slices.Equal(e.Paths, row.all) || strings.Contains(e.Detail, "approved and not applied") != (row.approved != nil) {
				t.Errorf("the refusal is %v about %q, want %q", e, e.Paths, row.all)
			}
		})
	}
}
