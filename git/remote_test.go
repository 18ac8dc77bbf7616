package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git/gittest"
)

// newRemote returns a workspace, and another one with the bare repository team/tools.git.
func newRemote(t *testing.T) (w *workspace, srv *gittest.Workspace, first, second string) {
	t.Helper()
	w, srv = newWorkspace(t), gittest.New(t)
	first, second = srv.RefsRepo()
	must(t, os.Mkdir(srv.In("team"), 0o755))
	srv.Git("", nil, "clone", "-q", "--bare", "r", "team/tools.git")
	return w, srv, first, second
}

// checkRefs reads refs of team/tools.git below base.
func (w *workspace) checkRefs(base string, want map[string]string) {
	w.T.Helper()
	repo := w.reader.Remote(base+"/team/tools.git", "team/tools.git")
	for ref, commit := range want {
		got, files, err := w.read(repo, ref)
		if err != nil || got != commit || files["f"] == "" {
			w.T.Errorf("%s is %s, want %s; files %v: %v", ref, got, commit, files, err)
		}
	}
	w.checkClean()
}

func TestHTTP(t *testing.T) {
	w, srv, first, second := newRemote(t)
	base := strings.Replace(srv.Serve(false).URL, "://", "://user:secret@", 1)
	w.checkRefs(base, map[string]string{"HEAD": second, "main": second, "heavy": first, "refs/tags/light": first, first: first, second[:8]: second})
	for _, c := range []struct {
		name, repo, ref string
		code            fserr.Code
	}{
		{"unknown ref", "team/tools.git", "nothing", fserr.ENOENT},
		{"unknown abbreviation", "team/tools.git", "0123", fserr.ENOENT},
		{"ambiguous name", "team/tools.git", "both", fserr.EINVAL},
		{"unknown repository", "team/gone.git", "main", fserr.EIO},
		{"redirected", "moved/tools.git", "main", fserr.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := w.read(w.reader.Remote(base+"/"+c.repo, c.repo), c.ref)
			w.RefusedAs(err, c.code, c.repo)
			if strings.Contains(fserr.Wrap(err, "", "", "").Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestHTTPOfAnOlderServer(t *testing.T) {
	w, srv, first, second := newRemote(t)
	base := srv.Serve(true).URL
	inner := srv.Commit("r", "f=3") // no ref names it, so this server does not serve it alone
	srv.Commit("r", "f=4")
	srv.Git("r", nil, "push", "-q", "../team/tools.git", "main")
	w.checkRefs(base, map[string]string{first: first, second: second, inner: inner})
	_, _, err := w.read(w.reader.Remote(base+"/team/tools.git", "tools"), strings.Repeat("1", 40))
	w.RefusedAs(err, fserr.EIO, "missing or damaged")
}

func TestSSH(t *testing.T) {
	w, srv, first, second := newRemote(t)
	// An ssh whose other end is this machine. It records the host it is called with.
	fake, log := filepath.Join(w.State, "fake-ssh"), filepath.Join(w.State, "log")
	must(t, os.WriteFile(fake, []byte("#!/bin/sh\necho \"$1\" >> '"+log+"'\nshift\nexec sh -c \"$*\"\n"), 0o755))
	t.Setenv("GIT_SSH_COMMAND", fake)
	t.Setenv("GIT_SSH_VARIANT", "simple")
	w.checkRefs("ssh://git@host.example"+srv.Dir, map[string]string{"HEAD": second, "heavy": first})
	data, err := os.ReadFile(log)
	must(t, err)
	if !strings.HasPrefix(string(data), "git@host.example\n") {
		t.Errorf("called for %q", data)
	}
}
