package seed

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/internal/long"
)

// repository makes a workspace that is a git repository, whose user has no configuration but for the files.
func repository(t *testing.T, names ...string) (*gittest.Workspace, Source) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	src := source(t, names...)
	dir, err := filepath.EvalSymlinks(src.Dir)
	must(t, err)
	src.Dir = dir
	w := &gittest.Workspace{T: t, Dir: dir}
	w.Git("", nil, "init", "-q")
	return w, src
}

// checkIgnore starts git with the configuration of the server's user.
func checkIgnore(t *testing.T, dir string) *gittest.Ignoring {
	t.Helper()
	return gittest.CheckIgnore(t, dir, "GIT_CONFIG_GLOBAL="+filepath.Join(os.Getenv("HOME"), ".gitconfig"))
}

var (
	// words are what ignore files are drawn from, and steps what paths are.
	words = []string{
		"a", "b", "c", "A", ".", "a", "b", "/", "/", "/", "*", "*", "**", "**/", "/**", "?", "!", "!", "#", "\\", " ", "\t", "\r", "-", "^", "[", "]", "[!a]", "[a-c]", "[^b]", "[[:alpha:]]",
		"[[:", ":]", "[[:upper:]b]", "[]a]", "*.c", "a/", "/a", "*/", "é", "\xff", "\x00", "\\ ", "\\/", "[a", "{a,b}", "a*b",
	}
	steps = []string{"a", "b", "c", "A", "ab", "a.c", "é", "a ", "#a", "!a", "a\r", "\xff", "[", "-", " "}
	// folders exist for each ignore file.
	folders = []string{"a/b/a", "a/ab", "A/b", "a.c/b"}
)

// drawIgnores draws the text of an ignore file.
func drawIgnores(t *rapid.T, label string) string {
	var text strings.Builder
	for range rapid.IntRange(0, 4).Draw(t, label+" lines") {
		for range rapid.IntRange(1, 5).Draw(t, label+" words") {
			text.WriteString(rapid.SampledFrom(words).Draw(t, label))
		}
		text.WriteString(rapid.SampledFrom([]string{"\n", "\n", "\r\n", " \n", ""}).Draw(t, label+" end"))
	}
	return rapid.SampledFrom([]string{"", "", "", "\xef\xbb\xbf"}).Draw(t, label+" mark") + text.String()
}

// TestIgnoresAgreeWithGit draws ignore files and paths, and compares what is ignored with git check-ignore. Each check has one
// repository with 25 pairs of ignore files, one below the other, and 10 paths for each pair.
func TestIgnoresAgreeWithGit(t *testing.T) {
	const pairs, paths = 25, 10
	checks := flag.Lookup("rapid.checks").Value
	defer func(before string) { _ = checks.Set(before) }(checks.String())
	must(t, checks.Set(strconv.Itoa(long.Of(20, 400))))
	w, src := repository(t)
	n, ignored := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		repo := fmt.Sprint("r", n)
		skeleton(t, w, repo)
		w.Write(repo+"/.git/config", fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\texcludesFile = ../x\n\tignoreCase = %v\n", rapid.Bool().Draw(rt, "ignoreCase")))
		if rapid.IntRange(0, 3).Draw(rt, "excludes") == 0 {
			w.Write(repo+"/.git/info/exclude", drawIgnores(rt, "info/exclude"))
			w.Write("x", drawIgnores(rt, "excludesFile"))
		} else {
			w.Write("x", "")
		}
		var asked []string
		for i := range pairs {
			at := fmt.Sprint("d", i)
			for _, dir := range folders {
				must(t, os.MkdirAll(w.In(path.Join(repo, at, dir)), 0o755))
			}
			w.Write(path.Join(repo, at, ".gitignore"), drawIgnores(rt, "outer"))
			w.Write(path.Join(repo, at, "a", ".gitignore"), drawIgnores(rt, "inner"))
			for range paths {
				p := at
				for range rapid.IntRange(1, 4).Draw(rt, "depth") {
					p = path.Join(p, rapid.SampledFrom(steps).Draw(rt, "step"))
				}
				asked = append(asked, p)
			}
		}
		ours, git := NewGitIgnores(context.Background(), src, nil), checkIgnore(t, w.In(repo))
		defer git.Close()
		for i, want := range git.Ignores(asked...) {
			p := path.Join(repo, asked[i])
			st, err := os.Stat(w.In(p))
			if got := ours.ReasonAnywhere(p, err == nil && st.IsDir()) != ""; got != want {
				rt.Fatalf("%q: ignored is %v, and for git %v", asked[i], got, want)
			}
			if want {
				ignored++
			}
		}
		must(t, ours.Err())
		must(t, os.RemoveAll(w.In(repo)))
	})
	t.Logf("%d repositories, %d ignore files, %d paths, %d ignored", n, 2*n*pairs, n*pairs*paths, ignored)
	if asked := n * pairs * paths; ignored < asked/20 || ignored > asked*19/20 {
		t.Errorf("of %d paths %d are ignored: that tells little", asked, ignored)
	}
}

// skeleton makes a repository without starting git.
func skeleton(t *testing.T, w *gittest.Workspace, repo string) {
	t.Helper()
	w.Write(repo+"/.git/HEAD", "ref: refs/heads/main\n")
	for _, dir := range []string{"objects", "refs"} {
		must(t, os.MkdirAll(w.In(path.Join(repo, ".git", dir)), 0o755))
	}
}

// TestWhitelistCopiesNothingElse seeds with patterns that exclude everything but some names.
func TestWhitelistCopiesNothingElse(t *testing.T) {
	src := source(t, ".contextignore=*\n!*/\n!*.c\n!.contextignore\n", ".git/HEAD", "password", "a.c", "d/secret.key", "d/b.c", "d/e/.env", "d/e/c.c")
	s, err := Walk(context.Background(), src, Options{}, nil)
	must(t, err)
	if got, want := paths(s), []string{".contextignore", "a.c", "d", "d/b.c", "d/e", "d/e/c.c"}; !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
}

// TestGitIgnoresOfARepository has what git reads beside .gitignore files. Each case is compared with git.
func TestGitIgnoresOfARepository(t *testing.T) {
	for name, c := range map[string]struct {
		// files are of the repository, home those of the server's user; config are settings of the repository.
		files, home, config []string
		ignored, kept       []string
	}{
		"info/exclude":                          {files: []string{".git/info/exclude=/d/secret\n*.key\n"}, ignored: []string{"d/secret", "d/a.key"}, kept: []string{"secret"}},
		"a .gitignore overrides info/exclude":   {files: []string{".git/info/exclude=*.key\n", "d/.gitignore=!*.key\n"}, ignored: []string{"a.key"}, kept: []string{"d/a.key"}},
		"a relative core.excludesFile":          {files: []string{"mine=secret\n"}, config: []string{"core.excludesFile", "mine"}, ignored: []string{"secret", "d/secret"}, kept: []string{"mine"}},
		"core.excludesFile in the user's home":  {home: []string{"x/mine=secret\n"}, config: []string{"core.excludesFile", "~/x/mine"}, ignored: []string{"d/secret"}, kept: []string{"d/x"}},
		"info/exclude overrides excludesFile":   {files: []string{"mine=*.key\n", ".git/info/exclude=!a.key\n"}, config: []string{"core.excludesFile", "mine"}, ignored: []string{"b.key"}, kept: []string{"a.key"}},
		"the user's core.excludesFile":          {home: []string{".gitconfig=[core]\nexcludesFile = ~/mine\n", "mine=secret\n"}, ignored: []string{"secret"}, kept: []string{"x"}},
		"the user's configuration includes one": {home: []string{".gitconfig=[include]\npath = more\n", "more=[core]\nexcludesFile = ~/mine\n", "mine=secret\n"}, ignored: []string{"secret"}, kept: []string{"x"}},
		"the repository's goes before":          {files: []string{"its=x\n"}, home: []string{".gitconfig=[core]\nexcludesFile = ~/mine\n", "mine=secret\n"}, config: []string{"core.excludesFile", "its"}, ignored: []string{"x"}, kept: []string{"secret"}},
		"the default file":                      {home: []string{".config/git/ignore=secret\n"}, ignored: []string{"secret"}, kept: []string{"x"}},
		"an empty core.excludesFile":            {home: []string{".config/git/ignore=secret\n"}, config: []string{"core.excludesFile", ""}, kept: []string{"secret"}},
		"no file at all":                        {home: []string{".config/git/ignore=secret\n"}, config: []string{"core.excludesFile", os.DevNull}, kept: []string{"secret"}},
		"a file that does not exist":            {config: []string{"core.excludesFile", "/none/at/all"}, kept: []string{"secret"}},
		"letters of both cases":                 {files: []string{".gitignore=SECRET\n[a-c]1\n"}, config: []string{"core.ignoreCase", "yes"}, ignored: []string{"Secret", "B1"}, kept: []string{"x"}},
		"letters of one case":                   {files: []string{".gitignore=SECRET\n"}, config: []string{"core.ignoreCase", "no"}, ignored: []string{"SECRET"}, kept: []string{"Secret"}},
		"a link instead of a .gitignore":        {files: []string{"real=secret\n", ".gitignore-> real"}, kept: []string{"secret"}},
		"a folder instead of a .gitignore":      {files: []string{".gitignore/x"}, kept: []string{"secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, src := repository(t)
			for _, f := range append(c.files, "d/") {
				if link, target, ok := strings.Cut(f, "-> "); ok {
					must(t, os.Symlink(target, w.In(link)))
				} else {
					file, text, _ := strings.Cut(f, "=")
					w.Write(file+map[bool]string{true: "x"}[strings.HasSuffix(file, "/")], text)
				}
			}
			home := gittest.Workspace{T: t, Dir: os.Getenv("HOME")}
			for _, f := range c.home {
				file, text, _ := strings.Cut(f, "=")
				home.Write(file, text)
			}
			if len(c.config) > 0 {
				w.Git("", nil, append([]string{"config"}, c.config...)...)
			}
			g, git := NewGitIgnores(context.Background(), src, nil), checkIgnore(t, w.Dir)
			defer git.Close()
			asked := append(slices.Clone(c.ignored), c.kept...)
			for i, byGit := range git.Ignores(asked...) {
				want := i < len(c.ignored)
				if got := g.ReasonAnywhere(asked[i], false) != ""; got != want || byGit != want {
					t.Errorf("%q: ignored is %v, for git %v, want %v", asked[i], got, byGit, want)
				}
			}
			must(t, g.Err())
		})
	}
}

// TestIgnoresOfSeveralRepositories has a repository within another, one in a folder, and a linked worktree.
func TestIgnoresOfSeveralRepositories(t *testing.T) {
	_, src := repository(t)
	w := &gittest.Workspace{T: t, Dir: src.Dir}
	must(t, os.RemoveAll(w.In(".git")))
	w.Repo("outer", "f=1\n", ".gitignore=*.log\n/inner/\nvendor/\n")
	w.Repo("outer/inner", "f=1\n", ".gitignore=*.tmp\n")
	w.Write("outer/.git/info/exclude", "*.own\n")
	w.Git("outer", nil, "worktree", "add", "-q", "--detach", w.In("linked"))
	w.Write(".gitignore", "*.c\nfolder/\n")
	w.Write(".contextignore", "*.key\n")
	w.Write("outer/.contextignore", "!b.key\n")
	w.Write("folder/x", "")
	w.Repo("folder/repo", "f=1\n")
	g := NewGitIgnores(context.Background(), src, nil)
	for name, want := range map[string]string{
		"outer/a.log": ".gitignore", "outer/a.c": "", "outer/a.tmp": "", "outer/vendor/x": ".gitignore", "outer/a.own": ".gitignore",
		"outer/inner/a.log": "", "outer/inner/a.tmp": ".gitignore", "outer/inner/a.own": "", "outer/inner/vendor/x": "",
		"linked/a.log": ".gitignore", "linked/a.own": ".gitignore", "linked/a.c": "",
		"a.c": ".gitignore", "folder/x": ".gitignore", "folder/repo/a.c": "", "folder/repo/x": "",
		"a.key": ".contextignore", "outer/a.key": ".contextignore", "outer/b.key": "", "outer/inner/a.key": ".contextignore", "folder/repo/a.key": ".contextignore", "b.key": ".contextignore",
		"outer/inner/b.key": "",
	} {
		if got := g.ReasonAnywhere(name, false); got != want {
			t.Errorf("%q is left out by %q, want %q", name, got, want)
		}
	}
	w.Write(".contextignore", "*\n")
	if got := NewGitIgnores(context.Background(), src, nil).ReasonAnywhere("", true); got != "" {
		t.Errorf("the workspace is left out by %q", got)
	}
	if got := g.Reason("outer/inner", true); got != "" {
		t.Errorf("a repository is left out by %q of the one around it", got)
	}
	must(t, g.Err())
}

// TestUnreadableIgnoreFiles has ignore files that cannot be read as a whole. Nothing is copied, and nothing counts as not ignored.
func TestUnreadableIgnoreFiles(t *testing.T) {
	large := strings.Repeat("#\n", maxIgnoreFile/2) + "secret\n"
	for name, c := range map[string]struct {
		prepare func(w *gittest.Workspace)
		seeding bool
		want    fserr.Code
	}{
		"a large .contextignore":     {func(w *gittest.Workspace) { w.Write("d/.contextignore", large) }, true, fserr.EFBIG},
		"a link .contextignore":      {func(w *gittest.Workspace) { w.Must(os.Symlink("real", w.In("d/.contextignore"))) }, true, fserr.ELOOP},
		"a large .gitignore":         {func(w *gittest.Workspace) { w.Write("d/.gitignore", large) }, false, fserr.EFBIG},
		"a large info/exclude":       {func(w *gittest.Workspace) { w.Write(".git/info/exclude", large) }, false, fserr.EFBIG},
		"a damaged configuration":    {func(w *gittest.Workspace) { w.Write(".git/config", "[core\n") }, false, fserr.EIO},
		"a home that does not exist": {func(w *gittest.Workspace) { w.Git("", nil, "config", "core.excludesFile", "~no-such-user/x") }, false, fserr.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			w, src := repository(t, "d/secret", "real=secret\n")
			c.prepare(w)
			g := NewGitIgnores(context.Background(), src, nil)
			if reason := g.ReasonAnywhere("d/secret", false); reason == "" || fserr.CodeOf(g.Err()) != c.want {
				t.Errorf("d/secret is left out by %q: %v, want %v", reason, g.Err(), c.want)
			}
			s, err := Walk(context.Background(), src, Options{}, nil)
			if code := fserr.CodeOf(err); c.seeding && code != c.want || !c.seeding && code != 0 {
				t.Errorf("seeded %v: %v", s, err)
			}
			_, err = Walk(context.Background(), src, Options{Scope: Scope{From: []string{"d"}}}, nil)
			if code := fserr.CodeOf(err); c.seeding && code != c.want {
				t.Errorf("a scope was seeded: %v", err)
			}
		})
	}
}

// TestIgnoresRunNothing reads a repository whose configuration names programs, and a device and a FIFO as files of excludes.
func TestIgnoresRunNothing(t *testing.T) {
	w, src := repository(t)
	sprung, program := filepath.Join(t.TempDir(), "sprung"), w.In("program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+sprung+"'\n"), 0o755))
	for _, key := range []string{"core.fsmonitor", "core.pager", "pager.config", "core.sshCommand", "core.editor", "alias.config"} {
		w.Git("", nil, "config", key, program)
	}
	w.Git("", nil, "config", "core.hooksPath", src.Dir)
	for _, file := range []string{"/dev/zero", src.Dir} {
		w.Git("", nil, "config", "core.excludesFile", file)
		g := NewGitIgnores(context.Background(), src, nil)
		if reason := g.ReasonAnywhere("x", false); reason != "" || g.Err() != nil {
			t.Errorf("with %s x is left out by %q: %v", file, reason, g.Err())
		}
	}
	if _, err := os.Stat(sprung); err == nil {
		t.Error("a program of the repository ran")
	}
}
