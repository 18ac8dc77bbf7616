package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git/gittest"
)

func TestHostileRepositoryRunsNothing(t *testing.T) {
	tr := gittest.NewTrap(t)
	w := over(tr.Workspace)
	_, files := w.mustRead("r", "main")
	if files["f"] != "1" || files["sub/g"] != "$Format:%H$ $Id$\r\n" {
		t.Errorf("the files are not as they are stored: %q", files)
	}
	if tr.WasSprung() {
		t.Fatal("reading ran the repository's program")
	}
	blob := tr.LoseBlob()
	tr.WasSprung()
	repo, err := w.open("r")
	must(t, err)
	_, _, err = w.read(repo, "main")
	w.RefusedAs(err, fserr.EIO, "missing or damaged", "partial clone")
	_, err = w.resolve("r", blob)
	w.RefusedAs(err, fserr.ENOENT)
	if tr.WasSprung() {
		t.Error("a missing object was fetched")
	}
	w.checkClean()
}

func TestConfigurationIsNotRead(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	w.Write("r/.git/config", "[core\n\tnonsense = [[[\n")
	if _, files := w.mustRead("r", "main"); files["f"] != "1" {
		t.Errorf("read %q", files)
	}
}

func TestReplacedObjectsAreNotRead(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("r", "f=true")
	w.Git("r", nil, "replace", w.Git("r", nil, "rev-parse", "HEAD:f"), w.Blob("replaced"))
	if _, files := w.mustRead("r", "main"); files["f"] != "true" {
		t.Errorf("read %q", files)
	}
}

func TestOperatorsEnvironmentIsNotUsed(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	trace := filepath.Join(w.State, "trace")
	for name, value := range map[string]string{
		"GIT_DIR": "/nowhere", "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_TRACE": trace, "GIT_CONFIG_PARAMETERS": "nonsense",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.abbrev", "GIT_CONFIG_VALUE_0": "nonsense", "GIT_EXEC_PATH": "/nowhere",
		"GIT_NAMESPACE": "x", "GIT_INDEX_FILE": "/nowhere/i", "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	if _, files := w.mustRead("r", "main"); files["f"] != "1" {
		t.Errorf("read %q", files)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("git wrote a trace")
	}
}

func TestHostileTrees(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("r")
	f := w.Blob("content")
	dir := w.Tree(gittest.Entry{"100644", "planted", f})
	for _, c := range []struct {
		name string
		tree []gittest.Entry
		says string
	}{
		{".git", []gittest.Entry{{"40000", ".git", dir}}, `"/.git" is refused`},
		{".GIT below", []gittest.Entry{{"40000", "a", w.Tree(gittest.Entry{"40000", ".GiT", dir})}}, `"a/.GiT" is refused`},
		{"short name of .git", []gittest.Entry{{"40000", "GIT~1", dir}}, "git keeps its own data"},
		{".git with dots", []gittest.Entry{{"40000", ".git. .", dir}}, "git keeps its own data"},
		{".git as a stream", []gittest.Entry{{"40000", ".git::$INDEX_ALLOCATION", dir}}, "git keeps its own data"},
		{".git with what HFS ignores", []gittest.Entry{{"40000", ".g\u200dit", dir}}, "git keeps its own data"},
		{".git as a file", []gittest.Entry{{"100644", ".git", f}}, "git keeps its own data"},
		{"parent", []gittest.Entry{{"40000", "..", dir}}, "it is no name"},
		{"itself", []gittest.Entry{{"40000", ".", dir}}, "it is no name"},
		{"path", []gittest.Entry{{"100644", "../../../planted", f}}, "it is no name"},
		{"absolute", []gittest.Entry{{"100644", "/etc/planted", f}}, "it is no name"},
		{"empty", []gittest.Entry{{"100644", "", f}}, "it is no name"},
		{"link, then a file through it", []gittest.Entry{{"120000", "a", f}, {"40000", "a", dir}}, `"a" is refused: it is there twice`},
		{"damaged", []gittest.Entry{{"nonsense", "d", dir}}, "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.CommitTree(w.Tree(c.tree...))
			repo, err := w.open("r")
			must(t, err)
			_, _, err = w.read(repo, "main")
			w.RefusedAs(err, fserr.EINVAL, c.says)
		})
	}
	for name, tree := range map[string]gittest.Entry{
		"file for a directory": {"40000", "d", f}, "directory for a file": {"100644", "d", dir},
		"missing file": {"100644", "f", strings.Repeat("1", 40)},
	} {
		t.Run(name, func(t *testing.T) {
			w.CommitTree(w.Tree(tree))
			repo, err := w.open("r")
			must(t, err)
			_, _, err = w.read(repo, "main")
			w.RefusedAs(err, fserr.EIO, "missing or damaged")
		})
	}
	w.checkClean()
}
