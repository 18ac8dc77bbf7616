package repos

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/review"
)

// newRemote has the repository app, whose remote origin is team/app.git behind an address that ends the call. The remote is one commit ahead.
func newRemote(t *testing.T, configure ...string) (w *world, srv *gittest.Workspace) {
	t.Helper()
	srv = gittest.New(t)
	srv.Repo("app", "f=1\n", "dir/g=1\n", ".gitattributes=*.big filter=lfs\n")
	srv.Write("app/f", "2\n")
	must(t, os.Mkdir(srv.In("team"), 0o755))
	srv.Git("", nil, "clone", "-q", "--bare", "app", "team/app.git")
	for _, setting := range configure {
		key, value, _ := strings.Cut(setting, "=")
		srv.Git("team/app.git", nil, "config", key, value)
	}
	w = newWorld(t)
	w.Git("", nil, "clone", "-q", srv.In("app"), "app")
	w.seed("app")
	must(t, os.Remove(srv.In("app/dir/g")))
	srv.Commit("app", "added/h=3\n")
	srv.Git("app", nil, "tag", "v2")
	srv.Git("app", nil, "push", "-q", "--tags", srv.In("team/app.git"), "main")
	return w, srv
}

func (w *world) origin(address string) { w.Git("app", nil, "config", "remote.origin.url", address) }

var pulledFromRemote = map[string]review.PullOutcome{"app/f": review.PullUpdated, "app/added/h": review.PullCreated, "app/dir/g": review.PullDeleted}

func TestPullFromARemote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configure []string
		old       bool
	}{
		"that sends single files":    {[]string{"uploadpack.allowFilter=true", "uploadpack.allowAnySHA1InWant=true"}, false},
		"that sends whole commits":   {nil, false},
		"that sends only its refs":   {nil, true},
		"that filters only its refs": {[]string{"uploadpack.allowFilter=true"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, srv := newRemote(t, c.configure...)
			w.origin(srv.Serve(c.old).URL + "/team/app.git")
			head := srv.Git("app", nil, "rev-parse", "HEAD")
			for _, ref := range []string{"", "main", "v2", head} {
				done, did := w.pull(PullRequest{Remote: "origin", Ref: ref})
				if !maps.Equal(did, pulledFromRemote) || done.Commit != head {
					t.Errorf("the pull of %q did %v of %s", ref, did, done.Commit)
				}
				w.wantContents(ref, files{"app/f": "2\n", "app/added/h": "3\n", "app/.gitattributes": "*.big filter=lfs\n"})
				w.undo(done.ID)
			}
			if left, err := os.ReadDir(w.repos.cfg.Git.Scratch); err != nil || len(left) != 0 {
				t.Errorf("the scratch has %v (%v)", left, err)
			}
		})
	}
}

func TestPullFromARemoteWithAuthentication(t *testing.T) {
	t.Parallel()
	w, srv := newRemote(t)
	base := srv.ServePrivate("agent", "s3cret", nil).URL
	before := w.contents()
	at := func(user string) string { return strings.Replace(base, "://", "://"+user, 1) + "/team/app.git" }
	for name, address := range map[string]string{"none": at(""), "wrong": at("agent:wr0ng@")} {
		w.origin(address)
		_, err := w.tryPull(PullRequest{Remote: "origin"})
		e := w.wantRefused(err, Auth, before)
		if text := e.Error() + e.Err.Error(); strings.Contains(text, "wr0ng") || strings.Contains(e.Error(), "127.0.0.1") {
			t.Errorf("credentials: %s: the error is %s", name, text)
		}
	}
	w.origin(at("agent:s3cret@"))
	if _, did := w.pull(PullRequest{Remote: "origin", Paths: []string{"f"}}); len(did) != 1 {
		t.Errorf("the pull did %v", did)
	}
	before["app/f"] = "2\n"
	w.wantContents("pulled", before)
	_, err := w.tryPull(PullRequest{Remote: "origin", Ref: "nothing"})
	w.wantRefused(err, NoRef, before)
	_, err = w.tryPull(PullRequest{Remote: "origin", Ref: strings.Repeat("1", 40)})
	if e := w.wantRefused(err, NoRef, before); strings.Contains(e.Error()+e.Err.Error(), "s3cret") {
		t.Errorf("the error is %v", e)
	}
}

func TestPullFromARemoteThatFails(t *testing.T) {
	t.Parallel()
	w, srv := newRemote(t)
	before := w.contents()
	stall := srv.ServePrivate("u", "p", func(http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
			http.Error(out, "broken", http.StatusInternalServerError)
		})
	})
	for _, address := range []string{"http://127.0.0.1:1/team/app.git", srv.Serve(false).URL + "/moved/app.git", srv.Serve(false).URL + "/gone.git", strings.Replace(stall.URL, "://", "://u:p@", 1) + "/x.git"} {
		w.origin(address)
		_, err := w.tryPull(PullRequest{Remote: "origin"})
		if e := w.wantRefused(err, Unreachable, before); !e.Retry() {
			t.Errorf("%v cannot be tried again", e)
		}
	}
	for _, address := range []string{srv.In("team/app.git"), "file://" + srv.In("team/app.git"), "ext::sh -c touch% /tmp/x", "git://127.0.0.1/x", "-oProxyCommand=x:y"} {
		w.origin(address)
		for _, panel := range []bool{false, true} {
			_, err := w.tryPull(PullRequest{Remote: "origin", Panel: panel})
			if fserr.CodeOf(err) != fserr.EACCES || panel && strings.Contains(err.Error(), srv.Dir) {
				t.Errorf("a pull from %s ended with %v", address, err)
			}
		}
	}
	w.origin(srv.Serve(false).URL + "/team/app.git")
	w.repos.cfg.MaxBytes = 10
	_, err := w.tryPull(PullRequest{Remote: "origin"})
	w.wantRefused(err, TooLarge, before)
}

// A panel pulls from what the operator allows, with the credentials of the server.
func TestPanelsPullFromAllowedRemotes(t *testing.T) {
	t.Parallel()
	w, srv := newRemote(t)
	base := srv.Serve(false).URL
	w.origin(base + "/team/app.git")
	for prefix, allowed := range map[string]bool{"": false, base + "/other": false, base + "/team": true} {
		w.repos.cfg.Remotes = nil
		if prefix != "" {
			a, err := git.ParseAddress(prefix)
			must(t, err)
			w.repos.cfg.Remotes = []git.Address{a}
		}
		_, err := w.tryPull(PullRequest{Remote: "origin", Panel: true, DryRun: true})
		if allowed && err != nil || !allowed && fserr.CodeOf(err) != fserr.EACCES {
			t.Errorf("with %q allowed the pull ended with %v", prefix, err)
		}
	}
}

// A server gives any commit of its repository to those who know the ID. A panel gets those that branches and tags contain.
func TestPanelPullsOnlyWhatARemoteNames(t *testing.T) {
	t.Parallel()
	w, srv := newRemote(t, "uploadpack.allowAnySHA1InWant=true", "uploadpack.allowFilter=true")
	base := srv.Serve(false).URL
	w.origin(base + "/team/app.git")
	a, err := git.ParseAddress(base)
	must(t, err)
	w.repos.cfg.Remotes = []git.Address{a}
	main := srv.Git("app", nil, "rev-parse", "main")
	secret := srv.Commit("app", "f=secret\n")
	hidden := srv.Git("app", nil, "commit-tree", "-m", "x", "-p", "main", "main^{tree}")
	srv.Git("app", nil, "push", "-q", srv.In("team/app.git"), "main:refs/pull/1/head", hidden+":refs/notes/kept")
	first := srv.Git("app", nil, "rev-parse", main+"^")
	before := w.contents()
	for _, ref := range []string{secret, hidden, strings.Repeat("1", 40)} {
		_, err := w.tryPull(PullRequest{Remote: "origin", Ref: ref, Panel: true})
		w.wantRefused(err, NoRef, before)
	}
	if _, err := w.tryPull(PullRequest{Remote: "origin", Ref: secret, DryRun: true}); err != nil {
		t.Errorf("a host pulls a commit that nothing names: %v", err)
	}
	for _, ref := range []string{main, first, "v2", "main", main[:9]} {
		if _, err := w.tryPull(PullRequest{Remote: "origin", Ref: ref, Panel: true, DryRun: true}); err != nil {
			t.Errorf("a panel pulls %s: %v", ref, err)
		}
	}
}

// A check whether a remote names a commit takes the history of all branches. The pulls of a panel do that one after the other.
func TestPanelFetchesOneHistoryAtATime(t *testing.T) {
	t.Parallel()
	w, srv := newRemote(t)
	var asking atomic.Int64
	open := make(chan struct{})
	base := srv.ServePrivate("u", "p", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			asking.Add(1)
			<-open
			next.ServeHTTP(out, r)
		})
	}).URL
	w.origin(strings.Replace(base, "://", "://u:p@", 1) + "/team/app.git")
	a, err := git.ParseAddress(base)
	must(t, err)
	w.repos.cfg.Remotes = []git.Address{a}
	first := srv.Git("app", nil, "rev-parse", "main^")
	ended := make(chan error, maxRunningOfContext)
	for range maxRunningOfContext {
		go func() {
			_, err := w.tryPull(PullRequest{Remote: "origin", Ref: first, Panel: true, DryRun: true})
			ended <- err
		}()
	}
	clocktest.Await(t, "one pull asks, and the others wait for it", func() bool {
		w.repos.mu.Lock()
		defer w.repos.mu.Unlock()
		l := w.repos.locks[historyOf+ctxID]
		return asking.Load() > 1 || asking.Load() == 1 && l != nil && l.users == maxRunningOfContext
	})
	if n := asking.Load(); n != 1 {
		t.Errorf("%d pulls ask at once", n)
	}
	close(open)
	for range maxRunningOfContext {
		must(t, <-ended)
	}
}

// Remotes count as the repository itself records them. A file that it includes, or rewriting, may come from anywhere.
func TestPullIgnoresIncludedRemotes(t *testing.T) {
	t.Parallel()
	w, srv := newRemote(t)
	before := w.contents()
	w.Git("app", nil, "remote", "remove", "origin")
	w.Write("included", "[remote \"origin\"]\n\turl = "+srv.Serve(false).URL+"/team/app.git\n")
	w.Git("app", nil, "config", "include.path", w.In("included"))
	_, err := w.tryPull(PullRequest{Remote: "origin"})
	w.wantRefused(err, NoRef, before)
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "none") {
		t.Errorf("the hint is %v", err)
	}
}
