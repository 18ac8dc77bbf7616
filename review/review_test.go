package review

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestChanges(t *testing.T) {
	w := newWorld(t, files{
		"a.txt": "one\ntwo\n", "b.bin": "x\x00y", "dir/c": "c", "dir/d": "d", "run": "echo", "link": "-> a.txt", "same": "same", "moved": "moved content",
		".gitignore": "out/\n*.log\n",
	})
	remove(t, w.in(id), "dir/d", "dir/c", "moved")
	write(t, w.in(id), files{
		"a.txt": "one\n2\n", "b.bin": "x\x00z", "run": "+x echo", "link": "-> b.bin", "new/file": "new\n", "same": "same", "dir/c/below": "c is a directory",
		"node_modules/m/index.js": "m", "out/built": "built", "debug.log": "log", ".git/config": "evil", "renamed": "moved content",
		".github/workflows/ci.yml": "on: push", "outside": "-> ../../etc/passwd",
	})
	l := w.changes(Query{})
	got := map[string]string{}
	for _, c := range l.Changes {
		got[string(c.Path)] = strings.TrimSpace(fmt.Sprint(c.Kind, c.Content, " ", c.leftOut(), " ", c.RenamedFrom))
	}
	want := map[string]string{
		"a.txt": "2 1", "b.bin": "2 2", "dir/c": "3 1", "dir/c/below": "1 1", "dir/d": "3 1", "run": "5 0 executable", "link": "2 3", "new/file": "1 1",
		"node_modules": "1 5 ignored", "out": "1 5 ignored", "debug.log": "1 1 ignored", ".git": "1 0 git-directory", "renamed": "1 1  moved", "moved": "3 1",
		".github/workflows/ci.yml": "1 1 workflow", "outside": "1 3 link-leaves-repository",
	}
	for p, text := range want {
		if strings.Join(strings.Fields(got[p]), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%s is %q, want %q", p, got[p], text)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s is a change: %q", p, got[p])
		}
	}
	if again := w.changes(Query{}); again.Revision != l.Revision || l.Revision == "" {
		t.Errorf("the revision is %q, then %q", l.Revision, again.Revision)
	}
	inside := w.changes(Query{Paths: []Path{"node_modules"}, Ignored: true})
	if len(inside.Changes) != 1 || inside.Changes[0].Path != "node_modules/m/index.js" || !inside.Changes[0].Ignored {
		t.Errorf("below node_modules there are %v", inside.Changes)
	}
}

// A panel can set sizes and modification times back, but not ctime.
func TestEditWithSameSizeAndTimeIsFound(t *testing.T) {
	w := newWorld(t, files{"a": "secret", "b": "other"})
	old, err := os.Stat(w.in(id) + "/a")
	must(t, err)
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Fatalf("there are changes at first: %v", l.Changes)
	}
	must(t, os.WriteFile(w.in(id)+"/a", []byte("SECRET"), 0o600))
	must(t, os.Chtimes(w.in(id)+"/a", old.ModTime(), old.ModTime()))
	if l := w.changes(Query{}); len(l.Changes) != 1 || l.Changes[0].Path != "a" {
		t.Errorf("the hidden edit is listed as %v", l.Changes)
	}
}

func (w *world) decide(d Decision, sel Selection) Decided {
	w.t.Helper()
	out, err := w.reviews.Decide(w.t.Context(), DecideRequest{Context: id, Selection: sel, Decision: d, Actor: "host", Comment: "because"})
	must(w.t, err)
	return out
}

func (w *world) undo(entry int64) (*Entry, error) {
	return w.reviews.Undo(w.t.Context(), UndoRequest{ID: entry, Actor: "host", May: func(*Entry) error { return nil }})
}

func (w *world) apply(req ApplyRequest) *Entry {
	w.t.Helper()
	req.Context, req.Actor = id, "host"
	e, err := w.reviews.Apply(w.t.Context(), req)
	must(w.t, err)
	return e
}

func TestApplyAndUndo(t *testing.T) {
	base := files{"a": numbered(20), "gone/deep/file": "gone\n", "run": "echo\n", "link": "-> a", "mine": "mine\n"}
	w := newWorld(t, base)
	changed := files{"a": strings.Replace(numbered(20), "line 3\n", "line three\n", 1), "new/deep/file": "new\n", "run": "+x echo\n", "link": "-> run"}
	write(t, w.in(id), changed)
	remove(t, w.in(id), "gone/deep/file")
	write(t, w.in("workspace"), files{"a": numbered(20) + "the user's\n", "mine": "edited\n"})
	before := read(t, w.in("workspace"))

	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	wantReason(t, err, NotApproved)
	if out := w.decide(Approved, Selection{All: true}); out.Changes != 4 || !slices.Equal(out.LeftOut, []LeftOut{{"run", SensitiveExecutable, 0}}) {
		t.Errorf("decided %+v", out)
	}
	w.decide(Approved, Selection{Changes: []Selected{{Path: "run"}}})
	dry := w.apply(ApplyRequest{DryRun: true})
	if len(dry.Steps) != 5 || dry.ID != 0 {
		t.Errorf("a dry run is entry %d with %d steps", dry.ID, len(dry.Steps))
	}
	same(t, "after a dry run", read(t, w.in("workspace")), before)

	e := w.apply(ApplyRequest{})
	want := maps.Clone(changed)
	want["a"] += "the user's\n"
	want["mine"] = "edited\n"
	same(t, "applied", read(t, w.in("workspace")), want)
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Errorf("after the apply these are left: %v", l.Changes)
	}
	undo, err := w.undo(e.ID)
	must(t, err)
	same(t, "undone", read(t, w.in("workspace")), before)
	if l := w.changes(Query{}); len(l.Changes) != 5 {
		t.Errorf("after the undo %d changes are there, want 5", len(l.Changes))
	}
	_, err = w.undo(undo.ID)
	must(t, err)
	same(t, "redone", read(t, w.in("workspace")), want)
}

func TestHunksAreAppliedOneByOne(t *testing.T) {
	w := newWorld(t, files{"a": numbered(30)})
	edited := strings.NewReplacer("line 5\n", "five\n", "line 15\n", "fifteen\n", "line 25\n", "twenty-five\n").Replace(numbered(30))
	write(t, w.in(id), files{"a": edited})
	hunks := w.changes(Query{}).Changes[0].HunkIDs()
	if len(hunks) != 3 {
		t.Fatalf("there are %d hunks", len(hunks))
	}
	w.decide(Approved, Selection{Changes: []Selected{{Path: "a", Hunks: []string{hunks[1]}}}})
	w.decide(Rejected, Selection{Changes: []Selected{{Path: "a", Hunks: []string{hunks[2]}}}})
	w.apply(ApplyRequest{})
	same(t, "applied", read(t, w.in("workspace")), files{"a": strings.Replace(numbered(30), "line 15\n", "fifteen\n", 1)})
	same(t, "the context", read(t, w.in(id)), files{"a": edited})
	l := w.changes(Query{})
	left := l.Changes[0].HunkIDs()
	if len(left) != 2 || left[0] != hunks[0] || left[1] != hunks[2] {
		t.Errorf("left are %v", left)
	}
	if _, verdicts := l.Verdict(l.Changes[0]); verdicts[hunks[2]].Decision != Rejected || verdicts[hunks[2]].Comment != "because" {
		t.Errorf("the rejection became %v", verdicts)
	}
	_, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: Selection{Changes: []Selected{{Path: "a", Hunks: []string{hunks[1]}}}}, Decision: Approved})
	wantReason(t, err, StaleRevision)
}

// What the context holds after Decide does not matter to Apply.
func TestApprovedBytesAreApplied(t *testing.T) {
	w := newWorld(t, files{"a": "old\n"})
	write(t, w.in(id), files{"a": "reviewed\n"})
	w.decide(Approved, Selection{All: true})
	write(t, w.in(id), files{"a": "evil\n"})
	w.apply(ApplyRequest{})
	same(t, "applied", read(t, w.in("workspace")), files{"a": "reviewed\n"})
}

func TestConflictsApplyNothing(t *testing.T) {
	base := files{"a": numbered(10), "b": "b\n", "deleted": "x\n", "modified": "x\n", "bin": "\x00a", "link": "-> a", "fine": "x\n"}
	w := newWorld(t, base)
	write(t, w.in(id), files{"a": strings.Replace(numbered(10), "line 5", "panel 5", 1), "deleted": "changed\n", "added": "panel\n", "bin": "\x00b", "link": "-> b", "fine": "y\n", "dir/new": "n"})
	remove(t, w.in(id), "modified")
	write(t, w.in("workspace"), files{"a": strings.Replace(numbered(10), "line 5", "user 5", 1), "modified": "changed\n", "added": "user\n", "bin": "\x00c", "link": "-> fine", "dir": "a file"})
	remove(t, w.in("workspace"), "deleted")
	before := read(t, w.in("workspace"))
	w.decide(Approved, Selection{All: true})
	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	got := map[Path]ConflictKind{}
	for _, c := range wantReason(t, err, Conflicting).Conflicts {
		got[c.Path] = c.Kind
	}
	want := map[Path]ConflictKind{
		"a": ConflictContent, "deleted": ConflictModifyDelete, "modified": ConflictDeleteModify, "added": ConflictAddAdd, "bin": ConflictBinary,
		"link": ConflictType, "dir/new": ConflictDirectoryInTheWay,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the conflicts are %v, want %v", got, want)
	}
	same(t, "the workspace", read(t, w.in("workspace")), before)
}

func TestWhatMustNotBeAppliedIsRefused(t *testing.T) {
	w := newWorld(t, files{"a": "a"})
	for _, p := range []string{".git/config", ".GIT/x", "sub/.git", "git~1", ".contexts/x", "state/.ctxfs/host.token", "d/.g\u200cit/hooks/x"} {
		write(t, w.in(id), files{p: "evil"})
		for _, name := range []string{p, p[:strings.LastIndexByte("/"+p, '/')]} {
			if name = strings.TrimSuffix(name, "/"); name == "" {
				continue
			}
			out, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: Selection{Changes: []Selected{{Path: Path(name)}}}, Decision: Approved})
			if BarredName(Path(name)) != "" {
				wantReason(t, err, BarredPath)
			}
			if err == nil && out.Changes > 0 {
				t.Errorf("%s was approved by the name %s", p, name)
			}
		}
	}
	w.decide(Approved, Selection{All: true})
	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	wantReason(t, err, NotApproved)
	same(t, "the workspace", read(t, w.in("workspace")), files{"a": "a"})
}

// A link in the workspace where the context has a directory must not be followed.
func TestLinksOfTheWorkspaceAreNotFollowed(t *testing.T) {
	w := newWorld(t, files{"dir/a": "a\n"})
	write(t, w.in(id), files{"dir/a": "b\n", "dir/new": "new\n"})
	must(t, os.RemoveAll(w.in("workspace")+"/dir"))
	write(t, w.in("workspace"), files{"hooks/a": "a\n", "dir": "-> hooks"})
	before := read(t, w.in("workspace"))
	w.decide(Approved, Selection{All: true})
	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	wantReason(t, err, Conflicting)
	same(t, "the workspace", read(t, w.in("workspace")), before)
}

func TestPatchSelects(t *testing.T) {
	w := newWorld(t, files{"a": numbered(30), "b": "b\n"})
	write(t, w.in(id), files{"a": strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five").Replace(numbered(30)), "b": "B\n"})
	c := w.changes(Query{}).Changes[0]
	second := c.HunkIDs()[1]
	patch := c.Text.Unified(FileHeader{Path: "a", BeforeMode: 0o644, AfterMode: 0o644}, 3, func(h *Hunk) bool { return h.ID == second })
	w.apply(ApplyRequest{Selection: &Selection{Patch: patch}, Approve: true})
	same(t, "applied", read(t, w.in("workspace")), files{"a": strings.Replace(numbered(30), "line 25\n", "twenty-five", 1), "b": "b\n"})
	_, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: Selection{Patch: patch}, Decision: Approved})
	wantReason(t, err, StaleRevision)
}

func TestDiscard(t *testing.T) {
	base := files{"a": numbered(30), "gone": "gone\n", "link": "-> a", "run": "echo\n"}
	w := newWorld(t, base)
	changed := files{"a": strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30)), "new/file": "new\n", "link": "-> run", "run": "+x echo\n"}
	write(t, w.in(id), changed)
	remove(t, w.in(id), "gone")
	open, err := os.Stat(w.in(id) + "/a")
	must(t, err)
	hunk := w.changes(Query{Paths: []Path{"a"}}).Changes[0].HunkIDs()[0]
	_, err = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "a", Hunks: []string{hunk}}}}, "", "panel")
	must(t, err)
	same(t, "one hunk discarded", read(t, w.in(id)), files{"a": strings.Replace(numbered(30), "line 25\n", "twenty-five\n", 1), "new/file": "new\n", "link": "-> run", "run": "+x echo\n"})
	if now, err := os.Stat(w.in(id) + "/a"); err != nil || !os.SameFile(open, now) {
		t.Error("the file is another one now, so that handles of it are stale")
	}
	e, err := w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: ""}, {Path: "run"}}}, "", "panel")
	must(t, err)
	same(t, "all discarded", read(t, w.in(id)), base)
	_, err = w.undo(e.ID)
	must(t, err)
	same(t, "the discard undone", read(t, w.in(id)), files{"a": strings.Replace(numbered(30), "line 25\n", "twenty-five\n", 1), "new/file": "new\n", "link": "-> run", "run": "+x echo\n"})
}

// TestDiscardOverEmptyDirectories has a file or link put back at a path where the panel has left a directory without files.
func TestDiscardOverEmptyDirectories(t *testing.T) {
	base := files{"dir/file": "base\n", "link": "-> dir/file"}
	for _, below := range []string{"", "/sub", "/a/b"} {
		w := newWorld(t, base)
		for name := range base {
			remove(t, w.in(id), name)
			must(t, os.MkdirAll(w.in(id)+"/"+name+below, 0o755))
		}
		e, err := w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "panel")
		must(t, err)
		same(t, "after the discard", read(t, w.in(id)), base)
		_, err = w.undo(e.ID)
		must(t, err)
		same(t, "the discard undone", read(t, w.in(id)), files{})

		write(t, w.in(id), files{"new": "new\n"})
		e, err = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "new"}}}, "", "panel")
		must(t, err)
		must(t, os.MkdirAll(w.in(id)+"/new"+below, 0o755))
		_, err = w.undo(e.ID)
		must(t, err)
		same(t, "undone over a directory", read(t, w.in(id)), files{"new": "new\n"})
	}
}

func TestSubmitAndState(t *testing.T) {
	w := newWorld(t, files{"a": numbered(30), "b": "b\n"})
	state := func() State { return w.changes(Query{}).State() }
	if got := state(); got != StateNone {
		t.Errorf("at first the state is %v", got)
	}
	write(t, w.in(id), files{"a": strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30))})
	if got := state(); got != StateOpen {
		t.Errorf("with a change the state is %v", got)
	}
	l, err := w.reviews.Submit(t.Context(), id, "title", "message", "panel")
	must(t, err)
	if got := state(); got != StateSubmitted || w.changes(Query{}).Submission().Title != "title" {
		t.Errorf("after the submission the state is %v", got)
	}
	w.decide(Approved, Selection{Changes: []Selected{{Path: "a", Hunks: []string{l.Changes[0].HunkIDs()[0]}}}})
	if got := state(); got != StatePartlyDecided {
		t.Errorf("with one of two hunks approved the state is %v", got)
	}
	w.decide(Rejected, Selection{Changes: []Selected{{Path: "a", Hunks: []string{l.Changes[0].HunkIDs()[1]}}}})
	if got := state(); got != StateDecided {
		t.Errorf("with both hunks decided the state is %v", got)
	}
	write(t, w.in(id), files{"b": "B\n"})
	if got := state(); got != StatePartlyDecided {
		t.Errorf("with a further change the state is %v", got)
	}
}

// An editor that saves while changes are applied loses nothing: either the apply fails and the editor's content stays, or the apply was there
// first and the editor's save is on top of it.
func TestApplyBesideAnEditorThatSaves(t *testing.T) {
	for round := range 40 {
		w := newWorld(t, files{"a": "base\n", "b": "base\n"})
		write(t, w.in(id), files{"a": "panel\n", "b": "panel\n"})
		w.decide(Approved, Selection{All: true})
		saved := make(chan error, 1)
		go func() { // as vim does it: write beside, and rename over
			tmp := w.in("workspace") + "/a.swp"
			err := os.WriteFile(tmp, []byte("editor\n"), 0o600)
			if err == nil {
				err = os.Rename(tmp, w.in("workspace")+"/a")
			}
			saved <- err
		}()
		_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
		must(t, <-saved)
		got := read(t, w.in("workspace"))
		want := files{"a": "editor\n", "b": "base\n"}
		if err == nil {
			want["b"] = "panel\n"
		} else {
			wantReason(t, err, Conflicting)
		}
		same(t, fmt.Sprint("round ", round, ", the apply said ", err), got, want)
	}
}

// A program that writes through a descriptor that it has open loses nothing either.
func TestApplyBesideAnOpenDescriptor(t *testing.T) {
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	write(t, w.in(id), files{"a": "panel\n", "b": "panel\n"})
	w.decide(Approved, Selection{All: true})
	f, err := os.OpenFile(w.in("workspace")+"/a", os.O_WRONLY, 0)
	must(t, err)
	w.at("all taken", func() {
		_, err := f.WriteString("late\n")
		must(t, errors.Join(err, f.Close()))
	})
	_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	if c := wantReason(t, err, Conflicting).Conflicts; len(c) != 1 || c[0] != (Conflict{"a", ConflictChangedMeanwhile}) {
		t.Errorf("the conflicts are %v", c)
	}
	same(t, "the workspace", read(t, w.in("workspace")), files{"a": "late\n", "b": "base\n"})
}

// A server that was killed in the middle of an apply has done nothing, after the next start.
func TestInterruptedApplyIsPutBack(t *testing.T) {
	w := newWorld(t, files{"a": "base\n", "gone": "gone\n", "user": "base\n"})
	write(t, w.in(id), files{"a": "panel\n", "new/file": "new\n", "user": "panel\n"})
	remove(t, w.in(id), "gone")
	before := read(t, w.in("workspace"))
	w.decide(Approved, Selection{All: true})
	killed := errors.New("killed")
	w.at("all taken", func() { panic(killed) })
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, killed) {
				t.Errorf("the apply ended with %v", err)
			}
		}()
		_, _ = w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	}()
	same(t, "in the middle", visible(read(t, w.in("workspace"))), files{"a": "panel\n", "new/file": "new\n", "user": "panel\n"})
	write(t, w.in("workspace"), files{"user": "edited since\n"})
	must(t, w.reviews.Close())
	w.open()
	before["user"] = "edited since\n"
	same(t, "after the start", read(t, w.in("workspace")), before)
	w.decide(Approved, Selection{Changes: []Selected{{Path: "a"}}})
	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
	wantReason(t, err, Conflicting) // of user
}

// visible leaves out reserved names.
func visible(f files) files {
	maps.DeleteFunc(f, func(p, _ string) bool { return strings.Contains(p, rootfs.ReservedPrefix) })
	return f
}

// A start removes contents that nothing refers to, and keeps what an undo needs.
func TestContentsAreCollected(t *testing.T) {
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	write(t, w.in(id), files{"a": "applied\n", "b": "forgotten\n"})
	e := w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "a"}}}, Approve: true})
	w.decide(Approved, Selection{All: true})
	w.decide("", Selection{All: true})
	must(t, w.reviews.Close())
	w.open()
	if w.reviews.store.has(t.Context(), hashOfText("forgotten\n")) || !w.reviews.store.has(t.Context(), hashOfText("base\n")) {
		t.Error("the wrong contents were removed")
	}
	_, err := w.undo(e.ID)
	must(t, err)
	same(t, "undone", read(t, w.in("workspace")), files{"a": "base\n", "b": "base\n"})
}

// TestPatchOfADeletionShowsAllThatGoes deletes a file to which the user has added a line since the patch was made, and one of which the patch has
// a part.
func TestPatchOfADeletionShowsAllThatGoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ was, patch string }{
		"a line more":     {"1\n2\n3\n", "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n"},
		"another line":    {"1\n2\n", "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-3\n"},
		"no line":         {"1\n", "diff --git a/f b/f\ndeleted file mode 100644\n"},
		"another binary":  {"\x001", "diff --git a/f b/f\ndeleted file mode 100644\nBinary files a/f and /dev/null differ\n"},
		"a link's target": {"-> there", "diff --git a/f b/f\ndeleted file mode 120000\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-elsewhere\n\\ No newline at end of file\n"},
	} {
		w := newWorld(t, files{"f": c.was})
		remove(t, w.in(id), "f")
		_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{Patch: []byte(c.patch)}, Approve: true, Actor: "host"})
		t.Log(name)
		wantReason(t, err, StaleRevision)
	}
}

// TestChangesThatAreNamedAreNoDirectories puts a directory in the place of a file that a reviewer was shown. Its change and its hunks do not stand
// for what is in the directory.
func TestChangesThatAreNamedAreNoDirectories(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]files{"a new file": {"x": "x\n"}, "a changed file": {"f": "1\n2\n3\n"}} {
		w := newWorld(t, base)
		write(t, w.in(id), files{"f": "1\ngood\n3\n"})
		shown := w.changes(Query{}).Changes[0]
		remove(t, w.in(id), "f")
		write(t, w.in(id), files{"f/evil": "evil\n"})
		for how, s := range map[string]Selected{
			"a change": {Path: "f", ChangeID: shown.ID}, "hunks": {Path: "f", Hunks: []string{shown.HunkIDs()[0]}},
			"both": {Path: "f", ChangeID: shown.ID, Hunks: []string{shown.HunkIDs()[0]}}, "the root": {ChangeID: shown.ID},
		} {
			t.Log(name, how)
			sel := Selection{Changes: []Selected{s}}
			_, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: sel, Decision: Approved, Actor: "host"})
			wantReason(t, err, StaleRevision)
			_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &sel, Approve: true, Actor: "host"})
			wantReason(t, err, StaleRevision)
			_, err = w.reviews.Discard(t.Context(), id, sel, "", "panel")
			wantReason(t, err, StaleRevision)
		}
	}
}

// TestPatchSelectsWhatItShows makes a patch of each kind of change. It selects the change until the panel makes another one.
func TestPatchSelectsWhatItShows(t *testing.T) {
	t.Parallel()
	base := files{"text": "1\n", "bin": "\x00old", "link": "-> text", "run": "+x 1\n"}
	put := func(w *world, name, content string) { // "" is an empty file
		must(t, os.RemoveAll(w.in(id)+"/"+name))
		if content == "" {
			must(t, os.WriteFile(w.in(id)+"/"+name, nil, 0o644))
			return
		}
		write(t, w.in(id), files{name: content})
	}
	const gone = "gone"
	for name, c := range map[string]struct {
		file, shown string
		others      []string
	}{
		"a new binary":      {"new", "\x00good", []string{"\x00evil", "+x \x00good", "evil\n", "-> /etc/shadow", ""}},
		"a changed binary":  {"bin", "\x00good", []string{"\x00evil", gone, "", "text\n"}},
		"a new text":        {"new", "/etc/shadow", []string{"+x /etc/shadow", "-> /etc/shadow", "\x00evil", ""}},
		"an empty new file": {"new", "", []string{"evil\n", "\x00evil", "-> text"}},
		"a new executable":  {"new", "+x 1\n", []string{"1\n", "+x 2\n"}},
		"a link":            {"link", "-> run", []string{"-> /etc/shadow", "run", gone}},
		"a deletion":        {"text", gone, []string{"-> /etc/shadow", "", "\x00evil"}},
		"a truncation":      {"text", "", []string{gone, "\x00evil", "-> run"}},
		"a mode":            {"text", "+x 1\n", []string{"+x evil\n", "+x \x00evil", "-> /etc/shadow", gone}},
		"a mode of a link":  {"run", "1\n", []string{"2\n", "-> text"}},
		"a type":            {"text", "-> run", []string{"-> /etc/shadow", gone, "run"}},
	} {
		set := func(w *world, content string) {
			if content == gone {
				remove(t, w.in(id), c.file)
				return
			}
			put(w, c.file, content)
		}
		patched := func(t *testing.T, w *world) *Selection {
			t.Helper()
			set(w, c.shown)
			var patch bytes.Buffer
			l, err := w.reviews.Changes(t.Context(), Query{Context: id})
			must(t, err)
			defer func() { must(t, l.Close()) }()
			change := l.Changes[0]
			before := func() (io.ReadCloser, error) { return l.base.open(l.base.lookup(change.Path)) }
			must(t, change.patch(&patch, change.Path, before, fileOpener(w.in(id), change), 3))
			return &Selection{Patch: patch.Bytes()}
		}
		t.Run(name+"/as shown", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, base)
			_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: patched(t, w), Approve: true, Actor: "host"})
			must(t, err)
			same(t, "the workspace", read(t, w.in("workspace")), read(t, w.in(id)))
		})
		for _, other := range c.others {
			t.Run(fmt.Sprintf("%s/%q", name, other), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, base)
				sel := patched(t, w)
				set(w, other)
				_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: sel, Approve: true, Actor: "host"})
				wantReason(t, err, StaleRevision)
				same(t, "the workspace", read(t, w.in("workspace")), base)
			})
		}
	}
}

// TestDecisionsOnChangesThatAreGoneAreTakenBack has the panel take a change back after its approval, which apply would write all the same.
func TestDecisionsOnChangesThatAreGoneAreTakenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		selection Selection
		decision  Decision
	}{
		"rejected by name": {Selection{Changes: []Selected{{Path: "dir/a"}}}, Rejected}, "reset by name": {Selection{Changes: []Selected{{Path: "dir/a"}}}, ""},
		"rejected with its directory": {Selection{Changes: []Selected{{Path: "dir"}}}, Rejected}, "all rejected": {Selection{All: true}, Rejected}, "all reset": {Selection{All: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"dir/a": "1\n", "b": "1\n"})
			write(t, w.in(id), files{"dir/a": "bad\n"})
			w.decide(Approved, Selection{All: true})
			write(t, w.in(id), files{"dir/a": "1\n", "b": "2\n"})
			out, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: c.selection, Decision: c.decision, Actor: "host"})
			must(t, err)
			if out.Changes == 0 {
				t.Error("no decision was taken back")
			}
			w.decide(Approved, Selection{Changes: []Selected{{Path: "b"}}})
			_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Actor: "host"})
			must(t, err)
			same(t, "the workspace", read(t, w.in("workspace")), files{"dir/a": "1\n", "b": "2\n"})
		})
	}
}

// TestAllApprovesNothingThatWasRejected rejects a file, and a hunk of another one.
func TestAllApprovesNothingThatWasRejected(t *testing.T) {
	t.Parallel()
	edited := strings.NewReplacer("line 5\n", "five\n", "line 25\n", "twenty-five\n").Replace(numbered(30))
	for name, approve := range map[string]func(w *world, sel Selection) []LeftOut{
		"approve": func(w *world, sel Selection) []LeftOut {
			out := w.decide(Approved, sel)
			_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Actor: "host"})
			must(t, err)
			return out.LeftOut
		},
		"apply": func(w *world, sel Selection) []LeftOut {
			e, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &sel, Approve: true, Actor: "host"})
			must(t, err)
			return e.LeftOut
		},
	} {
		for what, sel := range map[string]Selection{"all": {All: true}, "a directory": {Changes: []Selected{{Path: "dir"}}}} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, files{"dir/a": numbered(30), "dir/b": "1\n", "dir/c": "1\n"})
				write(t, w.in(id), files{"dir/a": edited, "dir/b": "bad\n", "dir/c": "2\n"})
				hunk := w.changes(Query{}).Changes[0].HunkIDs()[0]
				w.decide(Rejected, Selection{Changes: []Selected{{Path: "dir/a", Hunks: []string{hunk}}, {Path: "dir/b"}}})
				left := approve(w, sel)
				if !slices.Equal(left, []LeftOut{{"dir/a", "rejected", 1}, {"dir/b", "rejected", 0}}) {
					t.Errorf("left out are %v", left)
				}
				same(t, "the workspace", read(t, w.in("workspace")), files{"dir/a": strings.Replace(numbered(30), "line 25\n", "twenty-five\n", 1), "dir/b": "1\n", "dir/c": "2\n"})
				w.decide(Approved, Selection{Changes: []Selected{{Path: "dir/b"}}})
			})
		}
	}
}

// TestNewFilesAreNotWritableByOthers has files whose modes a difference shows as 100644 and 100755.
func TestNewFilesAreNotWritableByOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"there": "1\n"})
	modes := map[string][2]os.FileMode{"open": {0o666, 0o664}, "run": {0o777, 0o775}, "private": {0o600, 0o600}, "group": {0o660, 0o660}}
	for name, m := range modes {
		write(t, w.in(id), files{name: "x\n"})
		must(t, os.Chmod(filepath.Join(w.in(id), name), m[0]))
	}
	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{Changes: []Selected{{Path: "open"}, {Path: "run"}, {Path: "private"}, {Path: "group"}}}, Approve: true, Actor: "host"})
	must(t, err)
	for name, m := range modes {
		st, err := os.Stat(filepath.Join(w.in("workspace"), name))
		must(t, err)
		if st.Mode().Perm() != m[1] {
			t.Errorf("%s has mode %v, want %v", name, st.Mode(), m[1])
		}
	}
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Errorf("%d changes are left", len(l.Changes))
	}
}

// TestSeenCoversChangesOfWhichAHunkWasRejected adds a line to a file after the reviewer has looked, who rejected another hunk of it before.
func TestSeenCoversChangesOfWhichAHunkWasRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"d/f": countedLines(1, 40)})
	edit := func(line int) {
		text := read(t, w.in(id))["d/f"]
		write(t, w.in(id), files{"d/f": strings.Replace(text, fmt.Sprintf("line %d\n", line), "edited\n", 1)})
	}
	edit(5)
	edit(20)
	c := w.changes(Query{}).Changes[0]
	w.decide(Rejected, Selection{Changes: []Selected{{Path: "d/f", Hunks: []string{c.HunkIDs()[0]}}}})
	edit(35)
	for _, sel := range []Selection{{All: true, Seen: []string{c.ID}}, {Changes: []Selected{{Path: "d"}}, Seen: []string{c.ID}}} {
		_, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Selection: sel, Decision: Approved, Actor: "host"})
		wantReason(t, err, StaleRevision)
		_, err = w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &sel, Approve: true, Actor: "host"})
		wantReason(t, err, StaleRevision)
	}
}

// TestApprovedFileAndAnotherBelowIt has an agent that makes a directory of a new file that was approved, and a reviewer who approves what is in it.
// Nothing can have both, in the working tree and in a commit: the refusal names them, and its advice works.
func TestApprovedFileAndAnotherBelowIt(t *testing.T) {
	for name, below := range map[string]string{"a file": "new/file", "a file further down": "new/a/b", "a link": "new/link"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, files{"a": "a\n"})
			write(t, w.in(id), files{"new": "new\n"})
			w.decide(Approved, Selection{All: true})
			must(t, os.Remove(w.in(id+"/new")))
			must(t, os.MkdirAll(filepath.Dir(w.in(id+"/"+below)), 0o755))
			if name == "a link" {
				must(t, os.Symlink("x", w.in(id+"/"+below)))
			} else {
				write(t, w.in(id), files{below: "below\n"})
			}
			w.decide(Approved, Selection{All: true})
			for _, dry := range []bool{true, false} {
				_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, DryRun: dry})
				if e := wantReason(t, err, Conflicting); !slices.Equal(e.Paths, []Path{"new", Path(below)}) {
					t.Errorf("it names %q", e.Paths)
				}
			}
			w.decide(Rejected, Selection{Changes: []Selected{{Path: "new"}}}) // and what is below it
			w.decide(Approved, Selection{Changes: []Selected{{Path: Path(below)}}})
			w.apply(ApplyRequest{})
			same(t, "the workspace", read(t, w.in("workspace")), read(t, w.in(id)))
		})
	}
}
