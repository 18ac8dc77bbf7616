package template

import (
	"os"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// remote makes a workspace, and another folder with the bare repository team/tools.git.
func remote(t *testing.T) (w *workspace, srv *workspace, first, second string) {
	t.Helper()
	w, srv = newWorkspace(t), newWorkspace(t)
	first, second = srv.RefsRepo()
	must(t, os.Mkdir(srv.In("team"), 0o755))
	srv.Git("", nil, "clone", "-q", "--bare", "r", "team/tools.git")
	return w, srv, first, second
}

// checkRefs builds refs of team/tools.git from the workspace's base URL.
func (w *workspace) checkRefs(t *testing.T, want map[string]string) {
	t.Helper()
	for ref, commit := range want {
		w.template("t", "deps:", "  /r:", "    repo: team/tools.git", `    ref: "`+ref+`"`)
		b, err := w.build("t")
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if b.Deps[0].Commit != commit || files(t, b.Tree)["r/f"] == "" {
			t.Errorf("%s is %s, want %s; files %v", ref, b.Deps[0].Commit, commit, files(t, b.Tree))
		}
	}
	if left := w.staged(); len(left) != 0 {
		t.Errorf("staging holds %v", left)
	}
}

func TestHTTPBase(t *testing.T) {
	t.Parallel()
	w, srv, first, second := remote(t)
	s := srv.Serve(false)
	w.base = strings.Replace(s.URL, "://", "://user:secret@", 1) + "/"
	w.checkRefs(t, map[string]string{"HEAD": second, "main": second, "heavy": first, "refs/tags/light": first, first: first, second[:8]: second})
	if source := w.mustResolve("t").Deps[0].Source; source != "git:"+s.URL+"/team/tools.git" {
		t.Errorf("the source is %s", source)
	}
	w.template("t", "deps: {/r: {repo: "+s.URL+"/team/tools.git}}")
	if r := w.mustResolve("t"); r.Deps[0].Commit != second {
		t.Errorf("by its URL it is %s", r.Deps[0].Commit)
	}
	for _, c := range []struct {
		name, repo, ref string
		code            fserr.Code
	}{
		{"unknown ref", "team/tools.git", "nothing", fserr.ENOENT},
		{"redirected", "moved/tools.git", "main", fserr.EIO},
		{"in a context", ".contexts/ctx_p", "main", fserr.EINVAL},
		{"above the base", s.URL + "/../x", "main", fserr.EINVAL},
		{"another host", "https://example.com/team/tools.git", "main", fserr.EACCES},
		{"another user", "http://other@" + strings.TrimPrefix(s.URL, "http://") + "/team/tools.git", "main", fserr.EACCES},
		{"escapes", "team/a%2e%2e", "main", fserr.EINVAL},
		{"spaces", "team/a b", "main", fserr.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.template("t", "deps:", "  /r: {repo: '"+c.repo+"', ref: "+c.ref+"}")
			_, err := w.resolve("t")
			w.RefusedAs(err, c.code, "t/"+FileName+":2:")
			if strings.Contains(fserr.Wrap(err, "", "", "").Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestFileBase(t *testing.T) {
	t.Parallel()
	w, srv, first, second := remote(t)
	w.base = "file://" + srv.Dir
	w.checkRefs(t, map[string]string{"HEAD": second, "heavy": first, first[:9]: first})
	w.Repo("team/tools.git", "f=mine")
	w.template("t", "deps: {/r: {repo: team/tools.git}, /s: {repo: '"+w.base+"/team/tools.git'}}")
	r := w.mustResolve("t")
	if r.Deps[0].Source != "workspace:team/tools.git" || r.Deps[1].Source != "git:"+w.base+"/team/tools.git" {
		t.Errorf("got %+v", r.Deps)
	}
}

func TestURLsNeedABase(t *testing.T) {
	t.Parallel()
	w, outside := newWorkspace(t), newWorkspace(t)
	outside.Repo("secret", "f=secret")
	for _, repo := range []string{"https://example.com/x", "file://" + outside.In("secret")} {
		w.template("t", "deps:", "  /r:", "    repo: "+repo)
		_, err := w.resolve("t")
		w.RefusedAs(err, fserr.EACCES, "t/"+FileName+":")
	}
}

func TestBadBase(t *testing.T) {
	t.Parallel()
	for _, c := range []string{
		"ext::sh", "git://h/x", "h/x", "https://", "https://-h/x", "ssh://-o@h/x", "https://h/x?y", "https://h/x#y", "file://h/x",
		"file:relative", "file:///nowhere/at/all", "https://h:%zz/", "git@h:x", "ftp://h/x",
	} {
		if _, err := NewResolver(newWorkspace(t).source(), c, git.Options{}); fserr.CodeOf(err) == 0 {
			t.Errorf("%s is accepted", c)
		} else if !strings.Contains(err.Error(), "bad git base URL") {
			t.Errorf("%s: %v", c, err)
		}
	}
}
