package panels

import (
	"context"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
)

// write makes a file of the workspace.
func (h *house) write(name, content string) {
	h.t.Helper()
	p := filepath.Join(h.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// repo makes content the one file of a repository, in a further commit.
func (h *house) repo(dir, content string) {
	h.t.Helper()
	h.write(dir+"/f", content)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", content}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-C", filepath.Join(h.dir, dir)}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
}

// prepared is a house with the repository r and a template of it beside the source of the panel own.
func prepared(t *testing.T) *house {
	h := newHouse(t)
	h.repo("r", "1")
	h.write("own/context-template.yml", "deps: {/r: {repo: r}}\n")
	return h
}

func (h *house) wantContext(req OpenRequest, want contexts.ID) Opened {
	h.t.Helper()
	o, err := h.Open(context.Background(), req, nil)
	if err != nil || o.ContextID != want {
		h.t.Fatalf("open %+v: %s, %v; want %s", req, o.ContextID, err, want)
	}
	return o
}

// refused checks that a token is no longer one.
func (h *house) refused(o Opened) {
	h.t.Helper()
	_, err := h.Authenticate(context.Background(), o.Token.Secret)
	wantCode(h.t, err, fserr.EACCES)
}

func (h *house) admitted(o Opened) {
	h.t.Helper()
	id, err := h.Authenticate(context.Background(), o.Token.Secret)
	if err != nil || id.Context != o.ContextID {
		h.t.Errorf("the token of %s is %+v, %v", o.ContextID, id, err)
	}
}

func TestFailingTemplateCostsNothing(t *testing.T) {
	h := prepared(t)
	first := h.open("own")
	for what, c := range map[string]struct {
		template string
		code     fserr.Code
	}{
		"a mistake":           {"deps: {/r: {repo: r}, /r/x: {repo: r}}\n", fserr.EINVAL},
		"an unknown ref":      {"deps: {/r: {repo: r, ref: nope}}\n", fserr.ENOENT},
		"more than permitted": {"deps: {/r: {repo: large}}\n", fserr.EIO},
	} {
		h.repo("large", what)
		if what == "more than permitted" {
			h.breakRepository("large")
		}
		h.write("own/context-template.yml", c.template)
		_, err := h.Open(context.Background(), OpenRequest{PanelID: "own"}, nil)
		wantCode(t, err, c.code, "own/context-template.yml:1")
		h.admitted(first)
	}
	h.write("own/context-template.yml", "deps: {/r: {repo: r}}\n")
	h.wantContext(OpenRequest{PanelID: "own"}, first.ContextID)
	h.admitted(first)
	if len(h.closed) != 0 {
		t.Errorf("%v were closed", h.closed)
	}
}

// breakRepository takes the content of its files away, which shows in the build alone.
func (h *house) breakRepository(dir string) {
	h.t.Helper()
	out, err := exec.Command("git", "-C", filepath.Join(h.dir, dir), "rev-parse", "HEAD:f").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	if err := os.Remove(filepath.Join(h.dir, dir, ".git/objects", id[:2], id[2:])); err != nil {
		h.t.Fatal(err)
	}
}

func TestPanelFollowsItsTemplate(t *testing.T) {
	h := prepared(t)
	plain := h.wantContext(OpenRequest{PanelID: "plain"}, "ctx_plain")
	first := h.open("own")
	h.repo("r", "2")
	// A host that acts for the panel leaves it where it is.
	if p, err := h.Bind(context.Background(), "own"); err != nil || p.ContextID != first.ContextID {
		t.Errorf("bound to %+v, %v", p, err)
	}
	h.admitted(first)
	second := h.open("own")
	if second.ContextID == first.ContextID || !second.Seeded {
		t.Errorf("opened %+v", second)
	}
	h.refused(first)
	h.admitted(second)
	if len(h.closed) != 1 || h.closed[0] != "own" || !errors.Is(h.why, errMoved) {
		t.Errorf("%v were closed: %v", h.closed, h.why)
	}
	h.refuses(OpenRequest{PanelID: "own", ContextID: string(first.ContextID)}, fserr.EINVAL, "is not of template", "own/context-template.yml")
	h.refuses(OpenRequest{PanelID: "own", ContextID: "ctx_own"}, fserr.EEXIST, string(second.ContextID))
	// A template that comes later, or is named, takes a panel from its copy of the workspace.
	h.write("plain/context-template.yml", "deps: {/other: {repo: r}}\n")
	moved := h.open("plain")
	if !strings.HasPrefix(string(moved.ContextID), "safe_tpl_") {
		t.Errorf("opened %+v", moved)
	}
	h.refused(plain)
	// One that goes leaves it where it is.
	if err := os.Remove(filepath.Join(h.dir, "plain/context-template.yml")); err != nil {
		t.Fatal(err)
	}
	h.wantContext(OpenRequest{PanelID: "plain"}, moved.ContextID)
	h.admitted(moved)
}

func TestExplicitContextIsKept(t *testing.T) {
	h := prepared(t)
	h.wantContext(OpenRequest{PanelID: "own", ContextID: "ctx_shared"}, "ctx_shared")
	h.wantContext(OpenRequest{PanelID: "own"}, "ctx_shared")
	h.refuses(OpenRequest{PanelID: "own", Template: "own"}, fserr.EEXIST, "ctx_shared", "own")
	h.refuses(OpenRequest{PanelID: "own", ContextID: "ctx_shared", Template: "own"}, fserr.EINVAL)
}

// TestTemplateNeverMade opens a panel whose context cannot be made, and takes its template away.
func TestTemplateNeverMade(t *testing.T) {
	h := prepared(t)
	h.repo("broken", "1")
	h.breakRepository("broken")
	h.write("own/context-template.yml", "deps: {/r: {repo: broken}}\n")
	h.refuses(OpenRequest{PanelID: "own"}, fserr.EIO, "own/context-template.yml:1")
	h.stop()
	h.start()
	// Nothing of it is left in memory: a host that acts for the panel asks the template again.
	h.write("own/context-template.yml", "deps: {/r: {repo: r}}\n")
	p, err := h.Bind(context.Background(), "own")
	if err != nil || !strings.HasPrefix(string(p.ContextID), "safe_tpl_") {
		t.Fatalf("bound to %+v, %v", p, err)
	}
	h.wantContext(OpenRequest{PanelID: "own"}, p.ContextID)
	h.write("gone/context-template.yml", "deps: {/r: {repo: broken}}\n")
	h.refuses(OpenRequest{PanelID: "gone"}, fserr.EIO)
	if err := os.Remove(filepath.Join(h.dir, "gone/context-template.yml")); err != nil {
		t.Fatal(err)
	}
	h.wantContext(OpenRequest{PanelID: "gone"}, "ctx_gone")
}

func TestTemplateContextsCollide(t *testing.T) {
	h := prepared(t)
	a := h.wantContext(OpenRequest{PanelID: "p/x", Template: "own"}, h.open("own").ContextID[:len("safe_tpl_0123456789ab_")]+"p~x")
	h.refuses(OpenRequest{PanelID: "p:x", Template: "own"}, fserr.EEXIST, string(a.ContextID), `"p/x"`)
	h.refuses(OpenRequest{PanelID: "P~x", Template: "own"}, fserr.EEXIST)
	h.wantContext(OpenRequest{PanelID: "p:x", ContextID: string(a.ContextID)}, a.ContextID)
	// The same over a move.
	h.open("q/x")
	h.open("q:y")
	h.wantContext(OpenRequest{PanelID: "q/x", Template: "own"}, a.ContextID[:len("safe_tpl_0123456789ab_")]+"q~x")
}

func TestConcurrentMoves(t *testing.T) {
	h := prepared(t)
	first := h.open("own")
	h.repo("r", "2")
	const n = 6
	opened := make([]Opened, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if opened[i], err = h.Open(context.Background(), OpenRequest{PanelID: "own"}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h.refused(first)
	for _, o := range opened {
		if o.ContextID != opened[0].ContextID || o.ContextID == first.ContextID {
			t.Errorf("opened %s and %s", o.ContextID, opened[0].ContextID)
		}
		h.admitted(o)
	}
	if len(h.closed) != 1 {
		t.Errorf("%v were closed", h.closed)
	}
}

// TestUnreachableRepositoryKeepsThePanel serves a repository by git's own HTTP program, and stops.
func TestUnreachableRepositoryKeepsThePanel(t *testing.T) {
	h := newHouse(t)
	h.repo("served/tools", "1")
	srv, stop := h.serveGit("served")
	h.stop()
	h.gitBase = srv
	h.start()
	h.write("own/context-template.yml", "deps: {/r: {repo: tools/.git}}\n")
	h.refuses(OpenRequest{PanelID: "own"}, fserr.EINVAL, "private")
	h.write("own/context-template.yml", "deps: {/r: {repo: bare}}\n")
	first := h.open("own")
	if first.TemplateUnasked != "" || !strings.HasPrefix(string(first.ContextID), "safe_tpl_") {
		t.Errorf("opened %+v", first)
	}
	stop()
	again := h.open("own")
	if again.ContextID != first.ContextID || !strings.Contains(again.TemplateUnasked, "own/context-template.yml:1") || strings.Contains(again.TemplateUnasked, srv) {
		t.Errorf("opened %+v", again)
	}
	h.admitted(first)
	h.refuses(OpenRequest{PanelID: "other", Template: "own"}, fserr.EIO, "own/context-template.yml:1", "could not be asked")
	h.wantContext(OpenRequest{PanelID: "plain"}, "ctx_plain")
	h.refuses(OpenRequest{PanelID: "plain", Template: "own"}, fserr.EIO)
}

// serveGit serves the repository served/tools as "bare" and returns the URL below which it is.
func (h *house) serveGit(dir string) (url string, stop func()) {
	h.t.Helper()
	root := h.t.TempDir()
	if out, err := exec.Command("git", "clone", "-q", "--bare", filepath.Join(h.dir, dir, "tools"), filepath.Join(root, "bare")).CombinedOutput(); err != nil {
		h.t.Fatalf("clone: %v %s", err, out)
	}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	program := filepath.Join(strings.TrimSpace(string(path)), "git-http-backend")
	if _, err := os.Stat(program); errors.Is(err, os.ErrNotExist) {
		h.t.Skipf("not tested here: git has no %s", program)
	}
	s := httptest.NewServer(&cgi.Handler{Path: program, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}})
	stop = func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	}
	h.t.Cleanup(s.Close)
	return s.URL, stop
}

// interrupted calls then, once, after a template was resolved.
type interrupted struct {
	Templates
	then func()
}

func (i *interrupted) Resolve(ctx context.Context, path string) (*template.Resolved, error) {
	r, err := i.Templates.Resolve(ctx, path)
	if then := i.then; then != nil {
		i.then = nil
		then()
	}
	return r, err
}

// TestBranchMovesBetweenTwoOpens binds the panel elsewhere while its first open is under way.
func TestBranchMovesBetweenTwoOpens(t *testing.T) {
	h := prepared(t)
	var other Opened
	r := New(Config{Contexts: h.m, Store: h.store, Templates: &interrupted{h.m.Templates(), func() {
		h.repo("r", "2")
		other = h.open("own")
	}}})
	o, err := r.Open(context.Background(), OpenRequest{PanelID: "own"}, nil)
	if err != nil || o.ContextID != other.ContextID || other.ContextID == "" {
		t.Errorf("opened %+v and %+v, %v", o, other, err)
	}
	h.admitted(other)
}
