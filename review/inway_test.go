package review

import (
	"os"
	"path"
	"testing"
)

// TestRebaseOverWhatIsInTheWay has a directory of the context where the workspace has a file, and a file where the workspace has a directory. Each decision
// works, can be undone, and the review goes on from it.
func TestRebaseOverWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	base := files{"f": "1\n", "d/g": "1\n", "d/h": "1\n"}
	for name, c := range map[string]struct {
		gone               []string // from the context
		context, workspace files
		want               Path // where the conflict is
	}{
		"a new directory":              {nil, files{"x/a": "agent\n", "x/y/b": "agent\n"}, files{"x": "user\n"}, "x"},
		"a directory of links":         {nil, files{"x/a": "-> ../f"}, files{"x": "user\n"}, "x"},
		"a new file":                   {nil, files{"x": "agent\n"}, files{"x/a": "user\n"}, "x/a"},
		"a link":                       {nil, files{"x": "-> d"}, files{"x/y/a": "user\n"}, "x/y/a"},
		"a directory for a file":       {[]string{"f"}, files{"f/a": "agent\n"}, files{"f": "user\n"}, "f"},
		"a file for a directory":       {[]string{"d/g", "d/h", "d"}, files{"d": "agent\n"}, files{"d/g": "user\n", "d/h": "user\n"}, "d/g"},
		"a directory for a new link":   {nil, files{"x/a": "agent\n"}, files{"x": "-> f"}, "x"},
		"files beside those of a base": {nil, files{"d/g": "agent\n", "d/h": "agent\n", "d/new": "agent\n"}, files{"d": "user\n"}, "d"},
	} {
		open := func(t *testing.T) (w *world, before, workspace files) {
			w = newWorld(t, base)
			for _, p := range c.gone {
				must(t, os.Remove(w.in(id)+"/"+p))
			}
			write(t, w.in(id), c.context)
			for p := range c.workspace {
				must(t, os.RemoveAll(w.in("workspace")+"/"+p))
			}
			write(t, w.in("workspace"), c.workspace)
			return w, read(t, w.in(id)), read(t, w.in("workspace"))
		}
		rebase := func(t *testing.T, w *world, how OnConflict) *Rebased {
			t.Helper()
			r, err := w.reviews.Rebase(t.Context(), RebaseRequest{Context: id, OnConflict: how, Actor: "host"})
			must(t, err)
			return r
		}
		back := func(t *testing.T, w *world, entry int64, before files) {
			t.Helper()
			_, err := w.reviews.Undo(t.Context(), UndoRequest{ID: entry, Actor: "host", May: func(*Entry) error { return nil }})
			must(t, err)
			same(t, "the context after the undo", read(t, w.in(id)), before)
		}
		t.Run(name+"/take workspace", func(t *testing.T) {
			t.Parallel()
			w, before, workspace := open(t)
			r := rebase(t, w, TakeWorkspace)
			same(t, "the context", read(t, w.in(id)), workspace)
			if l := w.changes(Query{}); len(l.Changes) != 0 {
				t.Errorf("%d changes are left", len(l.Changes))
			}
			back(t, w, r.ID, before)
		})
		t.Run(name+"/keep context", func(t *testing.T) {
			t.Parallel()
			w, before, _ := open(t)
			rebase(t, w, KeepContext)
			same(t, "the context", read(t, w.in(id)), before)
			_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Approve: true, Actor: "host", Selection: &Selection{All: true}})
			must(t, err)
			same(t, "the workspace", read(t, w.in("workspace")), before)
		})
		t.Run(name+"/record", func(t *testing.T) {
			t.Parallel()
			w, before, workspace := open(t)
			rebase(t, w, RecordConflicts)
			same(t, "the context", read(t, w.in(id)), before)
			e, err := w.reviews.Resolve(t.Context(), id, c.want, Resolution{Side: SideWorkspace}, "host")
			must(t, err)
			if got, want := read(t, w.in(id))[string(c.want)], workspace[string(c.want)]; got != want {
				t.Errorf("%s has %q, want %q", c.want, got, want)
			}
			back(t, w, e.ID, before)
			e, err = w.reviews.Resolve(t.Context(), id, c.want, Resolution{Side: SideContent, Content: []byte("new\n")}, "host")
			must(t, err)
			if got := read(t, w.in(id))[path.Clean(string(c.want))]; got != "new\n" {
				t.Errorf("%s has %q", c.want, got)
			}
			back(t, w, e.ID, before)
		})
	}
}
