package repos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/review"
)

func TestStageOnEachKindOfBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n", "g=1\n")
	w.Git("app", nil, "branch", "topic")
	w.Git("app", nil, "branch", "linked")
	w.Git("app", nil, "worktree", "add", "-q", filepath.Join(w.dir, "linked"), "linked")
	w.Git("app", nil, "checkout", "-q", "topic")
	topic := w.Commit("app", "g=topic\n")
	w.Git("app", nil, "checkout", "-q", "main")
	main := w.Commit("app", "main=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	for branch, parent := range map[string]string{"main": main, "topic": topic, "new/one": main, "linked": w.Git("app", nil, "rev-parse", "linked")} {
		s := w.mustStage(StageRequest{Branch: branch})
		if s.Parent != parent || s.Branch != branch || s.NamedByStage || w.gitStaged(s, "rev-parse", s.Commit+"^") != parent {
			t.Errorf("%s: staged %+v, want the parent %s", branch, s, parent)
		}
	}
	branches, err := w.repos.Branches(t.Context(), ctxID, "app")
	must(t, err)
	got := ""
	for _, b := range branches {
		got += b.Name
		if b.CheckedOut {
			got += "*"
		}
		got += " "
	}
	if got != "linked* main* topic " {
		t.Errorf("the branches are %s", got)
	}
	w.Git("app", nil, "checkout", "-q", "--detach")
	detached := w.Commit("app", "more=1\n")
	if s := w.mustStage(StageRequest{}); s.Parent != detached {
		t.Errorf("staged %+v on a detached HEAD, want the parent %s", s, detached)
	}
}

func TestStageBeforeTheFirstCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, os.Mkdir(w.In("app"), 0o755))
	w.Git("app", nil, "init", "-q", "-b", "main")
	w.Write("app/untracked", "u\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "1\n"})
	for _, branch := range []string{"main", "other"} {
		s := w.mustStage(StageRequest{Branch: branch})
		sameTree(t, "the commit", w.checkout(s), map[string]string{"f": "1\n"})
		if s.Parent != "" || w.gitStaged(s, "rev-list", "--count", s.Commit) != "1" || len(s.Files) != 1 || !strings.Contains(s.Files[0].Diff, "+1\n") {
			t.Errorf("staged %+v", s)
		}
	}
	list, err := w.repos.List(t.Context(), ctxID, true)
	if err != nil || len(list) != 1 || list[0].Head != "" || list[0].Unusable != "" {
		t.Errorf("the repositories are %+v (%v)", list, err)
	}
}

func TestStageOfASHA256Repository(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, os.Mkdir(w.In("app"), 0o755))
	w.Git("app", nil, "init", "-q", "-b", "main", "--object-format=sha256")
	w.Commit("app", "f=1\n", ".gitattributes=* text\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\r\n", "app/new": "n\n"})
	s := w.mustStage(StageRequest{})
	sameTree(t, "the commit", w.checkout(s), map[string]string{"f": "2\n", "new": "n\n", ".gitattributes": "* text\n"})
	if len(s.Commit) != 64 {
		t.Errorf("the commit is %s", s.Commit)
	}
	w.gitStaged(s, "fsck")
}

// A shallow clone, a sparse checkout and a linked working tree lack something that others have. None of it is staged as a deletion.
func TestStageOfIncompleteRepositories(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(w *world){
		"shallow": func(w *world) {
			w.Git(".", nil, "clone", "-q", "--depth=1", "file://"+w.In("origin"), "app")
		},
		"sparse": func(w *world) {
			w.Git(".", nil, "clone", "-q", "origin", "app")
			w.Git("app", nil, "sparse-checkout", "set", "dir")
		},
		"linked working tree": func(w *world) {
			w.Git("origin", nil, "worktree", "add", "-q", "-b", "linked", w.In("app"))
		},
		"alternates": func(w *world) {
			w.Git(".", nil, "clone", "-q", "--shared", "origin", "app")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Repo("origin", "f=1\n", "dir/g=1\n", "far/h=1\n")
			w.Commit("origin", "f=2\n")
			make(w)
			w.seed("app")
			w.edit(map[string]string{"app/dir/g": "changed\n"})
			s := w.mustStage(StageRequest{})
			sameTree(t, "the commit", w.checkout(s), map[string]string{"f": "2\n", "dir/g": "changed\n", "far/h": "1\n"})
			if s.Parent != w.Git("app", nil, "rev-parse", "HEAD") || len(s.Files) != 1 {
				t.Errorf("staged %+v", s)
			}
			w.gitStaged(s, "fsck")
			must(t, w.discard(s))
			w.onlyStaged()
		})
	}
}

// A partial clone has not all contents. What it lacks is refused, and not fetched.
func TestStageOfAPartialClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("origin", "f=1\n", "dir/g=1\n")
	w.Git("origin", nil, "config", "uploadpack.allowFilter", "true")
	w.Git(".", nil, "clone", "-q", "--filter=blob:none", "file://"+w.In("origin"), "app")
	w.Git("origin", nil, "checkout", "-q", "-b", "topic")
	w.Commit("origin", "f=topic\n")
	w.Git("app", nil, "fetch", "-q", "origin", "topic:topic")
	w.seed("app")
	w.edit(map[string]string{"app/dir/g": "2\n"})
	s := w.mustStage(StageRequest{})
	sameTree(t, "the files", map[string]string{"dir/g": w.checkout(w.mustStage(StageRequest{Branch: "main"}))["dir/g"]}, map[string]string{"dir/g": "2\n"})
	if len(s.Files) != 1 {
		t.Errorf("the files are %+v", s.Files)
	}
	w.edit(map[string]string{"app/f": "3\n"})
	_, err := w.stage(StageRequest{Branch: "topic", Files: []review.Path{"app/f"}})
	invalid(t, err, fserr.EIO, "partial clone")
}

func TestStageRefusesSubmodules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("lib", "l=1\n")
	w.Repo("app", "f=1\n")
	w.Git("app", nil, "-c", "protocol.file.allow=always", "submodule", "-q", "add", w.In("lib"), "sub")
	w.Commit("app")
	w.Repo("app/nested", "n=1\n")
	w.seed("app", "lib")
	app := review.Path("app")
	w.edit(map[string]string{"app/f": "2\n", "app/sub/l": "2\n"})
	_, err := w.stage(StageRequest{Repo: &app})
	refusedAs(t, err, IsSubmodule, "submodule")
	must(t, os.RemoveAll(w.In("app/sub"))) // it is not checked out any more, and the branch has it
	_, err = w.stage(StageRequest{Repo: &app})
	refusedAs(t, err, IsSubmodule, "submodule")
	w.edit(map[string]string{"app/sub": ""})
	_, err = w.stage(StageRequest{Files: []review.Path{"app/sub"}})
	refusedAs(t, err, IsSubmodule, "submodule")
	w.edit(map[string]string{"app/sub": "a file\n"})
	_, err = w.stage(StageRequest{Files: []review.Path{"app/sub"}})
	refusedAs(t, err, IsSubmodule, "submodule")
	w.edit(map[string]string{"app/nested/n": "2\n"})
	_, err = w.stage(StageRequest{Files: []review.Path{"app/nested"}})
	refusedAs(t, err, IsSubmodule, "repository within")
	w.edit(map[string]string{"app/.gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = ext::true\n"})
	e := refusedAs(t, func() error { _, err := w.stage(StageRequest{Files: []review.Path{"app/.gitmodules"}}); return err }(), IsSubmodule, ".gitmodules")
	if e.Paths[0] != "app/.gitmodules" {
		t.Errorf("the paths are %q", e.Paths)
	}
	s := w.mustStage(StageRequest{Files: []review.Path{"app/f"}})
	if got := w.gitStaged(s, "ls-tree", s.Commit, "sub"); !strings.HasPrefix(got, "160000 commit") {
		t.Errorf("the commit has %q in place of the submodule", got)
	}
	w.onlyStaged(s)
}

func TestListSaysWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Repo("app", "f=1\n")
	w.Repo("gone", "f=1\n")
	w.Git("app", nil, "remote", "add", "origin", "https://user:secret@example.com/app.git")
	w.Git("app", nil, "remote", "add", "evil", "ext::sh -c true")
	w.Write("app/f", "dirty\n")
	w.seed("app", "gone")
	w.Git("app", nil, "checkout", "-q", "--", "f")
	w.Commit("app", "f=2\n")
	second := w.Commit("app", "f=3\n")
	must(t, os.RemoveAll(w.In("gone/.git")))
	list, err := w.repos.List(t.Context(), ctxID, true)
	must(t, err)
	app, gone := list[0], list[1]
	if app.Path != "app" || app.Repository.Head != first || app.Head != second || app.Behind != 2 || !app.Dirty || strings.Join(app.Remotes, " ") != "origin" || app.Unusable != "" {
		t.Errorf("app is %+v", app)
	}
	if gone.Path != "gone" || gone.Unusable != "missing" || gone.Head != "" {
		t.Errorf("gone is %+v", gone)
	}
	if list, err := w.repos.List(t.Context(), ctxID, false); err != nil || list[0].Head != "" || list[0].Behind != 0 {
		t.Errorf("for panels, app is %+v (%v)", list, err)
	}
	repo := review.Path("gone")
	w.edit(map[string]string{"gone/f": "2\n"})
	_, err = w.stage(StageRequest{Repo: &repo})
	refusedAs(t, err, NoRepository, "does not have the repository any more")
}

// No program that the repository names runs.
func TestStageRunsNothing(t *testing.T) {
	t.Parallel()
	tr := gittest.NewTrap(t)
	w := &world{space: tr.Workspace, t: t, dir: tr.State}
	for name, text := range map[string]string{"f": "1", "sub/g": "$Format:%H$ $Id$\r\n", ".gitattributes": "* diff=evil merge=evil ident\nf filter=evil\n"} {
		tr.Write("r/"+name, text)
	}
	w.seed()
	w.manifest.Repos = append(w.manifest.Repos, seeded("r", tr.Git("r", nil, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")))
	tr.WasSprung()
	w.edit(map[string]string{"r/f": "2", "r/plain": "$Id: 1 $\n", "r/sub/g": "$Format:%H$ $Id$\r\nmore\n"})
	_, err := w.stage(StageRequest{Files: []review.Path{"r/plain"}})
	refusedAs(t, err, NeedsFilter, "") // info/attributes has it for all files
	must(t, os.Remove(tr.In("r/.git/info/attributes")))
	_, err = w.stage(StageRequest{Files: []review.Path{"r/f"}})
	refusedAs(t, err, NeedsFilter, "")
	s, err := w.stage(StageRequest{Files: []review.Path{"r/plain", "r/sub"}})
	must(t, err)
	if got := w.checkout(s); got["plain"] != "$Id$\n" || got["sub/g"] != "$Format:%H$ $Id$\r\nmore\n" {
		t.Errorf("the commit has %q", got)
	}
	_, err = w.repos.Get(t.Context(), s.ID)
	must(t, err)
	_, err = w.repos.Branches(t.Context(), ctxID, "r")
	must(t, err)
	_, err = w.repos.List(t.Context(), ctxID, true)
	must(t, err)
	must(t, w.repos.Diff(t.Context(), Query{Context: ctxID}, 3, &strings.Builder{}))
	must(t, w.repos.DiffStaged(t.Context(), s, nil, 3, &strings.Builder{}))
	must(t, w.discard(s))
	if tr.WasSprung() {
		t.Error("a program of the repository ran")
	}
}
