package template

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git/gittest"
)

// TestHostileRepositoryRunsNothing builds from a repository that tries by every means to run a program.
func TestHostileRepositoryRunsNothing(t *testing.T) {
	t.Parallel()
	tr := gittest.NewTrap(t)
	w := over(tr.Workspace)
	w.template("t", "deps: {/r: {repo: r, ref: main}}")
	b, err := w.build("t")
	must(t, err)
	got := files(t, b.Tree)
	if got["r/f"] != "-rw-r--r-- 1" || got["r/sub/g"] != "-rw-r--r-- $Format:%H$ $Id$\r\n" {
		t.Errorf("the files are not as they are stored: %q", got)
	}
	tr.LoseBlob()
	tr.WasSprung()
	_, err = w.build("t")
	w.RefusedAs(err, fserr.EIO, "missing or damaged", "partial clone", `repository "r"`)
	if tr.WasSprung() {
		t.Fatal("a build ran the repository's program")
	}
	if left := w.staged(); len(left) != 0 {
		t.Errorf("staging holds %v", left)
	}
}

func TestWorkspaceThatIsARepository(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("", "f=1")
	w.template("t", "deps: {/: {repo: .}}")
	b, err := w.build("t")
	must(t, err)
	if got := files(t, b.Tree); len(got) != 1 || got["f"] != "-rw-r--r-- 1" {
		t.Errorf("got %v", got)
	}
}

func TestHostileTrees(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r")
	w.template("t", "deps: {/r: {repo: r, ref: main}}")
	f := w.Blob("content")
	outside := w.Blob(w.State)
	hook := w.Tree(gittest.Entry{"40000", "hooks", w.Tree(gittest.Entry{"100755", "post-checkout", f})})
	dir := w.Tree(gittest.Entry{"100644", "planted", f})
	deep := dir
	for range maxTreeDepth + 1 {
		deep = w.Tree(gittest.Entry{"40000", "d", deep})
	}
	for _, c := range []struct {
		name string
		tree []gittest.Entry
		says string
	}{
		{".git", []gittest.Entry{{"40000", ".git", hook}}, `"/.git" is refused`},
		{"parent", []gittest.Entry{{"40000", "..", dir}}, "it is no name"},
		{"path", []gittest.Entry{{"100644", "../../../planted", f}}, "it is no name"},
		{"link, then a file through it", []gittest.Entry{{"120000", "a", outside}, {"40000", "a", dir}}, `"a" is refused: it is there twice`},
		{"our temporary files", []gittest.Entry{{"100644", ".ctxfs-tmp-1", f}}, "ctxfs keeps its own data"},
		{"setuid", []gittest.Entry{{"104755", "su", f}}, "mode 104755 is none that git gives"},
		{"device", []gittest.Entry{{"20666", "dev", f}}, "mode 20666"},
		{"FIFO", []gittest.Entry{{"10644", "fifo", f}}, "mode 10644"},
		{"all permissions", []gittest.Entry{{"100777", "f", f}}, "mode 100777"},
		{"long name", []gittest.Entry{{"100644", strings.Repeat("n", 256), f}}, "at most 255 bytes"},
		{"link to nothing", []gittest.Entry{{"120000", "l", w.Blob("")}}, "link of no"},
		{"link with NUL", []gittest.Entry{{"120000", "l", w.Blob("a\x00b")}}, "NUL"},
		{"long link", []gittest.Entry{{"120000", "l", w.Blob(strings.Repeat("l", 4096))}}, "too long"},
		{"deep", []gittest.Entry{{"40000", "d", deep}}, "levels deep"},
		{"directory for a file", []gittest.Entry{{"100644", "d", dir}}, "missing or damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := files(t, w.State)
			w.CommitTree(w.Tree(c.tree...))
			_, err := w.build("t")
			w.RefusedAs(err, fserr.CodeOf(err), c.says, `dep /r, repository "r"`)
			after := files(t, w.State)
			for p := range after { // a lock stays
				if strings.HasPrefix(p, "locks/") {
					delete(after, p)
				}
			}
			for p := range before {
				if strings.HasPrefix(p, "locks/") {
					delete(before, p)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	commit := w.Repo("r")
	f := w.Blob("content")
	w.CommitTree(w.Tree(
		gittest.Entry{"100644", "file", f}, gittest.Entry{"100664", "old", f}, gittest.Entry{"100755", "run", f}, gittest.Entry{"120000", "up", w.Blob("../../x")},
		gittest.Entry{"120000", "link", w.Blob("file")}, gittest.Entry{"160000", "module", commit}, gittest.Entry{"40000", "dir", w.Tree(gittest.Entry{"100644", ".gitignore", f})},
		gittest.Entry{"100644", "b\xff\n", f}, gittest.Entry{"40000", "empty", w.Tree()},
	))
	w.template("t", "deps: {/: {repo: r, ref: main}}")
	b, err := w.build("t")
	must(t, err)
	want := map[string]string{
		"file": "-rw-r--r-- content", "old": "-rw-r--r-- content", "run": "-rwxr-xr-x content", "up": "-> ../../x", "link": "-> file",
		"module": "d", "dir": "d", "dir/.gitignore": "-rw-r--r-- content", "b\xff\n": "-rw-r--r-- content", "empty": "d",
	}
	if diff := cmp.Diff(want, files(t, b.Tree)); diff != "" {
		t.Error(diff)
	}
	if b.Files != 7 {
		t.Errorf("%d files, want 7", b.Files)
	}
}

func TestBombIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r")
	files, dirs := w.Tree(gittest.Entry{"100644", "f", w.Blob("boom")}), w.Tree()
	for range 12 {
		var more, moreDirs []gittest.Entry
		for i := range 10 {
			more = append(more, gittest.Entry{"40000", fmt.Sprint("d", i), files})
			moreDirs = append(moreDirs, gittest.Entry{"40000", fmt.Sprint("d", i), dirs})
		}
		files, dirs = w.Tree(more...), w.Tree(moreDirs...)
	}
	w.template("t", "deps: {/r: {repo: r, ref: main}}")
	for name, tree := range map[string]string{"files": files, "directories": dirs, "bytes": w.Tree(gittest.Entry{"100644", "f", w.Blob(strings.Repeat("x", 2000))})} {
		t.Run(name, func(t *testing.T) {
			w.CommitTree(tree)
			b := w.builder()
			b.opts.MaxFiles, b.opts.MaxBytes = 200, 1999
			_, err := b.Build(context.Background(), w.mustResolve("t"), nil)
			w.RefusedAs(err, fserr.EFBIG, "more than 200 files")
			if left := w.staged(); len(left) != 0 {
				t.Errorf("staging holds %v", left)
			}
		})
	}
}
