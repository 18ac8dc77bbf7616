package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/long"
)

func (w *world) rebase(req RebaseRequest) *Rebased {
	w.t.Helper()
	out, err := w.tryRebase(req)
	must(w.t, err)
	return out
}

func (w *world) tryRebase(req RebaseRequest) (*Rebased, error) {
	req.Context, req.Actor = id, "host"
	return w.reviews.Rebase(w.t.Context(), req)
}

// drifted lists the changes whose file the workspace has changed since.
func (w *world) drifted() (out []Path) {
	w.t.Helper()
	for _, c := range w.changes(Query{Drift: true}).Changes {
		if c.Drifted {
			out = append(out, c.Path)
		}
	}
	return out
}

// allPaths selects every change by name.
func (w *world) allPaths() *Selection {
	w.t.Helper()
	sel := &Selection{}
	for _, c := range w.changes(Query{}).Changes {
		if c.Barred == "" {
			sel.Changes = append(sel.Changes, Selected{Path: c.Path})
		}
	}
	return sel
}

func TestRebaseBringsInWhatTheWorkspaceChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{
		"both": numbered(20), "same": "x\n", "theirs": "old\n", "mine": "old\n", "run": "echo\n", "link": "-> same", "gone/deep/file": "gone\n",
		"tofile/a": "a\n", "todir": "file\n", "hidden": "old\n", "bin": "\x00a", ".contextignore": "hidden\nsecret*\n", "tolink/x": "x\n",
	})
	edited := strings.Replace(numbered(20), "line 3\n", "line three\n", 1)
	write(t, w.in(id), files{"both": edited, "mine": "the agent's\n", "new": "new\n", "equal": "equal\n"})
	write(t, w.in("workspace"), files{
		"both": numbered(20) + "the user's\n", "theirs": "new\n", "run": "+x echo\n", "added/deep/file": "added\n", "hidden": "changed\n",
		"secret.env": "secret\n", ".git/config": "evil", "node_modules/m.js": "m", "bin": "\x00b", "equal": "equal\n",
	})
	remove(t, w.in("workspace"), "link", "gone/deep/file", "tofile/a", "todir", "tolink/x")
	write(t, w.in("workspace"), files{"link": "-> run", "tofile": "a file\n", "todir/a": "a\n", "tolink": "-> linked", "linked/x": "x\n"})
	must(t, os.WriteFile(w.in("workspace/setuid"), []byte("s"), 0o600))
	must(t, os.Chmod(w.in("workspace/setuid"), 0o755|os.ModeSetuid))
	before := read(t, w.in(id))
	workspace := read(t, w.in("workspace"))

	dry := w.rebase(RebaseRequest{DryRun: true})
	if dry.ID != 0 || len(dry.Files()) != 15 {
		t.Errorf("a dry run is entry %d with %v", dry.ID, dry.Files())
	}
	same(t, "after a dry run", read(t, w.in(id)), before)

	untouched, err := os.Stat(w.in(id + "/mine"))
	must(t, err)
	e := w.rebase(RebaseRequest{})
	want := files{
		"both": edited + "the user's\n", "same": "x\n", "theirs": "new\n", "mine": "the agent's\n", "run": "+x echo\n", "link": "-> run", "new": "new\n",
		"tofile": "a file\n", "todir/a": "a\n", "hidden": "old\n", "bin": "\x00b", ".contextignore": "hidden\nsecret*\n", "added/deep/file": "added\n",
		"equal": "equal\n", "tolink": "-> linked", "linked/x": "x\n",
	}
	same(t, "rebased", read(t, w.in(id)), want)
	same(t, "the workspace", read(t, w.in("workspace")), workspace)
	if now, err := os.Stat(w.in(id + "/mine")); err != nil || !os.SameFile(untouched, now) {
		t.Error("a file that the workspace did not change is another one now, so that its handles are stale")
	}
	got := map[Path]Kind{}
	for _, c := range w.changes(Query{}).Changes {
		got[c.Path] = c.Kind
	}
	if wantChanges := (map[Path]Kind{"both": Modified, "mine": Modified, "new": Added}); !maps.Equal(got, wantChanges) {
		t.Errorf("the changes after the rebase are %v, want %v", got, wantChanges)
	}
	if d := w.drifted(); len(d) != 0 {
		t.Errorf("after the rebase %v is drifted", d)
	}
	if again := w.rebase(RebaseRequest{}); again.ID != 0 || len(again.Steps) != 0 {
		t.Errorf("a second rebase did %v", again.Files())
	}

	undo, err := w.undo(e.ID)
	must(t, err)
	same(t, "undone", read(t, w.in(id)), before)
	if d := w.drifted(); !slices.Equal(d, []Path{"both", "equal"}) {
		t.Errorf("after the undo %v is drifted", d)
	}
	_, err = w.undo(undo.ID)
	must(t, err)
	same(t, "redone", read(t, w.in(id)), want)
	w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
	maps.Copy(workspace, files{"both": want["both"], "mine": want["mine"], "new": want["new"]})
	same(t, "applied", read(t, w.in("workspace")), workspace)
	if left := w.changes(Query{Drift: true}).Changes; len(left) != 0 {
		t.Errorf("after the apply %v is left", left)
	}
}

func TestRebaseOfSomePaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a/x": "old\n", "a/y": "old\n", "b": "old\n", "c": "old\n"})
	write(t, w.in("workspace"), files{"a/x": "new\n", "b": "new\n", "ab": "new\n"})
	remove(t, w.in("workspace"), "a/y", "c")
	w.rebase(RebaseRequest{Paths: []Path{"a"}})
	same(t, "rebased", read(t, w.in(id)), files{"a/x": "new\n", "b": "old\n", "c": "old\n"})
	w.rebase(RebaseRequest{Paths: []Path{"ab"}})
	same(t, "rebased further", read(t, w.in(id)), files{"a/x": "new\n", "b": "old\n", "c": "old\n", "ab": "new\n"})
}

// Contents are read only where attributes differ: here they are equal, and the contents are not.
func TestRebaseComparesAttributesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "old\n", "b": "old\n"})
	scan, err := w.Workspace(t.Context(), "")
	must(t, err)
	w.manifest = seed.NewManifest(nil, scan.Entries)
	write(t, w.in("layer"), files{"a": "another content\n"})
	write(t, w.in("workspace"), files{"b": "new\n"})
	if e := w.rebase(RebaseRequest{}); len(e.Steps) != 1 || e.Steps[0].Path != "b" {
		t.Errorf("the rebase did %v", e.Files())
	}
	same(t, "rebased", read(t, w.in(id)), files{"a": "old\n", "b": "new\n"})
}

// conflicted makes a context and a workspace that conflict in each way.
func conflicted(t *testing.T) (w *world, context, workspace files) {
	t.Helper()
	lines := numbered(9)
	w = newWorld(t, files{"a": lines, "deleted": "x\n", "modified": "x\n", "bin": "\x00a", "link": "-> a", "fine": "x\n", "markers": "<<<<<<< here\n1\n"})
	write(t, w.in(id), files{
		"a": strings.NewReplacer("line 5", "panel 5", "line 1\n", "panel 1\n").Replace(lines), "modified": "changed\n", "added": "panel\n", "bin": "\x00b",
		"link": "-> b", "markers": "<<<<<<< here\n2\n",
	})
	remove(t, w.in(id), "deleted")
	write(t, w.in("workspace"), files{
		"a": strings.NewReplacer("line 5", "user 5", "line 9\n", "user 9\n").Replace(lines), "deleted": "changed\n", "added": "user\n", "bin": "\x00c",
		"link": "-> fine", "fine": "y\n", "markers": "<<<<<<< here\n3\n",
	})
	remove(t, w.in("workspace"), "modified")
	return w, read(t, w.in(id)), read(t, w.in("workspace"))
}

var conflictKinds = map[Path]ConflictKind{
	"a": ConflictContent, "added": ConflictAddAdd, "bin": ConflictBinary, "deleted": ConflictDeleteModify, "link": ConflictType, "markers": ConflictContent,
	"modified": ConflictModifyDelete,
}

func wantConflicts(t *testing.T, list []RecordedConflict) {
	t.Helper()
	got := map[Path]ConflictKind{}
	for _, c := range list {
		got[c.Path] = c.Kind
	}
	if !maps.Equal(got, conflictKinds) {
		t.Errorf("the conflicts are %v, want %v", got, conflictKinds)
	}
}

func (w *world) conflicts() []RecordedConflict {
	w.t.Helper()
	list, err := w.reviews.Conflicts(w.t.Context(), id)
	must(w.t, err)
	return list
}

func TestRebaseRefusesConflicts(t *testing.T) {
	t.Parallel()
	w, before, _ := conflicted(t)
	_, err := w.tryRebase(RebaseRequest{})
	var got []RecordedConflict
	for _, c := range wantReason(t, err, Conflicting).Conflicts {
		got = append(got, RecordedConflict{c.Path, &Unresolved{Kind: c.Kind}})
	}
	wantConflicts(t, got)
	same(t, "the context", read(t, w.in(id)), before)
	if entries, _, err := w.reviews.Journal(t.Context(), func(*Entry) bool { return true }, 0, 9); err != nil || len(entries) != 0 || len(w.conflicts()) != 0 {
		t.Errorf("the journal has %v (%v), and the conflicts are %v", entries, err, w.conflicts())
	}
}

func (w *world) version(p Path, which Which) string {
	w.t.Helper()
	var text strings.Builder
	must(w.t, w.reviews.Read(w.t.Context(), id, p, which, func(_ context.Context, _ Version, content io.Reader) error {
		_, err := io.Copy(&text, content)
		return err
	}))
	return text.String()
}

func TestRebaseRecordsConflicts(t *testing.T) {
	t.Parallel()
	w, before, workspace := conflicted(t)
	e := w.rebase(RebaseRequest{OnConflict: RecordConflicts})
	wantConflicts(t, e.Conflicts)
	wantConflicts(t, w.conflicts())
	want := maps.Clone(before)
	want["fine"] = "y\n"
	same(t, "the context", read(t, w.in(id)), want)
	if got := w.version("a", OfConflictContext) + w.version("a", OfConflictWorkspace); got != before["a"]+workspace["a"] {
		t.Errorf("the sides are %q", got)
	}
	if got := w.version("a", OfMerged); !strings.Contains(got, "<<<<<<< context\npanel 5\n||||||| base\nline 5\n=======\nuser 5\n>>>>>>> workspace\n") || !strings.HasPrefix(got, "panel 1\n") || !strings.HasSuffix(got, "user 9\n") {
		t.Errorf("merged it is %q", got)
	}
	must(t, w.reviews.Close())
	w.open()
	wantConflicts(t, w.conflicts()) // they are on disk

	_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Selection: &Selection{All: true}, Approve: true})
	if paths := wantReason(t, err, IsUnresolved).Paths; !slices.Contains(paths, "a") || slices.Contains(paths, "fine") {
		t.Errorf("unresolved are %v", paths)
	}
	write(t, w.in(id), files{"other": "other\n"})
	w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "other"}}}, Approve: true})
	_, err = w.tryRebase(RebaseRequest{})
	wantReason(t, err, IsUnresolved)
	if again := w.rebase(RebaseRequest{OnConflict: RecordConflicts}); again.ID != 0 || len(again.Conflicts) != len(conflictKinds) {
		t.Errorf("a second rebase is entry %d with %v", again.ID, again.Conflicts)
	}

	_, err = w.undo(e.ID)
	must(t, err)
	before["other"] = "other\n"
	same(t, "undone", read(t, w.in(id)), before)
	if list := w.conflicts(); len(list) != 0 {
		t.Errorf("after the undo the conflicts are %v", list)
	}
}

func TestRebaseWritesMarkers(t *testing.T) {
	t.Parallel()
	w, before, _ := conflicted(t)
	e := w.rebase(RebaseRequest{OnConflict: WriteMarkers})
	wantConflicts(t, e.Conflicts)
	want := maps.Clone(before)
	want["fine"] = "y\n"
	want["a"] = "panel 1\nline 2\nline 3\nline 4\n<<<<<<< context\npanel 5\n||||||| base\nline 5\n=======\nuser 5\n>>>>>>> workspace\nline 6\nline 7\nline 8\nuser 9\n"
	want["markers"] = "<<<<<<< here\n<<<<<<<< context\n2\n|||||||| base\n1\n========\n3\n>>>>>>>> workspace\n"
	want["added"] = "<<<<<<< context\npanel\n||||||| base\n=======\nuser\n>>>>>>> workspace\n"
	same(t, "the context", read(t, w.in(id)), want)
	_, err := w.reviews.Resolve(t.Context(), id, "a", Resolution{Side: SideContext}, "host")
	if fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("a file with markers is resolved: %v", err)
	}
	write(t, w.in(id), files{"a": "by hand\n"})
	_, err = w.reviews.Resolve(t.Context(), id, "a", Resolution{Side: SideContext}, "host")
	must(t, err)
	if len(w.conflicts()) != len(conflictKinds)-1 {
		t.Errorf("after it was resolved the conflicts are %v", w.conflicts())
	}
	w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "a"}}}, Approve: true})
	if got := read(t, w.in("workspace"))["a"]; got != "by hand\n" {
		t.Errorf("applied is %q", got)
	}
}

func TestRebaseKeepsOrTakes(t *testing.T) {
	t.Parallel()
	for how, line := range map[OnConflict]string{KeepContext: "panel 5", TakeWorkspace: "user 5"} {
		w, before, workspace := conflicted(t)
		winner := before
		if how == TakeWorkspace {
			winner = workspace
		}
		e := w.rebase(RebaseRequest{OnConflict: how})
		want := maps.Clone(winner)
		want["fine"] = "y\n"
		want["a"] = strings.NewReplacer("line 5", line, "line 1\n", "panel 1\n", "line 9\n", "user 9\n").Replace(numbered(9))
		same(t, fmt.Sprint("the context with ", how), read(t, w.in(id)), want)
		if len(e.Conflicts) != 0 || len(w.conflicts()) != 0 || len(w.drifted()) != 0 {
			t.Errorf("with %v the conflicts are %v, and %v is drifted", how, w.conflicts(), w.drifted())
		}
		w.apply(ApplyRequest{Selection: w.allPaths(), Approve: true})
		same(t, fmt.Sprint("the workspace with ", how), read(t, w.in("workspace")), want)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for side, want := range map[Side]files{
		SideContext:   {"a": "panel\n", "deleted": "", "new": "panel\n"},
		SideWorkspace: {"a": "user\n", "deleted": "user\n", "new": "user\n"},
		SideBase:      {"a": "base\n", "deleted": "base\n", "new": ""},
		SideContent:   {"a": "by hand\n", "deleted": "by hand\n", "new": "by hand\n"},
	} {
		w := newWorld(t, files{"a": "base\n", "deleted": "base\n"})
		write(t, w.in(id), files{"a": "panel\n", "new": "panel\n"})
		remove(t, w.in(id), "deleted")
		write(t, w.in("workspace"), files{"a": "user\n", "new": "user\n", "deleted": "user\n"})
		w.rebase(RebaseRequest{OnConflict: RecordConflicts})
		context := read(t, w.in(id))
		var entries []int64
		for p := range want {
			e, err := w.reviews.Resolve(t.Context(), id, Path(p), Resolution{Side: side, Content: []byte("by hand\n")}, "host")
			must(t, err)
			entries = append(entries, e.ID)
		}
		maps.DeleteFunc(want, func(_, text string) bool { return text == "" })
		same(t, fmt.Sprint("resolved with ", side), read(t, w.in(id)), want)
		if len(w.conflicts()) != 0 || len(w.drifted()) != 0 {
			t.Errorf("with %v the conflicts are %v, and %v is drifted", side, w.conflicts(), w.drifted())
		}
		if left := len(w.changes(Query{}).Changes); (side == SideWorkspace) != (left == 0) {
			t.Errorf("with %v there are %d changes", side, left)
		}
		_, err := w.reviews.Resolve(t.Context(), id, "a", Resolution{Side: side}, "host")
		if fserr.CodeOf(err) != fserr.ENOENT {
			t.Errorf("a conflict is resolved twice: %v", err)
		}
		for _, n := range entries {
			_, err := w.undo(n)
			must(t, err)
		}
		same(t, fmt.Sprint("undone with ", side), read(t, w.in(id)), context)
		if len(w.conflicts()) != 3 {
			t.Errorf("after the undo with %v the conflicts are %v", side, w.conflicts())
		}
	}
}

// The agent continues to write while a person merges by hand: what it wrote since is not replaced.
func TestResolveWithContentOfAFileThatChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	write(t, w.in(id), files{"a": "panel\n"})
	write(t, w.in("workspace"), files{"a": "user\n"})
	w.rebase(RebaseRequest{OnConflict: RecordConflicts})
	to := Resolution{Side: SideContent, Content: []byte("both\n"), IfHash: w.conflicts()[0].Context.Hash}
	write(t, w.in(id), files{"a": "panel, later\n"})
	_, err := w.reviews.Resolve(t.Context(), id, "a", to, "host")
	wantReason(t, err, StaleRevision)
	same(t, "the context", read(t, w.in(id)), files{"a": "panel, later\n"})
	_, err = w.reviews.Resolve(t.Context(), id, "a", Resolution{Side: SideContent, Content: make([]byte, MaxText+1)}, "host")
	if fserr.CodeOf(err) != fserr.EFBIG {
		t.Errorf("a content that is too large: %v", err)
	}
	write(t, w.in(id), files{"a": "panel\n"})
	_, err = w.reviews.Resolve(t.Context(), id, "a", to, "host")
	must(t, err)
	same(t, "the context", read(t, w.in(id)), files{"a": "both\n"})
}

// A directory of the context stays, with what the agent has in it, unless a caller takes the workspace's side (TestRebaseOverWhatIsInTheWay).
func TestRebaseKeepsDirectoriesOfTheContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "a\n", "dir/x": "x\n"})
	write(t, w.in(id), files{"new/file": "mine\n", "dir/mine": "mine\n"})
	write(t, w.in("workspace"), files{"new": "a file\n"})
	remove(t, w.in("workspace"), "dir/x")
	write(t, w.in("workspace"), files{"dir": "a file\n"})
	before := read(t, w.in(id))
	_, err := w.tryRebase(RebaseRequest{})
	if c := wantReason(t, err, Conflicting).Conflicts; len(c) != 2 || c[0] != (Conflict{"dir", ConflictDirectoryInTheWay}) || c[1] != (Conflict{"new", ConflictDirectoryInTheWay}) {
		t.Errorf("the conflicts are %v", c)
	}
	same(t, "the context", read(t, w.in(id)), before)
	w.rebase(RebaseRequest{OnConflict: RecordConflicts})
	delete(before, "dir/x")
	same(t, "the context, with conflicts recorded", read(t, w.in(id)), before)
	_, err = w.reviews.Resolve(t.Context(), id, "new", Resolution{Side: SideContext}, "host")
	must(t, err)
}

func TestDecisionsOutliveARebase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": numbered(40), "bin": "\x00a", "kept": "x\n", "equal": "x\n"})
	write(t, w.in(id), files{
		"a": strings.NewReplacer("line 5\n", "five\n", "line 35\n", "thirty-five\n").Replace(numbered(40)), "bin": "\x00b", "kept": "y\n", "equal": "y\n",
	})
	w.decide(Approved, Selection{All: true})
	hunks := w.changes(Query{Paths: []Path{"a"}}).Changes[0].HunkIDs()
	write(t, w.in("workspace"), files{"a": strings.Replace(numbered(40), "line 33\n", "user 33\n", 1), "bin": "+x \x00a", "equal": "y\n"})
	e := w.rebase(RebaseRequest{})
	want := []Stale{{Path: "a", Hunks: []string{hunks[1]}}, {Path: "bin"}}
	if !slices.EqualFunc(e.Stale, want, func(a, b Stale) bool { return a.Path == b.Path && slices.Equal(a.Hunks, b.Hunks) }) {
		t.Errorf("stale are %v, want %v", e.Stale, want)
	}
	l := w.changes(Query{})
	for _, c := range l.Changes {
		whole, verdicts := l.Verdict(c)
		switch c.Path {
		case "a":
			if len(verdicts) != 1 || verdicts[hunks[0]].Decision != Approved || verdicts[hunks[0]].Comment != "because" {
				t.Errorf("the verdicts on a are %v", verdicts)
			}
		case "bin":
			if whole.Decision != "" {
				t.Errorf("the verdict on bin is %v", whole)
			}
		case "kept":
			if whole.Decision != Approved {
				t.Errorf("the verdict on kept is %v", whole)
			}
		}
	}
	w.apply(ApplyRequest{})
	got := read(t, w.in("workspace"))
	if got["a"] != strings.NewReplacer("line 5\n", "five\n", "line 33\n", "user 33\n").Replace(numbered(40)) || got["bin"] != "+x \x00a" || got["kept"] != "y\n" {
		t.Errorf("applied is %q", got)
	}
}

func TestRebaseKeepsToTheQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "old\n"})
	write(t, w.in("workspace"), files{"a": "new\n", "large": strings.Repeat("x", 2000)})
	w.quota = 1000
	_, err := w.tryRebase(RebaseRequest{})
	if fserr.CodeOf(err) != fserr.EDQUOT {
		t.Errorf("the rebase ended with %v", err)
	}
	same(t, "the context", read(t, w.in(id)), files{"a": "old\n"})
	if begun, err := w.reviews.journal.ids(intentSuffix); err != nil || len(begun) != 0 {
		t.Errorf("the journal has the intents %v (%v)", begun, err)
	}
	w.quota = 3000
	w.rebase(RebaseRequest{})
}

func TestRebaseWaitsForGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"plain/a": "old\n", "tree/a": "old\n"})
	plain := w.in("workspace/plain")
	for _, args := range [][]string{
		{"init", "-q"}, {"-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m"}, {"worktree", "add", "-q", "--no-checkout", w.in("elsewhere")},
	} {
		gitIn(t, plain, nil, args...)
	}
	must(t, os.Rename(w.in("elsewhere/.git"), w.in("workspace/tree/.git")))
	write(t, w.in("workspace"), files{"plain/a": "new\n", "tree/a": "new\n"})
	for _, lock := range []string{filepath.Join(plain, ".git/index.lock"), filepath.Join(plain, ".git/worktrees/elsewhere/index.lock")} {
		must(t, os.WriteFile(lock, nil, 0o600))
		_, err := w.tryRebase(RebaseRequest{})
		if e := wantReason(t, err, RepositoryBusy); len(e.Paths) != 1 {
			t.Errorf("busy are %v", e.Paths)
		}
		must(t, os.Remove(lock))
	}
	same(t, "the context", read(t, w.in(id)), files{"plain/a": "old\n", "tree/a": "old\n"})
	w.rebase(RebaseRequest{})
	same(t, "rebased", read(t, w.in(id)), files{"plain/a": "new\n", "tree/a": "new\n"})
}

func TestRebaseOfATemplateOrAnEmptyContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "old\n"})
	write(t, w.in("workspace"), files{"a": "new\n", "b": "b\n"})
	w.manifest.Template = "hash"
	_, err := w.tryRebase(RebaseRequest{})
	if fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("a context of a template: %v", err)
	}
	w.manifest = nil
	write(t, w.in(id), files{"mine": "1\n"})
	w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "mine"}}}, Approve: true})
	write(t, w.in("workspace"), files{"mine": "2\n"})
	w.rebase(RebaseRequest{})
	same(t, "a context that started empty", read(t, w.in(id)), files{"a": "old\n", "mine": "2\n"})
}

// The phases of an exchange of files at which the tests stop it.
const phaseBegun, phaseIntended, phaseTaken, phaseFinished = "begun", "intended", "all taken", "finished"

// A server that is killed in the middle of a rebase, or of its undo, has done all of it or nothing, after the next start.
func TestInterruptedRebase(t *testing.T) {
	t.Parallel()
	base := files{"a": "base\n", "gone": "gone\n", "both": numbered(9), "c": "base\n", "conflict": "base\n", "dir/x": "x\n", "todir": "file\n", "tofile/deep/x": "x\n"}
	for _, undo := range []bool{false, true} {
		for _, at := range []string{phaseBegun, phaseIntended, phaseTaken, phaseFinished, "half"} {
			t.Run(fmt.Sprint(at, ", undo ", undo), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, base)
				write(t, w.in(id), files{"both": strings.Replace(numbered(9), "line 1\n", "panel 1\n", 1), "conflict": "panel\n"})
				write(t, w.in("workspace"), files{
					"a": "user\n", "c": "user\n", "new/file": "new\n", "both": strings.Replace(numbered(9), "line 9\n", "user 9\n", 1), "conflict": "user\n",
				})
				remove(t, w.in("workspace"), "gone", "dir/x", "todir", "tofile/deep/x")
				write(t, w.in("workspace"), files{"todir/sub/x": "x\n", "tofile": "file\n"})
				old := read(t, w.in(id))
				want := maps.Clone(old)
				maps.Copy(want, files{"a": "user\n", "c": "user\n", "new/file": "new\n", "both": strings.NewReplacer("line 1\n", "panel 1\n", "line 9\n", "user 9\n").Replace(numbered(9))})
				maps.DeleteFunc(want, func(p, _ string) bool { return slices.Contains([]string{"gone", "dir/x", "todir", "tofile/deep/x"}, p) })
				maps.Copy(want, files{"todir/sub/x": "x\n", "tofile": "file\n"})
				do := func() (int64, error) {
					out, err := w.tryRebase(RebaseRequest{OnConflict: RecordConflicts})
					if err != nil {
						return 0, err
					}
					return out.ID, nil
				}
				if undo {
					n, err := do()
					must(t, err)
					old, want = want, old
					do = func() (int64, error) {
						e, err := w.undo(n)
						if err != nil {
							return 0, err
						}
						return e.ID, nil
					}
				}
				w.killed(at, old, func() { _, _ = do() })
				conflicts := 0
				if (at == phaseFinished) != undo {
					conflicts = 1
				}
				if at == phaseFinished {
					same(t, "after the start", read(t, w.in(id)), want)
				} else {
					same(t, "after the start", read(t, w.in(id)), old)
				}
				if got := w.conflicts(); len(got) != conflicts {
					t.Errorf("after the start the conflicts are %v, want %d", got, conflicts)
				}
				if drift := len(w.drifted()); (drift == 0) != (conflicts == 1) && drift != conflicts {
					t.Errorf("after the start %v is drifted", w.drifted())
				}
				if at == phaseFinished {
					return
				}
				n, err := do()
				must(t, err)
				same(t, "done again", read(t, w.in(id)), want)
				_, err = w.undo(n)
				must(t, err)
				same(t, "undone", read(t, w.in(id)), old)
			})
		}
	}
}

// killed stops a rebase in a phase, and starts again. The phase "half" is the one in which some files are in place and others are not.
func (w *world) killed(at string, old files, do func()) {
	w.t.Helper()
	stopped := errors.New("killed")
	w.reviews.point = oneByOne(func(now string) {
		if at == "half" && now == phaseTaken {
			write(w.t, w.in(id), files{"a": old["a"], "both": old["both"]})
			panic(stopped)
		}
		if now == at {
			panic(stopped)
		}
	})
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, stopped) {
				w.t.Errorf("the rebase ended with %v", err)
			}
		}()
		do()
	}()
	must(w.t, w.reviews.Close())
	w.open()
}

// A file that was changed after the kill stays, and a context that is gone does not stop the server from starting.
func TestInterruptedRebaseLeavesLaterChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n", "b": "base\n"})
	write(t, w.in("workspace"), files{"a": "user\n", "b": "user\n"})
	w.reviews.point = oneByOne(func(now string) {
		if now == phaseTaken {
			panic(errors.New("killed"))
		}
	})
	func() {
		defer func() { _ = recover() }() // the kill
		_, _ = w.tryRebase(RebaseRequest{})
	}()
	write(t, w.in(id), files{"a": "since\n"})
	must(t, w.reviews.Close())
	w.open()
	same(t, "after the start", read(t, w.in(id)), files{"a": "since\n", "b": "base\n"})
}

// threeWay is a text, and what two people made of it.
type threeWay struct{ base, context, workspace string }

var threeWays = rapid.Custom(func(t *rapid.T) threeWay {
	line := rapid.SampledFrom([]string{"a", "b", "c", "", "}", "same", "x\r", "<<<<<<<", "ä"})
	lines := rapid.SliceOfN(line, 0, 14).Draw(t, "lines")
	edit := func(side string) string {
		out := slices.Clone(lines)
		for range rapid.IntRange(0, 3).Draw(t, side+" edits") {
			at := rapid.IntRange(0, len(out)).Draw(t, "at")
			end := min(len(out), at+rapid.IntRange(0, 2).Draw(t, "removed"))
			out = slices.Replace(out, at, end, rapid.SliceOfN(line, 0, 2).Draw(t, "added")...)
		}
		text := strings.Join(out, "\n")
		if len(out) > 0 && rapid.IntRange(0, 9).Draw(t, "newline") > 0 {
			text += "\n"
		}
		return text
	}
	return threeWay{edit("base"), edit("context"), edit("workspace")}
})

// Rebase of generated texts agrees with git merge-file, in result and in conflict, and Apply changes nothing but what is selected.
func TestRebaseMergesAsGitDoes(t *testing.T) {
	t.Parallel()
	cases := long.Of(250, 1000)
	dir := t.TempDir()
	trees := [3]files{{}, {}, {}}
	for i := range cases {
		c := threeWays.Example(i)
		name := fmt.Sprintf("d%d/f%03d", i%7, i)
		for j, text := range []string{c.base, c.context, c.workspace} {
			trees[j][name] = text
		}
	}
	for j, name := range []string{"base", "context", "workspace"} {
		write(t, filepath.Join(dir, name), trees[j])
	}
	merge := exec.Command("sh", "-c", `cd base && for f in d*/*; do
		mkdir -p ../merged/${f%/*}; git merge-file -p -q ../context/$f $f ../workspace/$f > ../merged/$f || { rm ../merged/$f; }
	done`)
	merge.Dir = dir
	must(t, merge.Start())
	w := newWorld(t, trees[0])
	write(t, w.in(id), trees[1])
	write(t, w.in("workspace"), trees[2])
	e := w.rebase(RebaseRequest{OnConflict: RecordConflicts})
	must(t, merge.Wait())
	merged := read(t, filepath.Join(dir, "merged"))
	want := maps.Clone(trees[1])
	maps.Copy(want, merged)
	same(t, "the context", read(t, w.in(id)), want)
	if got := len(e.Conflicts); got != cases-len(merged) || got < cases/20 || got > cases*19/20 {
		t.Errorf("there are %d conflicts in %d cases, and git has %d", got, cases, cases-len(merged))
	}
	for _, c := range e.Conflicts {
		if _, clean := merged[string(c.Path)]; clean {
			t.Errorf("%s is a conflict, and git merges it", c.Path)
		}
	}

	// Half of what can be applied is: the rest of the workspace keeps every byte.
	sel, applied := &Selection{}, maps.Clone(trees[2])
	for i, c := range w.changes(Query{}).Changes {
		if text, clean := merged[string(c.Path)]; clean && i%2 == 0 {
			sel.Changes = append(sel.Changes, Selected{Path: c.Path})
			applied[string(c.Path)] = text
		}
	}
	w.apply(ApplyRequest{Selection: sel, Approve: true})
	same(t, "the workspace", read(t, w.in("workspace")), applied)
	_, err := w.undo(e.ID)
	must(t, err)
	same(t, "the context after the undo", read(t, w.in(id)), trees[1])
}

// A base that a restored context got is not moved by the next start.
func TestStartLeavesTheBaseOfACopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "base\n"})
	write(t, w.in("workspace"), files{"a": "user\n"})
	w.rebase(RebaseRequest{})
	must(t, w.reviews.Copied(id+"@before", id, "")) // a snapshot that was never reviewed
	write(t, w.in(id), files{"a": "base\n"})
	must(t, w.reviews.Close())
	w.open()
	if left := w.changes(Query{}).Changes; len(left) != 0 {
		t.Errorf("the restored context has the changes %v", left)
	}
}
