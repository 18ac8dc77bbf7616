package review

import (
	"fmt"
	"maps"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatCannotBeComparedIsLeftAlone has files of the workspace that are barred by their name, and files that a program in the context has made such.
func TestWhatCannotBeComparedIsLeftAlone(t *testing.T) {
	content := files{
		".ctxfs/config.yml": "tracked\n", "sub/.contexts/x": "tracked\n", "fixtures/GIT~1": "tracked\n", "dir/file": "file\n", "tool": "+x tool\n", "pipe": "file\n", "deep/pipe/f": "f\n",
		"edited": "old\n",
	}
	w := newWorld(t, content)
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Errorf("an untouched context has the change %s (%s)", l.Changes[0].Path, l.Changes[0].Barred)
	}
	remove(t, w.in(id), ".ctxfs/config.yml", "pipe", "deep/pipe/f")
	must(t, os.MkdirAll(w.in(id)+"/deep", 0o755))
	must(t, unix.Mkfifo(w.in(id)+"/pipe", 0o600))
	must(t, unix.Mkfifo(w.in(id)+"/deep/pipe", 0o600))
	must(t, os.Chmod(w.in(id)+"/tool", 0o2755|os.ModeSetgid))
	write(t, w.in(id), files{"edited": "new\n", "fixtures/GIT~1": "changed\n"})
	got := map[Path]string{}
	for _, c := range w.changes(Query{}).Changes {
		got[c.Path] = fmt.Sprint(c.Kind == Deleted, " ", c.Barred)
	}
	want := map[Path]string{"edited": "false ", "pipe": "false special-file", "deep/pipe": "false special-file", "tool": "false setuid"}
	if !maps.Equal(got, want) {
		t.Errorf("the changes are %v, want %v", got, want)
	}
	w.apply(ApplyRequest{Selection: &Selection{All: true}, Approve: true})
	content["edited"] = "new\n"
	same(t, "the workspace", read(t, w.in("workspace")), content)
	write(t, w.in("workspace"), files{"dir/file": "the user's\n"})
	_, err := w.reviews.Rebase(t.Context(), RebaseRequest{Context: id, Actor: "host"})
	must(t, err)
	content["dir/file"] = "the user's\n"
	same(t, "the workspace after a rebase", read(t, w.in("workspace")), content)
	if l := w.changes(Query{}); len(l.Changes) != 3 {
		t.Errorf("%d changes are left, want the three that cannot be applied", len(l.Changes))
	}
}
