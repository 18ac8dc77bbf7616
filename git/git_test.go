package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

func TestMain(m *testing.M) {
	powercut.Main()
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// workspace is a folder with repositories, and a reader of them.
type workspace struct {
	*gittest.Workspace
	scratch string
	reader  *git.Reader
}

func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	return over(gittest.New(t))
}

func over(g *gittest.Workspace) *workspace {
	w := &workspace{Workspace: g, scratch: filepath.Join(g.State, "scratch")}
	w.Must(os.Mkdir(w.scratch, 0o700))
	w.reader = git.NewReader(git.Options{Scratch: w.scratch})
	return w
}

// open opens the repository at p. The contexts' folder is .contexts.
func (w *workspace) open(p string) (git.Repository, error) {
	w.T.Helper()
	root, err := rootfs.Open(w.Dir, rootfs.Options{FollowMounts: true})
	must(w.T, err)
	w.T.Cleanup(func() { _ = root.Close() })
	l, err := w.reader.Open(seed.Source{Root: root, Dir: w.Dir, Avoid: ".contexts"}.GitFS(), p, p)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (w *workspace) resolve(p, ref string) (string, error) {
	w.T.Helper()
	repo, err := w.open(p)
	if err != nil {
		return "", err
	}
	return repo.Resolve(context.Background(), ref)
}

// read returns the commit of ref and the files in it, as path -> content.
func (w *workspace) read(repo git.Repository, ref string) (commit string, files map[string]string, err error) {
	w.T.Helper()
	if commit, err = repo.Resolve(context.Background(), ref); err != nil {
		return "", nil, err
	}
	o, err := repo.Objects(context.Background(), w.scratch, commit)
	if err != nil {
		return "", nil, err
	}
	defer func() { must(w.T, o.Close()) }()
	tree, err := o.TreeOf(commit)
	if err != nil {
		return "", nil, err
	}
	files = map[string]string{}
	return commit, files, readTree(o, tree, "", files)
}

func readTree(o *git.Objects, id, dir string, files map[string]string) error {
	entries, err := o.Tree(id, dir)
	for _, e := range entries {
		p := path.Join(dir, e.Name)
		switch e.Mode {
		case 0o160000:
		case 0o40000:
			err = errors.Join(err, readTree(o, e.ID, p, files))
		default:
			var content strings.Builder
			if _, err := o.Blob(e.ID); err != nil {
				return err
			}
			err = errors.Join(err, o.CopyTo(&content))
			files[p] = content.String()
		}
	}
	return err
}

// mustRead reads the repository at p.
func (w *workspace) mustRead(p, ref string) (string, map[string]string) {
	w.T.Helper()
	repo, err := w.open(p)
	must(w.T, err)
	commit, files, err := w.read(repo, ref)
	must(w.T, err)
	return commit, files
}

// checkClean fails if a scratch repository is left.
func (w *workspace) checkClean() {
	w.T.Helper()
	left, err := os.ReadDir(w.scratch)
	if err != nil || len(left) != 0 {
		w.T.Errorf("the scratch directory holds %v, %v", left, err)
	}
}

func TestRefs(t *testing.T) {
	w := newWorkspace(t)
	first, second := w.RefsRepo()
	tagObject := w.Git("r", nil, "rev-parse", "heavy")
	for _, c := range []struct{ name, ref, want string }{
		{"the branch that is out", "HEAD", second},
		{"branch", "main", second},
		{"packed branch", "feature/x", first},
		{"light tag", "light", first},
		{"annotated tag", "heavy", first},
		{"annotated tag by its full name", "refs/tags/heavy", first},
		{"branch and tag of one commit", "agree", first},
		{"full name", "refs/heads/both", first},
		{"full name of a tag", "refs/tags/both", second},
		{"commit", first, first},
		{"abbreviated", first[:7], first},
		{"the tag object's own ID", tagObject, first},
		{"a branch that looks like a commit", "deadbeef", second},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := w.resolve("r", c.ref); err != nil || got != c.want {
				t.Errorf("%s is %s, want %s: %v", c.ref, got, c.want, err)
			}
		})
	}
	for _, c := range []struct {
		name, ref string
		code      fserr.Code
		says      string
	}{
		{"unknown", "nothing", fserr.ENOENT, `no branch, tag or commit "nothing"`},
		{"unknown commit", "0123456789012345678901234567890123456789", fserr.ENOENT, "0123456789"},
		{"unknown abbreviation", "01234567", fserr.ENOENT, "01234567"},
		{"branch and tag of two commits", "both", fserr.EINVAL, "refs/heads/both or refs/tags/both"},
		{"a file's", "blob", fserr.ENOENT, "blob"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.resolve("r", c.ref)
			w.RefusedAs(err, c.code, c.says)
		})
	}
	w.checkClean()
}

func TestAmbiguousAbbreviation(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	var in strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&in, "commit refs/heads/many\ncommitter t <t@example.com> %d +0000\ndata 0\n", i)
	}
	w.Git("r", []byte(in.String()), "fast-import", "--quiet")
	seen, short := map[string]bool{}, ""
	for _, c := range strings.Fields(w.Git("r", nil, "rev-list", "many")) {
		if seen[c[:4]] {
			short = c[:4]
		}
		seen[c[:4]] = true
	}
	if short == "" {
		t.Fatal("no two commits begin alike")
	}
	_, err := w.resolve("r", short)
	w.RefusedAs(err, fserr.EINVAL, "more than one commit", "write more digits")
}

func TestKindsOfRepository(t *testing.T) {
	w := newWorkspace(t)
	commit := w.Repo("r", "f=1")
	w.Git("", nil, "clone", "-q", "--bare", "r", "bare.git")
	w.Git("", nil, "clone", "-q", "--shared", "r", "shared")
	w.Git("r", nil, "worktree", "add", "-q", "../tree", "-b", "other")
	other := w.Commit("tree", "g=2")
	must(t, os.Symlink("r", w.In("alias")))
	must(t, os.MkdirAll(w.In("wide"), 0o755))
	w.Git("wide", nil, "init", "-q", "-b", "main", "--object-format=sha256")
	wide := w.Commit("wide", "f=1")
	for repo, want := range map[string]string{"bare.git": commit, "shared": commit, "tree": other, "alias": commit, "wide": wide, "r/": commit} {
		if got, files := w.mustRead(repo, "HEAD"); got != want || files["f"] != "1" {
			t.Errorf("%s: got %s and %v", repo, got, files)
		}
	}
}

func TestRepositoriesRefused(t *testing.T) {
	w := newWorkspace(t)
	outside := newWorkspace(t)
	outside.Repo("secret", "f=secret")
	w.Repo("r", "f=1")
	w.Repo(".contexts/ctx_p", "f=1")
	must(t, os.Symlink(outside.In("secret"), w.In("link")))
	must(t, os.Symlink(".contexts/ctx_p", w.In("into")))
	w.Write("worktree/.git", "gitdir: "+outside.In("secret/.git")+"\n")
	w.Write("up/.git", "gitdir: ../../x\n")
	w.Git("", nil, "clone", "-q", "--shared", outside.In("secret"), "shared")
	w.Repo("linked", "f=1")
	must(t, os.RemoveAll(w.In("linked/.git/objects")))
	must(t, os.Symlink(outside.In("secret/.git/objects"), w.In("linked/.git/objects")))
	w.Repo("packs", "f=1")
	must(t, os.RemoveAll(w.In("packs/.git/objects/pack")))
	must(t, os.Symlink(outside.In("secret/.git/objects/pack"), w.In("packs/.git/objects/pack")))
	must(t, os.MkdirAll(w.In("empty/.git/objects"), 0o755))
	w.Write("empty/.git/HEAD", "ref: refs/heads/main\n")
	w.Write("plain/f", "")
	w.Write("circle/.git/HEAD", "ref: refs/heads/a\n")
	w.Write("circle/.git/refs/heads/a", "ref: refs/heads/a\n")
	must(t, os.Mkdir(w.In("circle/.git/objects"), 0o755))
	w.Write("odd/.git/HEAD", "ref: ../../../etc/passwd\n")
	must(t, os.Mkdir(w.In("odd/.git/objects"), 0o755))
	must(t, os.MkdirAll(w.In("table/.git/reftable"), 0o755))
	must(t, os.MkdirAll(w.In("table/.git/objects"), 0o755))
	w.Repo("pipe", "f=1")
	out, err := exec.Command("mkfifo", w.In("pipe/.git/objects/pack/pack-1.idx")).CombinedOutput()
	if err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	for _, c := range []struct {
		repo string
		code fserr.Code
	}{
		{"pipe", fserr.EACCES},
		{"link", fserr.ENOENT}, {"into", fserr.EACCES}, {".contexts/ctx_p", fserr.EACCES}, {"worktree", fserr.EACCES}, {"up", fserr.EACCES},
		{"shared", fserr.EACCES}, {"linked", fserr.ENOENT}, {"packs", fserr.EACCES}, {"empty", fserr.ENOENT}, {"plain", fserr.ENOENT},
		{"circle", fserr.EINVAL}, {"odd", fserr.EINVAL}, {"table", fserr.EOPNOTSUPP}, {"nowhere", fserr.ENOENT},
	} {
		t.Run(c.repo, func(t *testing.T) {
			_, err := w.resolve(c.repo, "HEAD")
			w.RefusedAs(err, c.code, `repository "`+c.repo+`"`)
		})
	}
}

// TestUnmovedRefNeedsNoGit resolves again where git is not installed.
func TestUnmovedRefNeedsNoGit(t *testing.T) {
	w := newWorkspace(t)
	w.Repo("a", "f=1")
	w.Git("a", nil, "tag", "-a", "-m", "v1", "v1")
	w.Repo("b", "f=1")
	first, err := w.resolve("a", "v1")
	must(t, err)
	_, err = w.resolve("b", "main")
	must(t, err)
	next := w.Git("b", nil, "commit-tree", "-m", "next", "HEAD^{tree}")
	t.Setenv("PATH", t.TempDir())
	if again, err := w.resolve("a", "v1"); err != nil || again != first {
		t.Fatalf("resolved %s, %v", again, err)
	}
	w.Write("b/.git/refs/heads/main", next+"\n")
	_, err = w.resolve("b", "main")
	w.RefusedAs(err, fserr.EOPNOTSUPP, "has no git", "install git")
	// An abbreviation may come to mean another object, or two.
	_, err = w.resolve("a", next[:8])
	w.RefusedAs(err, fserr.EOPNOTSUPP, "has no git")
	_, err = w.reader.Remote("https://localhost/x", "x").Resolve(context.Background(), "main")
	w.RefusedAs(err, fserr.EOPNOTSUPP, "has no git")
}
