package repos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/review"
)

// The user has changed a line, and staged another file. The commit has the context's line alone.
func TestStagedCommitHasTheContextsLinesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=l1\nl2\nl3\nl4\nl5\n", "other=1\n")
	w.Write("app/f", "l1 USER\nl2\nl3\nl4\nl5\n")
	w.Write("app/staged", "the user's\n")
	w.Git("app", nil, "add", "staged")
	w.seed("app")
	w.edit(map[string]string{"app/f": "l1 USER\nl2\nl3\nl4\nl5 AGENT\n"})
	before := treeOf(t, w.Dir)
	s := w.mustStage(StageRequest{Panel: "panels/editor"})
	if got, want := w.gitStaged(s, "show", "--format=%an <%ae>%n%B", s.Commit), `Agent <agent@example.com>
Change it

Ctxfs-Panel: panels/editor
Ctxfs-Context: ctx_a


diff --git a/f b/f
index b8cb000..b5306bf 100644
--- a/f
+++ b/f
@@ -2,4 +2,4 @@ l1
 l2
 l3
 l4
-l5
+l5 AGENT`; got != want {
		t.Errorf("git show printed\n%s\nwant\n%s", got, want)
	}
	if s.Branch != "ctxfs/editor/change-it" || !s.NamedByStage || s.Parent != w.Git("app", nil, "rev-parse", "HEAD") {
		t.Errorf("the staged commit is %+v", s)
	}
	sameTree(t, "the workspace", treeOf(t, w.Dir), before)

	w.edit(map[string]string{"app/f": "l1 USER\nl2\nl3\nl4\nl5 LATER\n"})
	got, err := w.repos.Get(t.Context(), s.ID)
	if err != nil || len(got.Files) != 1 || !strings.HasSuffix(got.Files[0].Diff, "-l5\n+l5 AGENT\n") || got.Files[0].Added != 1 || got.Files[0].Removed != 1 {
		t.Errorf("after a later edit of the context the staged commit is %+v (%v)", got, err)
	}
	if again := w.mustStage(StageRequest{Panel: "panels/editor", Files: []review.Path{"app/other", "app/f"}, Branch: "other"}); again.NamedByStage || again.Branch != "other" {
		t.Errorf("the second staged commit is %+v", again)
	}
}

// The staged commit has what the context has, whatever kinds of change there are.
func TestStageTakesEveryKindOfChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "keep=k\n", "gone=g\n", "run=#!/bin/sh\n", "dir/a=a\n", "dir/b=b\n", "file=f\n", "moved=unique content\n", "bin=a\x00b", "sub/link=l\n")
	w.seed("app")
	changes := map[string]string{
		"app/gone": "", "app/run": "+x #!/bin/sh\n", "app/dir": "a file now\n", "app/file": "", "app/file/inner": "i\n", "app/moved": "", "app/other/moved": "unique content\n",
		"app/bin": "a\x00c", "app/sub/link": "-> ../keep", "app/new\nline": "n\n", "app/\xff\xfe": "not UTF-8\n", "app/a \"quoted\" tab\t": "q\n", "app/empty": "+x ",
		"app/-dash": "d\n", "app/:(top)x": "p\n", "app/dangling": "-> /nowhere",
	}
	w.edit(changes)
	s := w.mustStage(StageRequest{Message: "All of it\n\nWith a body.\n"})
	sameTree(t, "the commit", w.checkout(s), filesOfDir(t, w.inContext("app")))
	w.gitStaged(s, "fsck", "--strict")
	if s.Message != "All of it\n\nWith a body.\n\nCtxfs-Context: ctx_a" {
		t.Errorf("the message is %q", s.Message)
	}
	ops := map[review.Path]string{}
	for _, f := range s.Files {
		ops[f.Path] = fmt.Sprintf("%s %o %o %s", f.Operation(), f.OldMode, f.NewMode, f.RenamedFrom)
		if f.Truncated || !strings.HasPrefix(f.Diff, "diff --git ") {
			t.Errorf("the diff of %q is %.100q", f.Path, f.Diff)
		}
	}
	for p, want := range map[review.Path]string{
		"app/gone": "delete 100644 0 ", "app/run": "update 100644 100755 ", "app/other/moved": "create 0 100644 app/moved", "app/sub/link": "update 100644 120000 ",
		"app/new\nline": "create 0 100644 ", "app/\xff\xfe": "create 0 100644 ", "app/dangling": "create 0 120000 ",
	} {
		if ops[p] != want {
			t.Errorf("%q is %q, want %q", p, ops[p], want)
		}
	}

	// What the diffs say, put together, is the whole change.
	var patch strings.Builder
	for _, f := range s.Files {
		patch.WriteString(f.Diff)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	w.Git("app", nil, "worktree", "add", "-q", "--detach", clone)
	must(t, os.WriteFile(filepath.Join(w.dir, "patch"), []byte(patch.String()), 0o600))
	w.Git("app", nil, "-C", clone, "apply", "--whitespace=nowarn", filepath.Join(w.dir, "patch"))
	applied := filesOfDir(t, clone)
	delete(applied, ".git")
	sameTree(t, "git apply", applied, filesOfDir(t, w.inContext("app")))
}

// names are the paths of the property: directories and files, some of which are in each other's way.
var names = []string{"a", "a/b", "a/b/c", "d", "d/e", "f", "g/h"}

func TestStageOfSelectedFilesIsTheContext(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		draw := func(what string) map[string]string {
			files := map[string]string{}
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(rt, what) {
				free := true
				for other := range files {
					free = free && !strings.HasPrefix(other, name+"/") && !strings.HasPrefix(name, other+"/")
				}
				if free {
					files[name] = rapid.SampledFrom([]string{"one\n", "two\r\n", "+x one\n", "-> a", "\x00"}).Draw(rt, name)
				}
			}
			return files
		}
		w.Repo("app", "kept=k\n")
		before, after := draw("before"), draw("after")
		for name, text := range before {
			w.write("app/"+name, text)
		}
		w.Commit("app")
		w.seed("app")
		for name := range before {
			w.edit(map[string]string{"app/" + name: ""})
		}
		for name, text := range after {
			w.edit(map[string]string{"app/" + name: text})
		}
		selected := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(rt, "selected")
		if len(selected) == 0 {
			selected = names
		}
		want := map[string]string{"kept": "k\n"}
		var files []review.Path
		isSelected := func(name string) bool {
			return slices.ContainsFunc(selected, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") })
		}
		for _, name := range selected {
			files = append(files, review.Path("app/"+name))
		}
		for name, text := range before {
			if !isSelected(name) {
				want[name] = text
			}
		}
		for name, text := range after {
			if isSelected(name) {
				want[name] = text
			}
		}
		s, err := w.stage(StageRequest{Files: files})
		var refused *Error
		switch {
		case errors.As(err, &refused) && refused.Reason == NothingToCommit:
			delete(want, "kept")
			for name, text := range before {
				if want[name] != text {
					rt.Errorf("nothing was staged, and %s is %q, want %q", name, text, want[name])
				}
			}
		case errors.As(err, &refused) && refused.Reason == Conflict: // a file that is not selected is in the way
			if !inEachOthersWay(want) {
				rt.Errorf("%v", err)
			}
		case err != nil:
			rt.Fatal(err)
		default:
			got := w.checkout(s)
			for name, text := range want {
				if got[name] != text {
					rt.Errorf("%s is %q, want %q", name, got[name], text)
				}
			}
			if len(got) != len(want) {
				rt.Errorf("the commit has %v, want %v", got, want)
			}
		}
	})
}

func inEachOthersWay(files map[string]string) bool {
	for a := range files {
		for b := range files {
			if strings.HasPrefix(a, b+"/") {
				return true
			}
		}
	}
	return false
}

func TestStageRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=l1\nl2\nl3\n", "untouched=u\n")
	w.Repo("lib", "g=1\n")
	w.Git("app", nil, "branch", "moved")
	w.Git("app", nil, "checkout", "-q", "moved")
	w.Commit("app", "f=l1\nMOVED\nl3\n")
	w.Git("app", nil, "checkout", "-q", "main")
	w.Write("loose", "l\n")
	w.seed("app", "lib")
	w.edit(map[string]string{"app/f": "l1\nAGENT\nl3\n", "lib/g": "2\n", "loose": "changed\n", "app/nested/.git/config": "[core]\n"})
	before := treeOf(t, w.Dir)
	lib, none := review.Path("lib"), review.Path("none")
	for name, c := range map[string]struct {
		req    StageRequest
		reason Reason
		code   fserr.Code
		says   string
	}{
		"no message":                 {StageRequest{Message: " \n"}, "", fserr.EINVAL, "no message"},
		"a message that is binary":   {StageRequest{Message: "a\x00b"}, "", fserr.EINVAL, "not UTF-8"},
		"a long message":             {StageRequest{Message: strings.Repeat("x", 64<<10+1)}, "", fserr.EINVAL, "too long"},
		"a trailer of ctxfs":         {StageRequest{Message: "m\n\nctxfs-panel: panels/other"}, "", fserr.EINVAL, "is set by ctxfs"},
		"a trailer before a space":   {StageRequest{Message: "m\n\nSee: x\nCtxfs-Panel \t: panels/other"}, "", fserr.EINVAL, "Ctxfs-Panel is set by ctxfs"},
		"a trailer of the context":   {StageRequest{Message: "m\n\nCTXFS-Context : ctx_other"}, "", fserr.EINVAL, "is set by ctxfs"},
		"no repository named":        {StageRequest{}, "", fserr.EINVAL, "/app, /lib"},
		"an unknown repository":      {StageRequest{Repo: &none}, NoRepository, 0, "/app, /lib"},
		"two repositories":           {StageRequest{Files: []review.Path{"app/f", "lib/g"}}, "", fserr.EINVAL, "one by one"},
		"a file of another one":      {StageRequest{Repo: &lib, Files: []review.Path{"app/f"}}, "", fserr.EINVAL, "not in repository /lib"},
		"a file of none":             {StageRequest{Files: []review.Path{"loose"}}, "", fserr.EINVAL, "belongs to no repository"},
		"a file without changes":     {StageRequest{Files: []review.Path{"app/untouched"}}, NothingToCommit, 0, "no such change"},
		"a file that does not exist": {StageRequest{Files: []review.Path{"app/missing"}}, NothingToCommit, 0, "no such change"},
		"an author without address":  {StageRequest{Files: []review.Path{"app/f"}, Author: "Agent"}, "", fserr.EINVAL, "is no author"},
		"an author with a newline":   {StageRequest{Files: []review.Path{"app/f"}, Author: "A\nB <a@b>"}, "", fserr.EINVAL, "is no author"},
		"a branch that is none":      {StageRequest{Files: []review.Path{"app/f"}, Branch: "a..b"}, "", fserr.EINVAL, "name of a branch"},
		"a branch like an option":    {StageRequest{Files: []review.Path{"app/f"}, Branch: "--all"}, "", fserr.EINVAL, "name of a branch"},
		"a full ref":                 {StageRequest{Files: []review.Path{"app/f"}, Branch: "refs/tags/x"}, "", fserr.EINVAL, "name of a branch"},
		"lines that have changed":    {StageRequest{Files: []review.Path{"app/f"}, Branch: "moved"}, Conflict, 0, "moved"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.stage(c.req)
			if c.reason != "" {
				refusedAs(t, err, c.reason, c.says)
			} else {
				invalid(t, err, c.code, c.says)
			}
		})
	}
	_, err := w.stage(StageRequest{Files: []review.Path{"app/nested/.GIT/config"}})
	var barred *review.Error
	if !errors.As(err, &barred) || barred.Reason != review.BarredPath {
		t.Errorf("a file of .git is %v", err)
	}
	app := review.Path("app")
	s := w.mustStage(StageRequest{Repo: &app}) // leaves out what is barred
	if len(s.Files) != 1 || s.Files[0].Path != "app/f" {
		t.Errorf("the files are %+v", s.Files)
	}
	e := refusedAs(t, func() error {
		_, err := w.stage(StageRequest{Files: []review.Path{"app/f"}, Branch: "moved"})
		return err
	}(), Conflict, "")
	if !slices.Equal(e.Paths, []string{"app/f"}) || e.Repo != "app" || e.Operation != "stage" || e.Ref != "refs/heads/moved" {
		t.Errorf("the refusal is %+v", e)
	}
	sameTree(t, "the workspace", treeOf(t, w.Dir), before)
	w.onlyStaged(s)
}

// onlyStaged checks that the server keeps these staged commits, and nothing else.
func (w *world) onlyStaged(want ...*Staged) {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, "git"))
	must(w.t, err)
	var got, names []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	for _, s := range want {
		names = append(names, s.ID+".git")
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		w.t.Errorf("the directory of staged commits has %v, want %v", got, names)
	}
	left, err := os.ReadDir(filepath.Join(w.dir, "scratch"))
	must(w.t, err)
	if len(left) > 0 {
		w.t.Errorf("the scratch has %v", left)
	}
}

func TestStageRefusesWithoutAnIdentity(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	_, err := w.repos.Stage(t.Context(), StageRequest{Context: ctxID, Message: "m"})
	invalid(t, err, fserr.EINVAL, "user.name")
	w.Git("app", nil, "config", "user.name", "Repo")
	w.Git("app", nil, "config", "user.email", "repo@example.com")
	s, err := w.repos.Stage(t.Context(), StageRequest{Context: ctxID, Message: "m"})
	if err != nil || s.Author.String() != "Repo <repo@example.com>" {
		t.Errorf("staged %+v (%v)", s, err)
	}
}

// What the ignore files exclude is staged only if it is named, and so is what is in a directory that they exclude.
func TestStageTakesIgnoredFilesOnlyIfNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n", ".gitignore=*.log\nbuild/\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n", "app/a.log": "a\n", "app/build/out": "o\n", "app/build/deep/x": "x\n", "app/src/b.log": "b\n", "app/src/c": "c\n"})
	for name, c := range map[string]struct{ files, want []review.Path }{
		"nothing":               {nil, []review.Path{"app/f", "app/src/c"}},
		"a directory above":     {[]review.Path{"app/src"}, []review.Path{"app/src/c"}},
		"the repository":        {[]review.Path{"app"}, []review.Path{"app/f", "app/src/c"}},
		"an ignored file":       {[]review.Path{"app/a.log"}, []review.Path{"app/a.log"}},
		"an ignored directory":  {[]review.Path{"app/build"}, []review.Path{"app/build/deep/x", "app/build/out"}},
		"a file in one":         {[]review.Path{"app/build/out"}, []review.Path{"app/build/out"}},
		"a directory in one":    {[]review.Path{"app/build/deep"}, []review.Path{"app/build/deep/x"}},
		"one and another file":  {[]review.Path{"app/build/out", "app/f"}, []review.Path{"app/build/out", "app/f"}},
		"a file in a directory": {[]review.Path{"app/src/b.log"}, []review.Path{"app/src/b.log"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []review.Path
			for _, f := range w.mustStage(StageRequest{Files: c.files}).Files {
				got = append(got, f.Path)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the commit has %v, want %v", got, c.want)
			}
		})
	}
}

// What is seeded, listed and staged agrees with git: patterns that exclude everything but some names, and those of the repository itself.
func TestSeedingReviewAndStageIgnoreTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		patterns, file string
		taken          []review.Path
	}{
		"a whitelist":      {"*\n!*/\n!*.c\n", ".gitignore", []review.Path{"app/a.c", "app/d/b.c"}},
		"a negated class":  {"[!a]*\n!*/\n", ".gitignore", []review.Path{"app/a.c"}},
		"everything below": {"/d/**\n/password\n", ".gitignore", []review.Path{"app/a.c"}},
		"a mark at first":  {"\xef\xbb\xbfpassword\n", ".gitignore", []review.Path{"app/a.c", "app/d/b.c", "app/d/secret"}},
		"info/exclude":     {"password\nd/secret\n", ".git/info/exclude", []review.Path{"app/a.c", "app/d/b.c"}},
		"excludesFile":     {"password\nsecret\n", "mine", []review.Path{"app/a.c", "app/d/b.c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Repo("app", "f=1\n")
			w.Git("app", nil, "config", "core.excludesFile", w.In("app/mine"))
			w.Write("app/"+c.file, c.patterns)
			w.seed("app")
			files := map[string]string{"app/password": "p\n", "app/a.c": "a\n", "app/d/secret": "s\n", "app/d/b.c": "b\n"}
			w.edit(files)
			var listed, staged, seeded []review.Path
			l, err := w.reviews.Changes(t.Context(), review.Query{Context: ctxID, Ignored: true})
			must(t, err)
			for _, c := range l.Changes {
				if !c.Ignored {
					listed = append(listed, c.Path)
				}
			}
			must(t, l.Close())
			for _, f := range w.mustStage(StageRequest{}).Files {
				staged = append(staged, f.Path)
			}
			w.Write("app/.contextignore", c.patterns)
			for p, text := range files {
				w.Write(p, text)
			}
			root, err := rootfs.Open(w.Dir, rootfs.Options{})
			must(t, err)
			defer func() { must(t, root.Close()) }()
			scan, err := seed.Walk(t.Context(), seed.Source{Root: root, Dir: w.Dir}, seed.Options{}, nil)
			must(t, err)
			for _, e := range scan.Entries {
				if _, ours := files[e.Path]; ours {
					seeded = append(seeded, review.Path(e.Path))
				}
			}
			for what, got := range map[string][]review.Path{"listed as not ignored": listed, "staged": staged, "seeded": seeded} {
				if !slices.Equal(got, c.taken) {
					t.Errorf("%q are %s, want %q", got, what, c.taken)
				}
			}
			for p := range files {
				ignored := strings.HasPrefix(w.Git("app", nil, "status", "--porcelain", "--ignored=matching", "--untracked-files=all", "--", strings.TrimPrefix(p, "app/")), "!!")
				if taken := slices.Contains(c.taken, review.Path(p)); ignored == taken {
					t.Errorf("for git, it is %v that %q is ignored", ignored, p)
				}
			}
		})
	}
}

// A file of patterns that is too large is no reason to commit what it excludes.
func TestStageFailsIfAnIgnoreFileCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.Write("app/.gitignore", strings.Repeat("#\n", 1<<19)+"password\n")
	w.seed("app")
	w.edit(map[string]string{"app/password": "p\n", "app/f": "2\n"})
	if s, err := w.stage(StageRequest{}); fserr.CodeOf(err) != fserr.EFBIG || !strings.Contains(err.Error(), "/app/.gitignore") {
		t.Errorf("staged %+v: %v", s, err)
	}
	if l, err := w.reviews.Changes(t.Context(), review.Query{Context: ctxID}); fserr.CodeOf(err) != fserr.EFBIG {
		t.Errorf("listed %+v: %v", l, err)
	}
}

// Ignored files that are named by a folder that is ignored itself are staged, also if the folder has files of a commit.
func TestStageOfAnIgnoredFolderWithTrackedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "build/tracked=1\n", ".gitignore=build/\n")
	w.seed("app")
	w.edit(map[string]string{"app/build/tracked": "2\n", "app/build/new": "n\n"})
	for folder, want := range map[review.Path]int{"app/build": 2, "app": 1} {
		if s := w.mustStage(StageRequest{Files: []review.Path{folder}}); len(s.Files) != want {
			t.Errorf("of %s %d files were staged, want %d: %+v", folder, len(s.Files), want, s.Files)
		}
	}
}

// Files of the user that are in no commit are staged only if the context changed them, and then as a whole.
func TestStageOfUntrackedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	for _, name := range []string{"touched", "left", "removed"} {
		w.Write("app/"+name, "the user's\n")
	}
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n", "app/touched": "the user's\nand the agent's\n", "app/removed": ""})
	s := w.mustStage(StageRequest{})
	sameTree(t, "the commit", w.checkout(s), map[string]string{"f": "2\n", "touched": "the user's\nand the agent's\n"})
	if s.Files[1].Operation() != Create {
		t.Errorf("the files are %+v", s.Files)
	}
	if s.Files[1].Diff != "diff --git a/touched b/touched\nnew file mode 100644\nindex "+strings.Repeat("0", 40)+".."+s.Files[1].NewID+"\n--- /dev/null\n+++ b/touched\n@@ -0,0 +1,2 @@\n+the user's\n+and the agent's\n" {
		t.Errorf("the diff is %s", s.Files[1].Diff)
	}
}

func TestOneContextHasAHundredStagedCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	first := w.mustStage(StageRequest{})
	for range maxStaged - 1 {
		s := *first
		s.ID = newID()
		must(t, os.Mkdir(w.repos.dirOf(s.ID), 0o700))
		must(t, w.repos.update(&s))
	}
	_, err := w.stage(StageRequest{})
	refusedAs(t, err, TooLarge, "push or discard some first")
	must(t, w.discard(first))
	if s := w.mustStage(StageRequest{}); s.Branch != "ctxfs/host/change-it-2" {
		t.Errorf("the branch is %q", s.Branch)
	}
}

// TestStagedCommitsAreBoundedInBytes stages files of 8 bytes, which fit twice. The first commit always fits, and what is deleted counts nothing.
func TestStagedCommitsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n", "gone=long enough to be too much\n")
	w.seed("app")
	w.repos.stagedBytes = 1
	w.edit(map[string]string{"app/f": "1234567\n"})
	first := w.mustStage(StageRequest{})
	w.repos.stagedBytes = 16
	w.edit(map[string]string{"app/gone": ""})
	w.mustStage(StageRequest{})
	_, err := w.stage(StageRequest{})
	refusedAs(t, err, TooLarge, "would have 24 B of 16 B")
	w.open()
	w.repos.stagedBytes = 16
	_, err = w.stage(StageRequest{})
	refusedAs(t, err, TooLarge, "push or discard some first")
	must(t, w.discard(first))
	w.mustStage(StageRequest{})
}
