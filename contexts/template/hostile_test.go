package template

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/fserr"
)

// trap is a repository that tries by every means to run a program, which would
// leave a file.
type trap struct {
	*workspace
	sprung, program string
}

func newTrap(t *testing.T) *trap {
	w := newWorkspace(t)
	tr := &trap{workspace: w, sprung: filepath.Join(w.state, "sprung"), program: filepath.Join(w.state, "program")}
	must(t, os.WriteFile(tr.program, []byte("#!/bin/sh\ntouch '"+tr.sprung+"'\n"), 0o755))
	w.repo("r")
	attributes := "* filter=evil diff=evil merge=evil export-subst ident text eol=crlf working-tree-encoding=UTF-16\n"
	modules := "[submodule \"x\"]\n\tpath = x\n\turl = ext::" + tr.program + "\n\tupdate = !" + tr.program + "\n"
	w.commitTree(w.tree(
		entry{"100644", ".gitattributes", w.blob(attributes)}, entry{"100644", ".gitmodules", w.blob(modules)},
		entry{"100644", "f", w.blob("1")}, entry{"40000", "sub", w.tree(entry{"100644", "g", w.blob("$Format:%H$ $Id$\r\n")})},
		entry{"160000", "x", strings.Repeat("1", 40)},
	))
	tr.arm("r/.git")
	return tr
}

// arm writes configuration, attributes and hooks that name the program.
func (tr *trap) arm(gitDir string) {
	p := tr.program
	config := "\n[core]\n\tfsmonitor = " + p + "\n\thooksPath = " + tr.in(gitDir) + "/hooks\n\tsshCommand = " + p + "\n\tpager = " + p +
		"\n\teditor = " + p + "\n\taskPass = " + p + "\n\tgitProxy = " + p + "\n\talternateRefsCommand = " + p + "\n\tattributesFile = " + tr.in(gitDir) + "/info/attributes" +
		"\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\turl = ext::" + p + "\n\tpromisor = true\n\tuploadpack = " + p +
		"\n[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n[alias]\n\tcat-file = !" + p + "\n\tst = !" + p +
		"\n[filter \"evil\"]\n\tsmudge = " + p + "\n\tclean = " + p + "\n\tprocess = " + p + "\n\trequired = true\n[diff \"evil\"]\n\ttextconv = " + p + "\n\tcommand = " + p +
		"\n[uploadpack]\n\tpackObjectsHook = " + p + "\n[credential]\n\thelper = !" + p + "\n[url \"ext::" + p + " \"]\n\tinsteadOf = https://" +
		"\n[submodule \"x\"]\n\turl = ext::" + p + "\n\tupdate = !" + p + "\n\tactive = true\n"
	f, err := os.OpenFile(tr.in(gitDir+"/config"), os.O_APPEND|os.O_WRONLY, 0)
	must(tr.t, err)
	_, err = f.WriteString(config)
	must(tr.t, errors.Join(err, f.Close()))
	tr.write(gitDir+"/info/attributes", "* filter=evil diff=evil\n")
	for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-update", "fsmonitor-watchman"} {
		must(tr.t, os.WriteFile(tr.in(gitDir+"/hooks/"+hook), []byte("#!/bin/sh\nexec "+p+" </dev/null\n"), 0o755))
	}
}

// wasSprung reports whether the program ran, and forgets it.
func (tr *trap) wasSprung() bool {
	err := os.Remove(tr.sprung)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tr.t.Fatal(err)
	}
	return err == nil
}

// careless runs git in the repository as it comes.
func (tr *trap) careless(args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", tr.in("r")}, args...)...)
	_ = cmd.Run() // whether it succeeds does not matter
}

func TestHostileRepositoryRunsNothing(t *testing.T) {
	tr := newTrap(t)
	blob := tr.gitIn("r", nil, "-c", "core.fsmonitor=false", "rev-parse", "HEAD:f")
	tr.wasSprung()
	for _, args := range [][]string{{"status"}, {"st"}, {"checkout", "HEAD", "--", "f"}} {
		if tr.careless(args...); !tr.wasSprung() {
			t.Errorf("the trap is not armed: git %v runs nothing", args)
		}
	}
	tr.template("t", "deps: {/r: {repo: r, ref: main}}")
	b, err := tr.build("t")
	must(t, err)
	got := files(t, b.Tree)
	if got["r/f"] != "-rw-r--r-- 1" || got["r/sub/g"] != "-rw-r--r-- $Format:%H$ $Id$\r\n" {
		t.Errorf("the files are not as they are stored: %q", got)
	}
	if tr.wasSprung() {
		t.Fatal("a build ran the repository's program")
	}
	tr.missingObject(blob)
}

// missingObject takes a file's object away: git would fetch it from the remote that the configuration names.
func (tr *trap) missingObject(blob string) {
	t := tr.t
	must(t, os.Remove(tr.in("r/.git/objects/"+blob[:2]+"/"+blob[2:])))
	if tr.careless("-c", "core.fsmonitor=false", "cat-file", "-p", blob); !tr.wasSprung() {
		t.Error("the trap is not armed: a missing object is not fetched")
	}
	tr.commit2()
	_, err := tr.build("t")
	tr.refusedAs(err, fserr.EIO, "missing or damaged", "partial clone", `repository "r"`)
	tr.template("t", "deps: {/r: {repo: r, ref: '"+blob+"'}}")
	_, err = tr.resolve("t")
	tr.refusedAs(err, fserr.ENOENT)
	if tr.wasSprung() {
		t.Error("a missing object was fetched")
	}
	if left := tr.staged(); len(left) != 0 {
		t.Errorf("staging holds %v", left)
	}
}

// commit2 makes another commit of the same tree, so that it is built anew.
func (tr *trap) commit2() {
	c := tr.gitIn("r", nil, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "commit-tree", "-m", "2", "HEAD^{tree}")
	tr.write("r/.git/refs/heads/main", c+"\n")
	tr.wasSprung()
}

func TestConfigurationIsNotRead(t *testing.T) {
	w := newWorkspace(t)
	w.repo("r", "f=1")
	w.write("r/.git/config", "[core\n\tnonsense = [[[\n")
	w.template("t", "deps: {/r: {repo: r, ref: main}}")
	if _, err := w.build("t"); err != nil {
		t.Errorf("a damaged configuration is in the way: %v", err)
	}
}

func TestWorkspaceThatIsARepository(t *testing.T) {
	w := newWorkspace(t)
	w.repo("", "f=1")
	w.template("t", "deps: {/: {repo: .}}")
	b, err := w.build("t")
	must(t, err)
	if got := files(t, b.Tree); len(got) != 1 || got["f"] != "-rw-r--r-- 1" {
		t.Errorf("got %v", got)
	}
}

func TestReplacedObjectsAreNotRead(t *testing.T) {
	w := newWorkspace(t)
	w.repo("r", "f=true")
	real := w.gitIn("r", nil, "rev-parse", "HEAD:f")
	other := w.gitIn("r", []byte("replaced"), "hash-object", "-w", "--stdin")
	w.gitIn("r", nil, "replace", real, other)
	w.template("t", "deps: {/r: {repo: r}}")
	b, err := w.build("t")
	must(t, err)
	if got := files(t, b.Tree)["r/f"]; got != "-rw-r--r-- true" {
		t.Errorf("got %q", got)
	}
}

func TestOperatorsEnvironmentHasNoSay(t *testing.T) {
	w := newWorkspace(t)
	w.repo("r", "f=1")
	w.template("t", "deps: {/r: {repo: r}}")
	trace := filepath.Join(w.state, "trace")
	r := w.mustResolve("t")
	for name, value := range map[string]string{
		"GIT_DIR": "/nowhere", "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_TRACE": trace, "GIT_CONFIG_PARAMETERS": "nonsense",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.abbrev", "GIT_CONFIG_VALUE_0": "nonsense", "GIT_EXEC_PATH": "/nowhere",
		"GIT_NAMESPACE": "x", "GIT_INDEX_FILE": "/nowhere/i", "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	if _, err := w.builder().Build(context.Background(), r, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("git wrote a trace")
	}
}

// entry is one line of a tree object.
type entry struct{ mode, name, id string }

// tree writes a tree object as no git would, and returns its ID.
func (w *workspace) tree(entries ...entry) string {
	w.t.Helper()
	var raw []byte
	for _, e := range entries {
		id, err := hex.DecodeString(e.id)
		must(w.t, err)
		raw = append(append(raw, e.mode+" "+e.name+"\x00"...), id...)
	}
	return w.gitIn("r", raw, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
}

func (w *workspace) blob(content string) string {
	return w.gitIn("r", []byte(content), "hash-object", "-w", "--stdin")
}

// commitTree makes a tree the branch main.
func (w *workspace) commitTree(tree string) {
	w.t.Helper()
	w.gitIn("r", nil, "update-ref", "refs/heads/main", w.gitIn("r", nil, "commit-tree", "-m", "t", tree))
}

func TestHostileTrees(t *testing.T) {
	w := newWorkspace(t)
	w.repo("r")
	w.template("t", "deps: {/r: {repo: r, ref: main}}")
	f := w.blob("content")
	outside := w.blob(w.state)
	hook := w.tree(entry{"40000", "hooks", w.tree(entry{"100755", "post-checkout", f})})
	dir := w.tree(entry{"100644", "planted", f})
	deep := dir
	for range maxTreeDepth + 1 {
		deep = w.tree(entry{"40000", "d", deep})
	}
	for _, c := range []struct {
		name string
		tree []entry
		says string
	}{
		{".git", []entry{{"40000", ".git", hook}}, `"/.git" is refused`},
		{".GIT below", []entry{{"40000", "a", w.tree(entry{"40000", ".GiT", hook})}}, `"a/.GiT" is refused`},
		{"short name of .git", []entry{{"40000", "GIT~1", hook}}, "git keeps its own data"},
		{".git with dots", []entry{{"40000", ".git. .", hook}}, "git keeps its own data"},
		{".git as a stream", []entry{{"40000", ".git::$INDEX_ALLOCATION", hook}}, "git keeps its own data"},
		{".git with what HFS ignores", []entry{{"40000", ".g\u200dit", hook}}, "git keeps its own data"},
		{".git as a file", []entry{{"100644", ".git", f}}, "git keeps its own data"},
		{"parent", []entry{{"40000", "..", dir}}, "it is no name"},
		{"itself", []entry{{"40000", ".", dir}}, "it is no name"},
		{"path", []entry{{"100644", "../../../planted", f}}, "it is no name"},
		{"absolute", []entry{{"100644", "/etc/planted", f}}, "it is no name"},
		{"empty", []entry{{"100644", "", f}}, "it is no name"},
		{"link, then a file through it", []entry{{"120000", "a", outside}, {"40000", "a", dir}}, `"a" is refused: it is there twice`},
		{"the other way about", []entry{{"40000", "a", dir}, {"120000", "a", outside}}, `"a" is refused`},
		{"our temporary files", []entry{{"100644", ".ctxfs-tmp-1", f}}, "ctxfs keeps its own data"},
		{"setuid", []entry{{"104755", "su", f}}, "mode 104755 is none that git gives"},
		{"device", []entry{{"20666", "dev", f}}, "mode 20666"},
		{"FIFO", []entry{{"10644", "fifo", f}}, "mode 10644"},
		{"all permissions", []entry{{"100777", "f", f}}, "mode 100777"},
		{"long name", []entry{{"100644", strings.Repeat("n", 256), f}}, "at most 255 bytes"},
		{"link to nothing", []entry{{"120000", "l", w.blob("")}}, "link of no"},
		{"link with NUL", []entry{{"120000", "l", w.blob("a\x00b")}}, "NUL"},
		{"long link", []entry{{"120000", "l", w.blob(strings.Repeat("l", 4096))}}, "too long"},
		{"deep", []entry{{"40000", "d", deep}}, "levels deep"},
		{"file for a directory", []entry{{"40000", "d", f}}, "missing or damaged"},
		{"directory for a file", []entry{{"100644", "d", dir}}, "missing or damaged"},
		{"damaged", []entry{{"nonsense", "d", dir}}, "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := files(t, w.state)
			w.commitTree(w.tree(c.tree...))
			_, err := w.build("t")
			w.refusedAs(err, fserr.CodeOf(err), c.says, `dep /r, repository "r"`)
			after := files(t, w.state)
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
	w := newWorkspace(t)
	commit := w.repo("r")
	f := w.blob("content")
	w.commitTree(w.tree(
		entry{"100644", "file", f}, entry{"100664", "old", f}, entry{"100755", "run", f}, entry{"120000", "up", w.blob("../../x")},
		entry{"120000", "link", w.blob("file")}, entry{"160000", "module", commit}, entry{"40000", "dir", w.tree(entry{"100644", ".gitignore", f})},
		entry{"100644", "b\xff\n", f}, entry{"40000", "empty", w.tree()},
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
	w := newWorkspace(t)
	w.repo("r")
	files, dirs := w.tree(entry{"100644", "f", w.blob("boom")}), w.tree()
	for range 12 {
		var more, moreDirs []entry
		for i := range 10 {
			more = append(more, entry{"40000", fmt.Sprint("d", i), files})
			moreDirs = append(moreDirs, entry{"40000", fmt.Sprint("d", i), dirs})
		}
		files, dirs = w.tree(more...), w.tree(moreDirs...)
	}
	w.template("t", "deps: {/r: {repo: r, ref: main}}")
	for name, tree := range map[string]string{"files": files, "directories": dirs, "bytes": w.tree(entry{"100644", "f", w.blob(strings.Repeat("x", 2000))})} {
		t.Run(name, func(t *testing.T) {
			w.commitTree(tree)
			b := w.builder()
			b.opts.MaxFiles, b.opts.MaxBytes = 200, 1999
			_, err := b.Build(context.Background(), w.mustResolve("t"), nil)
			w.refusedAs(err, fserr.EFBIG, "more than 200 files")
			if left := w.staged(); len(left) != 0 {
				t.Errorf("staging holds %v", left)
			}
		})
	}
}
