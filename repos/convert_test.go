package repos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/review"
)

// What the panel sees is in the form of the working tree; the commit has git's form.
func TestStageConvertsAsGitAddDoes(t *testing.T) {
	t.Parallel()
	const utf16 = "\xff\xfea\x00\n\x00b\x00\n\x00"
	for name, c := range map[string]struct {
		attributes string
		config     []string
		// committed is in git; seeded is in the working tree and the layer, edited in the context; want is what the commit has.
		committed, seeded, edited, want string
		added, removed                  int
	}{
		"no attributes":                    {"", nil, "a\nb\n", "a\nb\n", "a\r\nB\n", "a\r\nB\n", 2, 2},
		"eol=crlf":                         {"f text eol=crlf", nil, "a\nb\n", "a\r\nb\r\n", "a\r\nB\r\n", "a\nB\n", 1, 1},
		"text, with a mixture":             {"f text", nil, "a\nb\n", "a\nb\n", "a\r\nB\n", "a\nB\n", 1, 1},
		"text=auto of a binary":            {"* text=auto", nil, "a\x00\n", "a\x00\n", "a\x00\r\n", "a\x00\r\n", 0, 0},
		"-text":                            {"f -text", []string{"core.autocrlf=true"}, "a\nb\n", "a\nb\n", "a\r\nb\r\n", "a\r\nb\r\n", 2, 2},
		"autocrlf":                         {"", []string{"core.autocrlf=true"}, "a\nb\n", "a\r\nb\r\n", "a\r\nB\r\n", "a\nB\n", 1, 1},
		"autocrlf, CRLF in the repository": {"", []string{"core.autocrlf=true"}, "a\r\nb\r\n", "a\r\nb\r\n", "a\r\nB\r\n", "a\r\nB\r\n", 1, 1},
		"autocrlf=input":                   {"", []string{"core.autocrlf=input"}, "a\nb\n", "a\nb\n", "a\r\nB\r\n", "a\nB\n", 1, 1},
		"ident":                            {"f ident", nil, "$Id$\nb\n", "$Id: 0123456789012345678901234567890123456789 $\nb\n", "$Id: 0123456789012345678901234567890123456789 $\nB\n", "$Id$\nB\n", 1, 1},
		"working-tree-encoding":            {"f text working-tree-encoding=UTF-16", nil, "a\nb\n", utf16, strings.Replace(utf16, "b", "B", 1), "a\nB\n", 1, 1},
		"a filter for other files":         {"*.bin filter=lfs", nil, "a\nb\n", "a\nb\n", "a\nB\n", "a\nB\n", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Repo("app")
			w.Write("app/.gitattributes", c.attributes+"\n")
			w.Git("app", nil, "add", ".gitattributes")
			blob := w.Git("app", []byte(c.committed), "hash-object", "-w", "--stdin", "--no-filters")
			w.Git("app", nil, "update-index", "--add", "--cacheinfo", "100644,"+blob+",f")
			w.Git("app", nil, "commit", "-qm", "c")
			for _, setting := range c.config {
				key, value, _ := strings.Cut(setting, "=")
				w.Git("app", nil, "config", key, value)
			}
			w.Write("app/f", c.seeded)
			w.seed("app")
			w.edit(map[string]string{"app/f": c.edited})
			s := w.mustStage(StageRequest{})
			if got := w.checkout(s)["f"]; got != c.want {
				t.Errorf("the commit has %q, want %q", got, c.want)
			}
			if len(s.Files) != 1 || s.Files[0].Added != c.added || s.Files[0].Removed != c.removed {
				t.Errorf("the files are %+v, want +%d -%d", s.Files, c.added, c.removed)
			}
			w.onlyStaged(s)
		})
	}
}

// A change that the conversion undoes is none.
func TestStageOfLineEndsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", ".gitattributes=* text=auto\n", "f=a\nb\n", "dir/f=a\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "a\r\nb\r\n"})
	_, err := w.stage(StageRequest{})
	refusedAs(t, err, NothingToCommit, "has these changes already")
	// The attributes that the context has changed do not count for its other files.
	w.edit(map[string]string{"app/.gitattributes": "* -text\r\n", "app/dir": "a file\r\n", "app/new/.gitattributes": "* -text\n", "app/new/f": "x\r\n"})
	s := w.mustStage(StageRequest{})
	sameTree(t, "the commit", w.checkout(s), map[string]string{
		".gitattributes": "* -text\r\n", "f": "a\nb\n", "dir": "a file\n", "new/.gitattributes": "* -text\n", "new/f": "x\n",
	})
}

func TestStageReadsInfoAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=a\n")
	w.Write("app/.git/info/attributes", "f text\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "B\r\n"})
	if got := w.checkout(w.mustStage(StageRequest{}))["f"]; got != "B\n" {
		t.Errorf("the commit has %q", got)
	}
	w.Write("app/.git/info/attributes", "f filter=crypt\n")
	_, err := w.stage(StageRequest{})
	refusedAs(t, err, NeedsFilter, "filter program")
}

func TestStageRefusesABadEncoding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", ".gitattributes=new working-tree-encoding=UTF-16\n")
	w.seed("app")
	w.edit(map[string]string{"app/new": "not UTF-16 at all"})
	_, err := w.stage(StageRequest{})
	invalid(t, err, fserr.EINVAL, "attributes")
	w.onlyStaged()
}

// pointer is what Git LFS commits in place of a content.
func pointer(content string) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sum(content), len(content))
}

func TestStageOfFilesWithFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", ".gitattributes=*.bin filter=lfs diff=lfs -text\n*.key filter=crypt\n")
	for _, name := range []string{"a.bin", "b.bin", "mode.bin", "plain.bin"} {
		w.Write("app/"+name, pointer(name))
	}
	w.Write("app/x.key", "encrypted")
	w.Commit("app")
	for _, name := range []string{"a.bin", "b.bin", "mode.bin"} { // plain.bin stays a pointer in the working tree
		w.Write("app/"+name, name)
	}
	w.Write("app/x.key", "secret")
	w.seed("app")
	refuse := func(p, text string) {
		t.Helper()
		w.edit(map[string]string{p: text})
		e := refusedAs(t, func() error { _, err := w.stage(StageRequest{Files: []review.Path{review.Path(p)}}); return err }(), NeedsFilter, "Git LFS")
		if len(e.Paths) != 1 || e.Paths[0] != p {
			t.Errorf("%s: the paths are %q", p, e.Paths)
		}
	}
	refuse("app/a.bin", "another content")
	refuse("app/new.bin", "new content")
	refuse("app/x.key", "")
	refuse("app/x.key", "another secret")
	refuse("app/new.key", pointer("x"))
	w.edit(map[string]string{
		"app/a.bin": pointer("another content"), "app/b.bin": "", "app/mode.bin": "+x mode.bin", "app/plain.bin": pointer("p"), "app/new.bin": pointer("n"), "app/x.key": "+x secret",
	})
	s := w.mustStage(StageRequest{Files: []review.Path{"app/a.bin", "app/b.bin", "app/mode.bin", "app/plain.bin", "app/new.bin", "app/x.key"}})
	got := w.checkout(s)
	delete(got, ".gitattributes")
	sameTree(t, "the commit", got, map[string]string{
		"a.bin": pointer("another content"), "mode.bin": "+x " + pointer("mode.bin"), "plain.bin": pointer("p"), "new.bin": pointer("n"), "x.key": "+x encrypted",
	})
	for _, f := range s.Files {
		if f.Path == "app/mode.bin" && (f.NewMode != git.ModeExecutable || f.OldID != f.NewID) {
			t.Errorf("the change of mode is %+v", f)
		}
	}
	w.onlyStaged(s)
}
