package template

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// server serves the repositories of dir by git's own HTTP server. old hides the
// newer protocol, in which a client may ask for any commit.
func server(t *testing.T, dir string, old bool) *httptest.Server {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	must(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved/") {
			http.Redirect(w, r, strings.Replace(r.URL.String(), "/moved/", "/team/", 1), http.StatusFound)
			return
		}
		if old {
			r.Header.Del("Git-Protocol")
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// remote makes a workspace, and another folder with the bare repository team/tools.git.
func remote(t *testing.T) (w *workspace, srv *workspace, first, second string) {
	t.Helper()
	w, srv = newWorkspace(t), newWorkspace(t)
	first, second = srv.refsRepo()
	must(t, os.Mkdir(srv.in("team"), 0o755))
	srv.gitIn("", nil, "clone", "-q", "--bare", "r", "team/tools.git")
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

func TestHTTP(t *testing.T) {
	w, srv, first, second := remote(t)
	s := server(t, srv.dir, false)
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
		{"ambiguous name", "team/tools.git", "both", fserr.EINVAL},
		{"unknown repository", "team/gone.git", "main", fserr.EIO},
		{"redirected", "moved/tools.git", "main", fserr.EIO},
		{"above the base", s.URL + "/../x", "main", fserr.EINVAL},
		{"another host", "https://example.com/team/tools.git", "main", fserr.EACCES},
		{"another user", "http://other@" + strings.TrimPrefix(s.URL, "http://") + "/team/tools.git", "main", fserr.EACCES},
		{"escapes", "team/a%2e%2e", "main", fserr.EINVAL},
		{"spaces", "team/a b", "main", fserr.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.template("t", "deps:", "  /r: {repo: '"+c.repo+"', ref: "+c.ref+"}")
			_, err := w.resolve("t")
			w.refusedAs(err, c.code, "t/"+FileName+":2:")
			if strings.Contains(fserr.Wrap(err, "", "", "").Error(), "secret") {
				t.Errorf("the password is told: %v", err)
			}
		})
	}
}

func TestHTTPOfAnOlderServer(t *testing.T) {
	w, srv, first, second := remote(t)
	w.base = server(t, srv.dir, true).URL
	inner := srv.commit("r", "f=3") // no ref's own, so this server does not give it alone
	srv.commit("r", "f=4")
	srv.gitIn("r", nil, "push", "-q", "../team/tools.git", "main")
	w.checkRefs(t, map[string]string{first: first, second: second, inner: inner})
	missing := strings.Repeat("1", 40)
	w.template("t", "deps: {/r: {repo: team/tools.git, ref: '"+missing+"'}}")
	_, err := w.build("t")
	w.refusedAs(err, fserr.EIO, "missing or damaged")
}

func TestFileBase(t *testing.T) {
	w, srv, first, second := remote(t)
	w.base = "file://" + srv.dir
	w.checkRefs(t, map[string]string{"HEAD": second, "heavy": first, first[:9]: first})
	w.repo("team/tools.git", "f=mine")
	w.template("t", "deps: {/r: {repo: team/tools.git}, /s: {repo: '"+w.base+"/team/tools.git'}}")
	r := w.mustResolve("t")
	if r.Deps[0].Source != "workspace:team/tools.git" || r.Deps[1].Source != "git:"+w.base+"/team/tools.git" {
		t.Errorf("got %+v", r.Deps)
	}
}

func TestSSH(t *testing.T) {
	w, srv, first, second := remote(t)
	// An ssh whose other end is this machine; it writes down whom it was asked for.
	fake, log := filepath.Join(w.state, "fake-ssh"), filepath.Join(w.state, "log")
	must(t, os.WriteFile(fake, []byte("#!/bin/sh\necho \"$1\" >> '"+log+"'\nshift\nexec sh -c \"$*\"\n"), 0o755))
	t.Setenv("GIT_SSH_COMMAND", fake)
	t.Setenv("GIT_SSH_VARIANT", "simple")
	w.base = "ssh://git@host.example" + srv.dir
	w.checkRefs(t, map[string]string{"HEAD": second, "heavy": first})
	data, err := os.ReadFile(log)
	must(t, err)
	if !strings.HasPrefix(string(data), "git@host.example\n") {
		t.Errorf("asked for %q", data)
	}
}

func TestBadBase(t *testing.T) {
	for _, c := range []string{
		"ext::sh", "git://h/x", "h/x", "https://", "https://-h/x", "ssh://-o@h/x", "https://h/x?y", "https://h/x#y", "file://h/x",
		"file:relative", "file:///nowhere/at/all", "https://h:%zz/", "git@h:x", "ftp://h/x",
	} {
		if _, err := NewResolver(newWorkspace(t).source(), Options{BaseURL: c}); fserr.CodeOf(err) == 0 {
			t.Errorf("%s is accepted", c)
		} else if !strings.Contains(err.Error(), "bad git base URL") {
			t.Errorf("%s: %v", c, err)
		}
	}
}
