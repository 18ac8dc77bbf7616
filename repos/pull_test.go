package repos

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/review"
)

// files is a tree: contents by path, "-> target" for a link, "+x content" for an executable.
type files map[string]string

// contents reads what the context has.
func (w *world) contents() files {
	w.t.Helper()
	out := files{}
	must(w.t, filepath.WalkDir(w.inContext("."), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(w.inContext("."), name)
		if d.Type() == fs.ModeSymlink {
			target, e := os.Readlink(name)
			out[rel] = "-> " + target
			return errors.Join(err, e)
		}
		data, e := os.ReadFile(name)
		if info, err := d.Info(); err == nil && info.Mode()&0o100 != 0 {
			out[rel] = "+x "
		}
		out[rel] += string(data)
		return errors.Join(err, e)
	}))
	return out
}

func (w *world) wantContents(what string, want files) {
	w.t.Helper()
	got := w.contents()
	for p := range want {
		if text, ok := got[p]; !ok || text != want[p] {
			w.t.Errorf("%s: %q is %.300q, want %.300q", what, p, text, want[p])
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			w.t.Errorf("%s: %q is there with %.100q", what, p, got[p])
		}
	}
}

// onBranch makes a branch of app on top of what is checked out, runs script in it, commits everything, and goes back.
func (w *world) onBranch(name string, change func()) {
	w.t.Helper()
	w.Git("app", nil, "stash", "-q", "-u")
	was := w.Git("app", nil, "rev-parse", "--abbrev-ref", "HEAD")
	w.Git("app", nil, "checkout", "-q", "-b", name)
	change()
	w.Git("app", nil, "add", "-A")
	w.Git("app", nil, "commit", "-q", "-m", name)
	w.Git("app", nil, "checkout", "-q", was)
	if w.Git("app", nil, "stash", "list") != "" {
		w.Git("app", nil, "stash", "pop", "-q")
	}
}

func (w *world) tryPull(req PullRequest) (*Pulled, error) {
	req.Context, req.Actor, req.Repo = ctxID, "host", "app"
	return w.repos.Pull(w.t.Context(), req)
}

// pull returns what Pull did to each path that it did not leave as it was.
func (w *world) pull(req PullRequest) (*Pulled, map[string]review.PullOutcome) {
	w.t.Helper()
	done, err := w.tryPull(req)
	must(w.t, err)
	did := map[string]review.PullOutcome{}
	for _, p := range done.Paths {
		if p.Outcome != review.PullUnchanged {
			did[string(p.Path)] = p.Outcome
		}
	}
	return done, did
}

// wantRefused checks that a call was refused for a reason, and that the context is as it was.
func (w *world) wantRefused(err error, reason Reason, before files) *Error {
	w.t.Helper()
	var refused *Error
	if !errors.As(err, &refused) || refused.Reason != reason {
		w.t.Fatalf("got %v, want %s", err, reason)
	}
	if refused.Operation != "pull" || refused.Repo != "app" {
		w.t.Errorf("the refusal is of %q in %q", refused.Operation, refused.Repo)
	}
	w.wantContents("after "+string(reason), before)
	return refused
}

// patches returns what the context changed.
func (w *world) patches() map[string]string {
	w.t.Helper()
	l, err := w.reviews.Changes(w.t.Context(), review.Query{Context: ctxID})
	must(w.t, err)
	defer func() { must(w.t, l.Close()) }()
	out := map[string]string{}
	for _, c := range l.Changes {
		var patch bytes.Buffer
		must(w.t, w.reviews.Patch(w.t.Context(), l, c, 0, &patch))
		out[string(c.Path)] = patch.String()
	}
	return out
}

func (w *world) undo(id int64) int64 {
	w.t.Helper()
	e, err := w.reviews.Undo(w.t.Context(), review.UndoRequest{ID: id, Actor: "host", May: func(*review.Entry) error { return nil }})
	must(w.t, err)
	return e.ID
}

func numbered(n int) string {
	var out strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&out, "line %d\n", i)
	}
	return out.String()
}

func replaced(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}

// A repository has commits that no branch names: the stash, other refs, and what was amended because of a secret in it.
func TestPanelPullsOnlyWhatBranchesAndTagsContain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Repo("app", "f=first\n")
	secret := w.Commit("app", "f=secret\n")
	w.Git("app", nil, "tag", "-a", "-m", "t", "old", first)
	w.Git("app", nil, "reset", "-q", "--hard", first)
	w.Commit("app", "f=second\n")
	w.onBranch("side", func() { w.Write("app/f", "side\n") })
	side := w.Git("app", nil, "rev-parse", "side")
	w.Write("app/f", "stashed\n")
	w.Git("app", nil, "stash", "-q")
	stash := w.Git("app", nil, "rev-parse", "stash")
	w.Git("app", nil, "update-ref", "refs/remotes/origin/theirs", w.Git("app", nil, "commit-tree", "-m", "x", "-p", side, "side^{tree}"))
	w.Git("app", nil, "update-ref", "refs/notes/kept", secret)
	w.seed("app")
	for _, ref := range []string{"", "main", "side", "old", "refs/heads/side", "refs/tags/old", "refs/remotes/origin/theirs", first, first[:9], side, w.Git("app", nil, "rev-parse", "refs/remotes/origin/theirs")} {
		if _, err := w.tryPull(PullRequest{Ref: ref, Panel: true, DryRun: true}); err != nil {
			t.Errorf("a panel pulls %q: %v", ref, err)
		}
	}
	before := w.contents()
	for _, ref := range []string{secret, secret[:9], stash, "refs/stash", "refs/notes/kept", "refs/none", strings.Repeat("1", 40), "11111111"} {
		_, err := w.tryPull(PullRequest{Ref: ref, Panel: true})
		if refused := w.wantRefused(err, NoRef, before); !strings.Contains(refused.Detail, "nothing for panels") {
			t.Errorf("%s is refused as %q: a panel must not learn whether it exists", ref, refused.Detail)
		}
	}
	for _, ref := range []string{secret, "refs/stash"} {
		if _, err := w.tryPull(PullRequest{Ref: ref, DryRun: true}); err != nil {
			t.Errorf("a host pulls %q: %v", ref, err)
		}
	}
}

// Both sides do everything that can be done to a path. The workspace's own edits and untracked files are the user's.
func TestPullBringsInWhatARefHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := numbered(20)
	w.Repo("app", "both="+text, "theirs=old\n", "mine=old\n", "run=echo\n", "gone/deep=x\n", "bin=a\x00b", "dirty="+text, "todir=f\n", "tofile/a=a\n", "same=s\n", "renamed=a long content\n")
	must(t, os.Symlink("run", w.In("app/link")))
	w.Commit("app")
	w.onBranch("next", func() {
		w.Write("app/both", replaced(text, "line 19\n", "theirs\n"))
		w.Write("app/dirty", replaced(text, "line 10\n", "theirs\n"))
		w.Write("app/theirs", "new\n")
		w.Write("app/bin", "a\x00c")
		w.Write("app/added/deep", "added\n")
		must(t, os.Chmod(w.In("app/run"), 0o755))
		must(t, errors.Join(os.Remove(w.In("app/link")), os.Symlink("../../etc/passwd", w.In("app/link"))))
		must(t, errors.Join(os.RemoveAll(w.In("app/gone")), os.RemoveAll(w.In("app/todir")), os.RemoveAll(w.In("app/tofile"))))
		w.Write("app/todir/a", "a\n")
		w.Write("app/tofile", "f\n")
		must(t, os.Rename(w.In("app/renamed"), w.In("app/named")))
	})
	w.Write("app/dirty", replaced(text, "line 1\n", "the user's\n"))
	w.Write("app/untracked", "the user's\n")
	w.seed("app")
	w.edit(map[string]string{"app/both": replaced(text, "line 2\n", "mine\n"), "app/mine": "mine\n", "app/new": "new\n"})
	before := w.contents()
	workspace := treeOf(t, w.Dir)

	dry, did := w.pull(PullRequest{Ref: "next", DryRun: true})
	if len(did) != 14 || dry.ID != 0 {
		t.Errorf("a dry run is entry %d, and says %v", dry.ID, did)
	}
	w.wantContents("after a dry run", before)
	done, did := w.pull(PullRequest{Ref: "next"})
	want := map[string]review.PullOutcome{
		"app/both": review.PullMerged, "app/theirs": review.PullUpdated, "app/bin": review.PullUpdated, "app/dirty": review.PullUpdated, "app/run": review.PullUpdated,
		"app/link": review.PullUpdated, "app/added/deep": review.PullCreated, "app/named": review.PullCreated, "app/todir/a": review.PullCreated,
		"app/tofile": review.PullCreated, "app/gone/deep": review.PullDeleted, "app/renamed": review.PullDeleted, "app/todir": review.PullDeleted, "app/tofile/a": review.PullDeleted,
	}
	if !maps.Equal(did, want) {
		t.Errorf("the pull did %v, want %v", did, want)
	}
	after := files{
		"app/both": replaced(text, "line 2\n", "mine\n", "line 19\n", "theirs\n"), "app/theirs": "new\n", "app/mine": "mine\n", "app/run": "+x echo\n",
		"app/bin": "a\x00c", "app/dirty": replaced(text, "line 10\n", "theirs\n"), "app/todir/a": "a\n", "app/tofile": "f\n", "app/same": "s\n", "app/named": "a long content\n",
		"app/link": "-> ../../etc/passwd", "app/added/deep": "added\n", "app/untracked": "the user's\n", "app/new": "new\n",
	}
	w.wantContents("pulled", after)
	sameTree(t, "the workspace", treeOf(t, w.Dir), workspace)
	if got := slices.Sorted(maps.Keys(w.patches())); !slices.Equal(got, []string{"app/both", "app/mine", "app/new"}) {
		t.Errorf("the changes are %v", got)
	}
	if got := w.patches()["app/both"]; !strings.Contains(got, "-line 2\n+mine\n") || strings.Contains(got, "theirs") {
		t.Errorf("the change is %s", got)
	}
	if done.Commit != w.Git("app", nil, "rev-parse", "next") {
		t.Errorf("pulled is %s", done.Commit)
	}
	if again, did := w.pull(PullRequest{Ref: "next"}); again.ID != 0 || len(did) != 0 {
		t.Errorf("a second pull is entry %d, and did %v", again.ID, did)
	}
	w.wantUndone(done.ID, before, after)
}

// wantUndone undoes an entry, and undoes that.
func (w *world) wantUndone(id int64, before, after files) {
	w.t.Helper()
	changes := w.patches()
	undone := w.undo(id)
	w.wantContents("undone", before)
	must(w.t, errors.Join(w.reviews.Close(), w.reopen(w.t.Context()))) // the base is on disk
	w.undo(undone)
	w.wantContents("redone", after)
	if now := w.patches(); !maps.Equal(now, changes) {
		w.t.Errorf("redone the changes are %v, were %v", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(changes)))
	}
}

// What a pull created, a later pull of a commit without it removes. The user's untracked files stay.
func TestPullRemovesWhatWasPulled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.onBranch("more", func() { w.Write("app/more/x", "x\n"); w.Write("app/equal", "equal\n") })
	w.Write("app/equal", "equal\n") // the user has it, untracked
	w.Write("app/untracked", "u\n")
	w.seed("app")
	w.pull(PullRequest{Ref: "more"})
	w.wantContents("pulled", files{"app/f": "1\n", "app/more/x": "x\n", "app/equal": "equal\n", "app/untracked": "u\n"})
	_, did := w.pull(PullRequest{})
	if !maps.Equal(did, map[string]review.PullOutcome{"app/more/x": review.PullDeleted, "app/equal": review.PullDeleted}) {
		t.Errorf("going back did %v", did)
	}
	w.wantContents("gone back", files{"app/f": "1\n", "app/untracked": "u\n"})
}

// conflicted has a context that conflicts with the branch next in each way.
func conflicted(t *testing.T) (w *world, before files) {
	t.Helper()
	w = newWorld(t)
	text := numbered(9)
	w.Repo("app", "a="+text, "deleted=x\n", "modified=x\n", "bin=\x00a", "link=x\n", "fine=x\n")
	w.onBranch("next", func() {
		w.Write("app/a", replaced(text, "line 5", "theirs 5", "line 9\n", "theirs 9\n"))
		w.Write("app/deleted", "theirs\n")
		w.Write("app/added", "theirs\n")
		w.Write("app/bin", "\x00theirs")
		must(t, errors.Join(os.Remove(w.In("app/modified")), os.Remove(w.In("app/link")), os.Symlink("a", w.In("app/link"))))
		w.Write("app/fine", "theirs\n")
	})
	w.seed("app")
	w.edit(map[string]string{
		"app/a": replaced(text, "line 5", "mine 5", "line 1\n", "mine 1\n"), "app/modified": "mine\n", "app/added": "mine\n", "app/bin": "\x00mine", "app/link": "mine\n", "app/deleted": "",
	})
	return w, w.contents()
}

func TestPullPolicies(t *testing.T) {
	t.Parallel()
	t.Run("refuses", func(t *testing.T) {
		w, before := conflicted(t)
		_, err := w.tryPull(PullRequest{Ref: "next"})
		e := w.wantRefused(err, Conflict, before)
		if want := []string{"app/a", "app/added", "app/bin", "app/deleted", "app/link", "app/modified"}; !slices.Equal(slices.Sorted(slices.Values(e.Paths)), want) {
			t.Errorf("the paths are %v", e.Paths)
		}
	})
	t.Run("markers need texts", func(t *testing.T) {
		w, before := conflicted(t)
		_, err := w.tryPull(PullRequest{Ref: "next", OnConflict: review.PullMarks})
		if e := w.wantRefused(err, Conflict, before); slices.Contains(e.Paths, "app/a") || slices.Contains(e.Paths, "app/added") || len(e.Paths) != 4 {
			t.Errorf("the paths are %v", e.Paths)
		}
		done, did := w.pull(PullRequest{Ref: "next", OnConflict: review.PullMarks, Paths: []string{"a", "added", "fine"}})
		if !maps.Equal(did, map[string]review.PullOutcome{"app/a": review.PullConflicted, "app/added": review.PullConflicted, "app/fine": review.PullUpdated}) {
			t.Errorf("the pull did %v", did)
		}
		after := maps.Clone(before)
		after["app/fine"] = "theirs\n"
		after["app/a"] = "mine 1\nline 2\nline 3\nline 4\n<<<<<<< context\nmine 5\n||||||| base\nline 5\n=======\ntheirs 5\n>>>>>>> next\nline 6\nline 7\nline 8\ntheirs 9\n"
		after["app/added"] = "<<<<<<< context\nmine\n||||||| base\n=======\ntheirs\n>>>>>>> next\n"
		w.wantContents("marked", after)
		w.wantUndone(done.ID, before, after)
	})
	for how, line := range map[review.OnPullConflict]string{review.PullKeepsOurs: "mine 5", review.PullTakesTheirs: "theirs 5"} {
		t.Run(line, func(t *testing.T) {
			w, before := conflicted(t)
			done, did := w.pull(PullRequest{Ref: "next", OnConflict: how})
			conflicts := 0
			for _, outcome := range did {
				if outcome == review.PullConflicted {
					conflicts++
				}
			}
			if conflicts != 6 || did["app/fine"] != review.PullUpdated {
				t.Errorf("the pull did %v", did)
			}
			after := maps.Clone(before)
			if how == review.PullTakesTheirs {
				after = files{"app/deleted": "theirs\n", "app/added": "theirs\n", "app/bin": "\x00theirs", "app/link": "-> a"}
			}
			after["app/fine"] = "theirs\n"
			after["app/a"] = replaced(numbered(9), "line 1\n", "mine 1\n", "line 5", line, "line 9\n", "theirs 9\n")
			w.wantContents(line, after)
			if _, changed := w.patches()["app/a"]; !changed {
				t.Error("the context's own lines are no change any more")
			}
			w.wantUndone(done.ID, before, after)
		})
	}
}

func TestPullKeepsDirectoriesOfTheContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.onBranch("next", func() { w.Write("app/new", "a file\n"); w.Write("app/f", "2\n") })
	w.seed("app")
	w.edit(map[string]string{"app/new/mine": "mine\n"})
	before := w.contents()
	for _, how := range []review.OnPullConflict{review.PullRefuses, review.PullMarks, review.PullTakesTheirs} {
		_, err := w.tryPull(PullRequest{Ref: "next", OnConflict: how})
		w.wantRefused(err, Conflict, before)
	}
	w.pull(PullRequest{Ref: "next", OnConflict: review.PullKeepsOurs})
	w.wantContents("kept", files{"app/f": "2\n", "app/new/mine": "mine\n"})
}

func TestPullOfPathsAndRefs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Repo("app", "a/x=1\n", "a/y=1\n", "ab=1\n", "b=1\n")
	w.Git("app", nil, "tag", "-a", "-m", "t", "v1")
	w.onBranch("next", func() {
		w.Write("app/a/x", "2\n")
		w.Write("app/ab", "2\n")
		must(t, os.Remove(w.In("app/a/y")))
		w.Write("app/a/odd\xff\nname", "odd\n")
	})
	w.Git("app", nil, "pack-refs", "--all")
	w.seed("app")
	_, did := w.pull(PullRequest{Ref: "next", Paths: []string{"a/x", "./a"}})
	if len(did) != 3 || did["app/a/odd\xff\nname"] != review.PullCreated {
		t.Errorf("the pull did %v", did)
	}
	w.wantContents("a", files{"app/a/x": "2\n", "app/ab": "1\n", "app/b": "1\n", "app/a/odd\xff\nname": "odd\n"})
	for _, ref := range []string{"v1", first[:8], "refs/heads/main", "HEAD"} {
		done, _ := w.pull(PullRequest{Ref: ref})
		w.wantContents(ref, files{"app/a/x": "1\n", "app/a/y": "1\n", "app/ab": "1\n", "app/b": "1\n"})
		if done.Commit != first {
			t.Errorf("%s is %s, want %s", ref, done.Commit, first)
		}
		w.pull(PullRequest{Ref: "next"})
	}
	w.pull(PullRequest{Ref: "v1", Paths: []string{"a/y"}}) // the context lost it
	w.pull(PullRequest{Ref: "next", Paths: []string{"a/y"}})
	if _, has := w.contents()["app/a/y"]; has {
		t.Error("a path that the ref does not have any more is there")
	}
}

// Files that are put in another place become changes. Pulling them again merges from what was pulled there last.
func TestPullElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := numbered(9)
	w.Repo("app", "src/f="+text, "src/g=1\n", "h=1\n")
	w.Repo("lib", "l=1\n")
	w.onBranch("next", func() {
		w.Write("app/src/f", replaced(text, "line 9\n", "theirs\n"))
		must(t, os.Remove(w.In("app/src/g")))
	})
	w.seed("app", "lib")
	elsewhere := PullRequest{Elsewhere: true, Dest: "lib/vendor", Paths: []string{"src"}}
	_, did := w.pull(elsewhere)
	if len(did) != 2 || did["lib/vendor/src/f"] != review.PullCreated {
		t.Errorf("the pull did %v", did)
	}
	if got := slices.Sorted(maps.Keys(w.patches())); !slices.Equal(got, []string{"lib/vendor/src/f", "lib/vendor/src/g"}) {
		t.Errorf("the changes are %v", got)
	}
	w.edit(map[string]string{"lib/vendor/src/f": replaced(text, "line 1\n", "mine\n")})
	before := w.contents()
	elsewhere.Ref = "next"
	done, did := w.pull(elsewhere)
	if !maps.Equal(did, map[string]review.PullOutcome{"lib/vendor/src/f": review.PullMerged, "lib/vendor/src/g": review.PullDeleted}) {
		t.Errorf("the second pull did %v", did)
	}
	after := maps.Clone(before)
	delete(after, "lib/vendor/src/g")
	after["lib/vendor/src/f"] = replaced(text, "line 1\n", "mine\n", "line 9\n", "theirs\n")
	w.wantContents("pulled again", after)
	w.wantUndone(done.ID, before, after)

	// Another repository does not remove what this one put there.
	_, err := w.repos.Pull(t.Context(), PullRequest{Context: ctxID, Repo: "lib", Elsewhere: true, Dest: "lib/vendor"})
	must(t, err)
	after["lib/vendor/l"] = "1\n"
	w.wantContents("beside another repository", after)

	// What stands there and is not of this repository is never overwritten.
	w.edit(map[string]string{"other/src/f": "mine\n"})
	before = w.contents()
	_, err = w.tryPull(PullRequest{Elsewhere: true, Dest: "other"})
	if e := w.wantRefused(err, Conflict, before); !slices.Equal(e.Paths, []string{"other/src/f"}) {
		t.Errorf("the paths are %v", e.Paths)
	}
	// Another place does not touch the first one, and the root of the context is one too.
	w.pull(PullRequest{Elsewhere: true, Dest: "", Paths: []string{"h"}})
	w.pull(PullRequest{Elsewhere: true, Dest: "", Paths: []string{"src/g"}})
	before["h"], before["src/g"] = "1\n", "1\n"
	w.wantContents("at the root", before)
	w.pull(PullRequest{Elsewhere: true, Dest: "app"}) // its own place
	if _, changed := w.patches()["app/h"]; changed {
		t.Error("a pull into its own place makes changes")
	}
}

func TestPullBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n", "run=+x\n")
	w.onBranch("sub", func() {
		w.Git("app", nil, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",module")
		w.Git("app", nil, "commit", "-q", "-m", "module")
		w.Write("app/g", "g\n")
		must(t, os.Mkdir(w.In("app/module"), 0o755))
	})
	w.Repo("app/nested", "n=1\n")
	w.Write("app/.contextignore", "secret*\n")
	w.onBranch("nested", func() {
		must(t, os.RemoveAll(w.In("app/nested")))
		w.Write("app/nested/n", "another\n")
		w.Write("app/secret.env", "secret\n")
		w.Write("app/node_modules/m.js", "m\n")
	})
	w.Repo("app/nested", "n=1\n")
	w.Git("app", nil, "tag", "blob", w.Git("app", nil, "rev-parse", "HEAD:f"))
	w.seed("app", "app/nested")
	before := w.contents()
	for _, c := range []struct {
		name   string
		req    PullRequest
		reason Reason
		code   fserr.Code
	}{
		{"unknown ref", PullRequest{Ref: "nothing"}, NoRef, 0},
		{"no commit", PullRequest{Ref: "blob"}, NoRef, 0},
		{"unknown commit", PullRequest{Ref: strings.Repeat("1", 40)}, NoRef, 0},
		{"an option", PullRequest{Ref: "--upload-pack=x"}, "", fserr.EINVAL},
		{"an expression", PullRequest{Ref: "HEAD~1"}, "", fserr.EINVAL},
		{"unknown path", PullRequest{Paths: []string{"nothing"}}, "", fserr.ENOENT},
		{"below a file", PullRequest{Paths: []string{"f/x"}}, "", fserr.ENOENT},
		{"absolute path", PullRequest{Paths: []string{"/f"}}, "", fserr.EINVAL},
		{"path out of the repository", PullRequest{Paths: []string{"../f"}}, "", fserr.EINVAL},
		{"submodule", PullRequest{Ref: "sub", Paths: []string{"module"}}, IsSubmodule, 0},
		{"in a submodule", PullRequest{Ref: "sub", Paths: []string{"module/x"}}, IsSubmodule, 0},
		{"another repository", PullRequest{Ref: "nested", Paths: []string{"nested"}}, IsSubmodule, 0},
		{"excluded", PullRequest{Ref: "nested", Paths: []string{"secret.env"}}, "", fserr.EACCES},
		{"unknown remote", PullRequest{Remote: "origin"}, NoRef, 0},
		{"into a git directory", PullRequest{Elsewhere: true, Dest: "x/.GIT"}, "", fserr.EACCES},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.tryPull(c.req)
			switch {
			case c.reason != "":
				w.wantRefused(err, c.reason, before)
			case fserr.CodeOf(err) != c.code || strings.Contains(err.Error(), w.Dir):
				t.Errorf("got %v, want %v", err, c.code)
			}
			w.wantContents(c.name, before)
		})
	}
	_, did := w.pull(PullRequest{Ref: "sub"})
	if !maps.Equal(did, map[string]review.PullOutcome{"app/g": review.PullCreated}) {
		t.Errorf("a pull around a submodule did %v", did)
	}
	before["app/g"] = "g\n"
	w.wantContents("around a submodule", before)
	_, err := w.repos.Pull(t.Context(), PullRequest{Context: ctxID, Repo: "elsewhere"})
	var e *Error
	if !errors.As(err, &e) || e.Reason != NoRepository || !strings.Contains(e.Hint, "/app/nested") {
		t.Errorf("an unknown repository is refused with %v", err)
	}
}

// What seeding leaves out stays out, though the repository has it.
func TestPullLeavesOutWhatSeedingLeavesOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n", ".contextignore=secret*\n")
	w.onBranch("next", func() {
		w.Write("app/secret.env", "secret\n")
		w.Write("app/deep/secrets/key", "secret\n")
		w.Git("app", nil, "add", "-f", ".")
		w.Write("app/node_modules/m.js", "m\n")
	})
	w.seed("app")
	w.pull(PullRequest{Ref: "next"})
	want := files{"app/f": "1\n", "app/.contextignore": "secret*\n"}
	w.wantContents("pulled", want)
	for _, dest := range []string{"", "elsewhere"} {
		_, err := w.tryPull(PullRequest{Ref: "next", Paths: []string{"deep/secrets"}, Elsewhere: dest != "", Dest: review.Path(dest)})
		if fserr.CodeOf(err) != fserr.EACCES {
			t.Errorf("a path that is left out is pulled into %q: %v", dest, err)
		}
	}
	w.pull(PullRequest{Ref: "next", Elsewhere: true, Dest: "elsewhere"})
	want["elsewhere/f"], want["elsewhere/.contextignore"] = "1\n", "secret*\n"
	w.wantContents("pulled elsewhere", want)
}

// A context that was seeded from a part of the repository gets that part.
func TestPullKeepsToTheScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "core/src/f=1\n", "core/other=1\n", "top=1\n")
	w.onBranch("next", func() {
		w.Write("app/core/src/f", "2\n")
		w.Write("app/core/src/new", "2\n")
		w.Write("app/core/other", "2\n")
		w.Write("app/top", "2\n")
	})
	w.seed("app")
	must(t, errors.Join(os.Remove(w.inContext("app/top")), os.Remove(w.inContext("app/core/other"))))
	must(t, os.RemoveAll(filepath.Join(w.dir, "layer")))
	must(t, copyTree(w.inContext("."), filepath.Join(w.dir, "layer")))
	repositories := w.manifest.Repos
	var err error
	w.manifest, err = manifestOf(filepath.Join(w.dir, "layer"))
	must(t, err)
	w.manifest.Repos, w.manifest.Scope.From = repositories, []string{"app/core/src"}
	for _, paths := range [][]string{nil, {"core"}} {
		w.pull(PullRequest{Ref: "next", Paths: paths})
		w.wantContents("pulled", files{"app/core/src/f": "2\n", "app/core/src/new": "2\n"})
	}
	if _, err := w.tryPull(PullRequest{Ref: "next", Paths: []string{"top"}}); fserr.CodeOf(err) != fserr.EACCES {
		t.Errorf("a path out of the scope is pulled: %v", err)
	}
}

func TestPullRefusesFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", ".gitattributes=*.big filter=lfs\n", "a.big=version https://git-lfs\n", "f=1\n")
	w.onBranch("same", func() { w.Write("app/f", "2\n") })
	w.onBranch("next", func() {
		w.Write("app/f", "3\n")
		w.Write("app/sub/.gitattributes", "* -filter\n")
		w.Write("app/b.big", "pointer\n")
		w.Write("app/sub/c.big", "c\n")
	})
	w.Write("app/a.big", "what the pointer stands for\n") // as git lfs checks it out
	w.seed("app")
	w.pull(PullRequest{Ref: "same"})
	want := files{"app/.gitattributes": "*.big filter=lfs\n", "app/a.big": "what the pointer stands for\n", "app/f": "2\n"}
	w.wantContents("around a filter", want)
	_, err := w.tryPull(PullRequest{Ref: "next"})
	if e := w.wantRefused(err, NeedsFilter, want); !slices.Equal(e.Paths, []string{"app/b.big"}) {
		t.Errorf("the paths are %v", e.Paths)
	}
	w.pull(PullRequest{Ref: "next", Paths: []string{"f", "sub"}})
	want["app/f"], want["app/sub/.gitattributes"], want["app/sub/c.big"] = "3\n", "* -filter\n", "c\n"
	w.wantContents("without the filter", want)
}

func TestPullRefusesTooMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.onBranch("many", func() {
		for i := range 20 {
			w.Write(fmt.Sprintf("app/many/%d", i), "x")
		}
	})
	w.onBranch("large", func() { w.Write("app/large", strings.Repeat("x", 2000)) })
	w.seed("app")
	before := w.contents()
	w.repos.cfg.MaxFiles, w.repos.cfg.MaxBytes = 10, 1000
	for _, ref := range []string{"many", "large"} {
		_, err := w.tryPull(PullRequest{Ref: ref})
		w.wantRefused(err, TooLarge, before)
	}
	w.pull(PullRequest{Ref: "large", Paths: []string{"f"}})
}

// The trees of this repository are made by hand: git would not check them out, or only by running programs.
func TestPullOfHostileTrees(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]gittest.Entry{
		"git directory":          {"100644", ".git", ""},
		"git directory, by case": {"100644", ".GiT", ""},
		"git directory, on HFS":  {"100644", ".g\u200cit", ""},
		"git directory, on NTFS": {"100644", "git~1", ""},
		"parent":                 {"100644", "..", ""},
		"slash":                  {"100644", "a/b", ""},
		"reserved":               {"100644", ".ctxfs-tmp-x", ""},
		"contexts":               {"100644", ".ctxfs", ""},
		"device":                 {"60644", "device", ""},
		"name too long":          {"100644", strings.Repeat("n", 256), ""},
		"empty link":             {"120000", "link", "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Repo("app", "f=1\n")
			w.seed("app")
			must(t, os.Symlink("app", w.In("r"))) // gittest works on r
			entry[2] = w.Blob(strings.TrimSuffix("hostile", map[bool]string{true: "hostile"}[entry[2] == "empty"]))
			w.CommitTree(w.Tree(gittest.Entry{"100644", "f", w.Blob("2\n")}, entry))
			_, err := w.tryPull(PullRequest{})
			if fserr.CodeOf(err) != fserr.EINVAL {
				t.Errorf("it is refused with %v", err)
			}
			w.wantContents("after it", files{"app/f": "1\n"})
		})
	}
}

func TestPullRunsNothing(t *testing.T) {
	t.Parallel()
	tr := gittest.NewTrap(t)
	w := &world{space: tr.Workspace, t: t, dir: tr.State}
	w.seed("r")
	tr.WasSprung() // to describe the repository, seed runs git in it
	req := PullRequest{Context: ctxID, Actor: "host", Repo: "r", Ref: "main"}
	_, err := w.repos.Pull(t.Context(), req)
	var e *Error
	if !errors.As(err, &e) || e.Reason != NeedsFilter {
		t.Errorf("the pull ended with %v", err)
	}
	req.Remote = "evil"
	if _, err = w.repos.Pull(t.Context(), req); fserr.CodeOf(err) != fserr.EACCES {
		t.Errorf("the pull from an ext:: remote ended with %v", err)
	}
	tr.CommitTree(tr.Tree(gittest.Entry{"100644", "f", tr.Blob("2\n")})) // info/attributes still names a filter
	tr.WasSprung()
	req.Remote = ""
	_, err = w.repos.Pull(t.Context(), req)
	must(t, err)
	w.wantContents("pulled", files{"r/f": "2\n"})
	if tr.WasSprung() {
		t.Error("the repository's program ran")
	}
}

// A context that did not change anything has the ref's files, and no changes, after any number of pulls.
func TestPullWithoutLocalChangesEqualsTheRef(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "dir/a", "dir/b", "dir/deep/c", "a.txt", "B", "dir"}
	generated := rapid.MapOfN(rapid.SampledFrom(names), rapid.StringMatching(`(\+x |-> )?[a-c]{1,3}(\n[a-c])?`), 0, len(names))
	w := newWorld(t)
	w.Repo("app", "seeded=1\n")
	var commits []string
	trees := map[string]files{}
	for i := range 8 {
		must(t, emptied(w.In("app")))
		tree := files{}
		for p, text := range generated.Example(i) {
			isDir := i%2 == 0 // dir is a directory in some commits, and a file in others
			if p == "dir" && isDir || strings.HasPrefix(p, "dir/") && !isDir {
				continue
			}
			w.put("app/"+p, text)
			tree["app/"+p] = text
		}
		commit := w.Commit("app")
		commits, trees[commit] = append(commits, commit), tree
	}
	w.seed("app")
	rapid.Check(t, func(r *rapid.T) {
		commit := rapid.SampledFrom(commits).Draw(r, "commit")
		w.pull(PullRequest{Ref: commit})
		w.wantContents(commit, trees[commit])
		if changed := w.patches(); len(changed) != 0 {
			r.Errorf("there are changes: %v", changed)
		}
		if t.Failed() {
			r.FailNow()
		}
	})
}

func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != ".git" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// put writes a file of the workspace as edit does in the context.
func (w *world) put(p, text string) {
	w.t.Helper()
	if target, ok := strings.CutPrefix(text, "-> "); ok {
		must(w.t, os.MkdirAll(filepath.Dir(w.In(p)), 0o755))
		must(w.t, os.Symlink(target, w.In(p)))
		return
	}
	text, run := strings.CutPrefix(text, "+x ")
	w.Write(p, text)
	if run {
		must(w.t, os.Chmod(w.In(p), 0o755))
	}
}
