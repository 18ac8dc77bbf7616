package template

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// refsRepo makes a repository with every kind of ref.
func (w *workspace) refsRepo() (first, second string) {
	first = w.repo("r", "f=1")
	w.gitIn("r", nil, "tag", "light")
	w.gitIn("r", nil, "tag", "-a", "-m", "t", "heavy")
	w.gitIn("r", nil, "branch", "feature/x")
	w.gitIn("r", nil, "branch", "both")
	w.gitIn("r", nil, "tag", "agree", "main")
	w.gitIn("r", nil, "branch", "agree", "main")
	w.gitIn("r", nil, "pack-refs", "--all")
	second = w.commit("r", "f=2")
	w.gitIn("r", nil, "tag", "both")
	w.gitIn("r", nil, "branch", "deadbeef")
	w.gitIn("r", nil, "tag", "blob", second+":f")
	return first, second
}

func TestRefs(t *testing.T) {
	w := newWorkspace(t)
	first, second := w.refsRepo()
	tagObject := w.gitIn("r", nil, "rev-parse", "heavy")
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
			w.template("t", "deps:", "  /r:", "    repo: r", `    ref: "`+c.ref+`"`)
			if got := w.mustResolve("t").Deps[0].Commit; got != c.want {
				t.Errorf("%s is %s, want %s", c.ref, got, c.want)
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
			w.template("t", "deps:", "  /r:", "    repo: r", `    ref: "`+c.ref+`"`)
			_, err := w.resolve("t")
			w.refusedAs(err, c.code, c.says, "t/"+FileName+":2:3")
		})
	}
	if left := w.staged(); len(left) != 0 {
		t.Errorf("staging holds %v", left)
	}
}

func TestAmbiguousAbbreviation(t *testing.T) {
	w := newWorkspace(t)
	w.repo("r", "f=1")
	var in strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&in, "commit refs/heads/many\ncommitter t <t@example.com> %d +0000\ndata 0\n", i)
	}
	w.gitIn("r", []byte(in.String()), "fast-import", "--quiet")
	seen, short := map[string]bool{}, ""
	for _, c := range strings.Fields(w.gitIn("r", nil, "rev-list", "many")) {
		if seen[c[:4]] {
			short = c[:4]
		}
		seen[c[:4]] = true
	}
	if short == "" {
		t.Fatal("no two commits begin alike")
	}
	w.template("t", "deps:", "  /r: {repo: r, ref: '"+short+"'}")
	_, err := w.resolve("t")
	w.refusedAs(err, fserr.EINVAL, "more than one commit", "write more digits")
}

func TestKindsOfRepository(t *testing.T) {
	w := newWorkspace(t)
	commit := w.repo("r", "f=1")
	w.gitIn("", nil, "clone", "-q", "--bare", "r", "bare.git")
	w.gitIn("", nil, "clone", "-q", "--shared", "r", "shared")
	w.gitIn("r", nil, "worktree", "add", "-q", "../tree", "-b", "other")
	other := w.commit("tree", "g=2")
	must(t, os.Symlink("r", w.in("alias")))
	must(t, os.MkdirAll(w.in("wide"), 0o755))
	w.gitIn("wide", nil, "init", "-q", "-b", "main", "--object-format=sha256")
	wide := w.commit("wide", "f=1")
	for repo, want := range map[string]string{"bare.git": commit, "shared": commit, "tree": other, "alias": commit, "wide": wide, "r/": commit} {
		w.template("t", "deps: {/r: {repo: "+repo+"}}")
		b, err := w.build("t")
		if err != nil {
			t.Errorf("%s: %v", repo, err)
			continue
		}
		if got := b.Deps[0].Commit; got != want || files(t, b.Tree)["r/f"] != "-rw-r--r-- 1" {
			t.Errorf("%s: got %s and %v", repo, got, files(t, b.Tree))
		}
	}
}

func TestRepositoriesRefused(t *testing.T) {
	w := newWorkspace(t)
	outside := newWorkspace(t)
	outside.repo("secret", "f=secret")
	w.repo("r", "f=1")
	w.repo(".contexts/ctx_p", "f=1")
	must(t, os.Symlink(outside.in("secret"), w.in("link")))
	must(t, os.Symlink(".contexts/ctx_p", w.in("into")))
	w.write("worktree/.git", "gitdir: "+outside.in("secret/.git")+"\n")
	w.write("up/.git", "gitdir: ../../x\n")
	w.gitIn("", nil, "clone", "-q", "--shared", outside.in("secret"), "shared")
	w.repo("linked", "f=1")
	must(t, os.RemoveAll(w.in("linked/.git/objects")))
	must(t, os.Symlink(outside.in("secret/.git/objects"), w.in("linked/.git/objects")))
	w.repo("packs", "f=1")
	must(t, os.RemoveAll(w.in("packs/.git/objects/pack")))
	must(t, os.Symlink(outside.in("secret/.git/objects/pack"), w.in("packs/.git/objects/pack")))
	must(t, os.MkdirAll(w.in("empty/.git/objects"), 0o755))
	w.write("empty/.git/HEAD", "ref: refs/heads/main\n")
	w.write("plain/f", "")
	w.write("circle/.git/HEAD", "ref: refs/heads/a\n")
	w.write("circle/.git/refs/heads/a", "ref: refs/heads/a\n")
	must(t, os.Mkdir(w.in("circle/.git/objects"), 0o755))
	w.write("odd/.git/HEAD", "ref: ../../../etc/passwd\n")
	must(t, os.Mkdir(w.in("odd/.git/objects"), 0o755))
	must(t, os.MkdirAll(w.in("table/.git/reftable"), 0o755))
	must(t, os.MkdirAll(w.in("table/.git/objects"), 0o755))
	w.repo("pipe", "f=1")
	out, err := exec.Command("mkfifo", w.in("pipe/.git/objects/pack/pack-1.idx")).CombinedOutput()
	if err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	for _, c := range []struct {
		repo string
		code fserr.Code
	}{
		{"pipe", fserr.EACCES},
		{"link", fserr.ENOENT}, {"into", fserr.EACCES}, {".contexts/ctx_p", fserr.EINVAL}, {"worktree", fserr.EACCES}, {"up", fserr.EACCES},
		{"shared", fserr.EACCES}, {"linked", fserr.ENOENT}, {"packs", fserr.EACCES}, {"empty", fserr.ENOENT}, {"plain", fserr.ENOENT},
		{"circle", fserr.EINVAL}, {"odd", fserr.EINVAL}, {"table", fserr.EOPNOTSUPP}, {"nowhere", fserr.ENOENT},
		{"https://example.com/x", fserr.EACCES}, {"file://" + outside.in("secret"), fserr.EACCES},
	} {
		t.Run(filepath.Base(c.repo), func(t *testing.T) {
			w.template("t", "deps:", "  /r:", "    repo: "+c.repo)
			_, err := w.resolve("t")
			w.refusedAs(err, c.code, "t/"+FileName+":")
		})
	}
}
