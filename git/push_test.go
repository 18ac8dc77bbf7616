package git_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/git/gittest"
)

const mainRef = "refs/heads/main"

// pushing is a repository r of a workspace, a bare clone of it, and commits of our own on top of it.
type pushing struct {
	*workspace
	local *git.Local
	bare  *git.Bare
	// own is the bare repository.
	own string
	// remote is the workspace that the bare repository team/tools.git is in. first is what both have, staged is what is to be pushed.
	remote        *gittest.Workspace
	first, staged string
}

func newPushing(t *testing.T) *pushing {
	t.Helper()
	p := &pushing{workspace: newWorkspace(t), remote: gittest.New(t)}
	p.first = p.Repo("r", "f=1\n2\n3\n4\n5\n", "gone=x")
	p.Must(os.Mkdir(p.remote.In("team"), 0o755))
	p.remote.Git("", nil, "clone", "-q", "--bare", p.In("r"), "team/tools.git")
	repo, err := p.open("r")
	must(t, err)
	p.local = repo.(*git.Local)
	p.own = p.Own("r")
	p.bare, err = p.local.Bare(t.Context(), p.own)
	must(t, err)
	p.staged = p.CommitIn(p.own, p.first, "f=1\n2\n3\n4\nfive\n", "new=n", "gone")
	return p
}

// address is that of the bare repository below a server's URL, with user and password.
func (p *pushing) address(base string) git.Address {
	p.T.Helper()
	return parse(p.T, strings.Replace(base, "://", "://user:s3cret@", 1)+"/team/tools.git")
}

func parse(t testing.TB, raw string) git.Address {
	t.Helper()
	a, err := git.ParseAddress(raw)
	must(t, err)
	return a
}

func (p *pushing) push(a git.Address, from string) error {
	p.T.Helper()
	return p.bare.Push(p.T.Context(), a, mainRef, from, p.staged, false)
}

// at returns what a ref of the bare repository names.
func (p *pushing) at(ref string) string {
	p.T.Helper()
	return p.remote.Git("team/tools.git", nil, "for-each-ref", "--format=%(objectname)", ref)
}

// wantKind checks that a push failed in a way, without the password and server paths in its words.
func wantKind(t testing.TB, err, kind error) *git.RemoteError {
	t.Helper()
	var e *git.RemoteError
	if !errors.As(err, &e) || !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
	if text := e.Error() + e.Err.Error(); strings.Contains(text, "s3cret") {
		t.Errorf("the error shows the password: %s", text)
	}
	return e
}

func TestPushOverHTTP(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	a := p.address(p.remote.ServePrivate("user", "s3cret", nil).URL)
	at, err := p.bare.RemoteRef(t.Context(), a, mainRef)
	if err != nil || at != p.first {
		t.Fatalf("the remote's branch is %q (%v)", at, err)
	}
	must(t, p.bare.Push(t.Context(), a, mainRef, p.first, p.staged, true))
	if p.at(mainRef) != p.first {
		t.Error("a dry run moved the branch")
	}
	must(t, p.push(a, p.first))
	if p.at(mainRef) != p.staged {
		t.Errorf("the branch is at %s", p.at(mainRef))
	}
	must(t, p.bare.Push(t.Context(), a, "refs/heads/made", "", p.staged, false))
	wantKind(t, p.bare.Push(t.Context(), a, "refs/heads/made", "", p.CommitIn(p.own, p.staged, "f=other"), false), git.ErrMoved)
	p.remote.Git("team/tools.git", nil, "fsck", "--strict")
	p.checkClean()
}

func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, password string
		prepare        func(p *pushing)
		wrap           func(http.Handler) http.Handler
		kind           error
		words          string
	}{
		{"moved", "s3cret", func(p *pushing) {
			p.remote.Git("team/tools.git", nil, "update-ref", mainRef, p.remote.Git("team/tools.git", nil, "commit-tree", "-m", "other", "-p", p.first, p.first+"^{tree}"))
		}, nil, git.ErrMoved, "stale info"},
		{"refused by a hook", "s3cret", func(p *pushing) {
			hook(p, "pre-receive", "printf 'the branch is \\033[31mprotected\\007, s3cret\\n' >&2; exit 1")
		}, nil, git.ErrRefused, "protected"},
		{"redirected", "s3cret", nil, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/team/") {
					http.Redirect(out, r, strings.Replace(r.URL.String(), "/team/", "/elsewhere/../team/", 1), http.StatusFound)
					return
				}
				next.ServeHTTP(out, r)
			})
		}, git.ErrUnreachable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPushing(t)
			if c.prepare != nil {
				c.prepare(p)
			}
			was := p.at(mainRef)
			e := wantKind(t, p.push(p.address(p.remote.ServePrivate("user", c.password, c.wrap).URL), p.first), c.kind)
			if !strings.Contains(e.Words, c.words) || strings.ContainsAny(e.Words, "\x1b\x07\n") {
				t.Errorf("the remote's words are %q, want %q", e.Words, c.words)
			}
			if p.at(mainRef) != was {
				t.Error("the branch moved")
			}
			p.checkClean()
		})
	}
}

func hook(p *pushing, name, script string) {
	p.Must(os.WriteFile(p.remote.In("team/tools.git/hooks/"+name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	_, err := p.bare.RemoteRef(t.Context(), p.address(p.remote.ServePrivate("user", "other", nil).URL), mainRef)
	wantKind(t, err, git.ErrAuth)
}

// Everybody may read, and nobody may push without a password.
func TestPushWithoutPassword(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	free, private := p.remote.Serve(false), p.remote.ServePrivate("user", "other", nil)
	both := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.String(), "receive-pack") {
			private.Config.Handler.ServeHTTP(out, r)
			return
		}
		free.Config.Handler.ServeHTTP(out, r)
	}))
	t.Cleanup(both.Close)
	wantKind(t, p.push(p.address(both.URL), p.first), git.ErrAuth)
}

func TestPushToAServerThatIsDown(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	server := p.remote.ServePrivate("user", "s3cret", nil)
	server.Close()
	wantKind(t, p.push(p.address(server.URL), p.first), git.ErrUnreachable)
	if _, err := p.bare.RemoteRef(t.Context(), p.address(server.URL), mainRef); !errors.Is(err, git.ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}

func TestPushWhoseConnectionIsLost(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	must(t, p.push(p.address(p.remote.ServePrivate("user", "s3cret", gittest.CutAfterPush).URL), p.first))
	if p.at(mainRef) != p.staged {
		t.Error("the push was reported done, and was not")
	}
}

// The remote carries out the push, does not say so, and is gone when it is asked.
func TestPushThatMayHaveHappened(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	var gone atomic.Bool
	a := p.address(p.remote.ServePrivate("user", "s3cret", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if gone.Load() {
				panic(http.ErrAbortHandler)
			}
			if r.Method == http.MethodPost {
				gone.Store(true)
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(out, r)
		})
	}).URL)
	if e := wantKind(t, p.push(a, p.first), git.ErrUnreachable); !e.MayHaveHappened {
		t.Error("the error does not say that the push may have happened")
	}
}

// What the operator of a remote allows on this machine is pushed to as a directory.
func TestPushToADirectory(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	must(t, p.push(parse(t, p.remote.In("team/tools.git")), p.first))
	if p.at(mainRef) != p.staged {
		t.Error("the branch did not move")
	}
}

// The program of SSH_ASKPASS is not asked for a password.
func TestPushAsksNobodyForAPassword(t *testing.T) {
	p := newPushing(t)
	asked := filepath.Join(p.State, "asked")
	program := filepath.Join(p.State, "askpass")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+asked+"'\necho s3cret\n"), 0o755))
	for _, name := range []string{"SSH_ASKPASS", "GIT_ASKPASS"} {
		t.Setenv(name, program)
	}
	t.Setenv("DISPLAY", ":0")
	a := parse(t, strings.Replace(p.remote.ServePrivate("user", "s3cret", nil).URL, "://", "://user@", 1)+"/team/tools.git")
	_, err := p.bare.RemoteRef(t.Context(), a, mainRef)
	wantKind(t, err, git.ErrAuth)
	if _, err := os.Stat(asked); err == nil {
		t.Error("a program was asked for the password")
	}
}

func TestBringMovesABranch(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	many := []string{}
	for i := range 150 {
		many = append(many, strings.Repeat("d/", i%3)+"f"+strings.Repeat("x", i)+"=content"+strings.Repeat("y", i))
	}
	for _, commit := range []string{p.staged, p.CommitIn(p.own, p.first, many...)} {
		must(t, p.bare.Bring(t.Context(), commit, p.first))
		m, err := p.local.Move(t.Context(), "refs/heads/side", "", commit, git.Identity{Name: "n", Email: "e@example.com"}, "push")
		must(t, err)
		must(t, m.Commit())
		p.Git("r", nil, "fsck", "--strict", "--connectivity-only")
		if got := p.Git("r", nil, "rev-parse", "side"); got != commit {
			t.Errorf("the branch is at %s, want %s", got, commit)
		}
		p.Git("r", nil, "branch", "-qD", "side")
	}
	p.checkClean()
}

func TestMergeOfTwoCommits(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	by := git.Identity{Name: "n", Email: "e@example.com"}
	beside := p.Commit("r", "f=one\n2\n3\n4\n5\n")
	id, conflicts, err := p.bare.Merge(t.Context(), beside, p.staged, git.Message{Text: "Merge\n", Author: by, Committer: by, At: time.Unix(1, 0)})
	if err != nil || len(conflicts) > 0 {
		t.Fatalf("conflicts %v, error %v", conflicts, err)
	}
	must(t, p.bare.Bring(t.Context(), id, beside, p.first))
	if got := p.Git("r", nil, "show", id+":f"); got != "one\n2\n3\n4\nfive" {
		t.Errorf("the merge has %q", got)
	}
	if got := p.Git("r", nil, "log", "-1", "--format=%P", id); got != beside+" "+p.staged {
		t.Errorf("the parents of the merge are %s", got)
	}
	against := p.Commit("r", "f=1\n2\n3\n4\n55\n")
	_, conflicts, err = p.bare.Merge(t.Context(), against, p.staged, git.Message{Text: "Merge\n", Author: by, Committer: by, At: time.Unix(1, 0)})
	if err != nil || len(conflicts) != 1 || conflicts[0] != "f" {
		t.Errorf("conflicts %q, error %v; want f", conflicts, err)
	}
	alone := p.Git("r", nil, "commit-tree", "-m", "alone", p.first+"^{tree}")
	if _, _, err = p.bare.Merge(t.Context(), alone, p.staged, git.Message{Text: "Merge\n", Author: by, Committer: by, At: time.Unix(1, 0)}); !errors.Is(err, git.ErrUnrelated) {
		t.Errorf("got %v, want ErrUnrelated", err)
	}
	for _, c := range []struct {
		commit, earlier string
		want            bool
	}{{p.staged, p.first, true}, {p.staged, p.staged, true}, {p.staged, beside, false}, {p.staged, strings.Repeat("1", 40), false}} {
		if got, err := p.bare.Follows(t.Context(), c.commit, c.earlier); err != nil || got != c.want {
			t.Errorf("%s follows %s: %v (%v), want %v", c.commit, c.earlier, got, err, c.want)
		}
	}
}

func TestChangesBetweenCommits(t *testing.T) {
	t.Parallel()
	p := newPushing(t)
	changes, err := p.bare.Deltas(t.Context(), p.first, p.staged)
	must(t, err)
	var got []string
	for _, c := range changes {
		kind := "update"
		if c.OldMode == 0 {
			kind = "create"
		} else if c.NewMode == 0 {
			kind = "delete"
		}
		got = append(got, kind+" "+c.Path)
	}
	if want := "update f,delete gone,create new"; strings.Join(got, ",") != want {
		t.Errorf("the changes are %v, want %s", got, want)
	}
	if changes, err = p.bare.Deltas(t.Context(), "", p.first); err != nil || len(changes) != 2 {
		t.Errorf("the first commit has the changes %v (%v)", changes, err)
	}
}

// A repository that names programs wherever git looks for them, beside hooks of the service's own repository.
func TestPushRunsNothing(t *testing.T) {
	tr := gittest.NewTrap(t)
	w := over(tr.Workspace)
	repo, err := w.open("r")
	must(t, err)
	own := w.Own("r")
	safe := []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull}
	first := tr.Git("r", nil, append(safe, "rev-parse", "HEAD")...)
	staged := tr.CommitIn(own, first, "f=2")
	remote := gittest.New(t)
	must(t, os.Mkdir(remote.In("team"), 0o755))
	remote.Git("", nil, "init", "-q", "--bare", "team/tools.git")
	source, err := repo.(*git.Local).Bare(t.Context(), own)
	must(t, err)
	a := parse(t, strings.Replace(remote.ServePrivate("user", "s3cret", nil).URL, "://", "://user:s3cret@", 1)+"/team/tools.git")
	tr.WasSprung()
	must(t, source.Push(t.Context(), a, mainRef, "", staged, false))
	must(t, source.Fetch(t.Context(), a, mainRef, staged))
	must(t, source.Bring(t.Context(), staged, first))
	by := git.Identity{Name: "n", Email: "e@example.com"}
	m, err := repo.(*git.Local).Move(t.Context(), "refs/heads/side", "", staged, by, "push")
	must(t, err)
	must(t, m.Commit())
	_, _, err = source.Merge(t.Context(), first, staged, git.Message{Text: "Merge\n", Author: by, Committer: by, At: time.Unix(1, 0)})
	must(t, err)
	if tr.WasSprung() {
		t.Error("the repository's program ran")
	}
}

// What git takes for a trailer has the key that TrailerKey returns.
func TestTrailerKeysAreThoseOfGit(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	for _, between := range []string{"", " ", "\t", " \t ", "\r", "\v", "\u00a0", ".", "=", " x"} {
		for _, before := range []string{"", " ", "\t", "-", "#", "\r", "\ufeff"} {
			for _, key := range []string{"Ctxfs-Panel", "cTXFS-pANEL", "Ctxfs Panel", "Ctxfs_Panel"} {
				line := before + key + between + ": panels/other"
				parsed := w.Git("", []byte("subject\n\nSee: x\n"+line+"\n"), "interpret-trailers", "--parse", "--no-divider")
				_, last, _ := strings.Cut(parsed, "\n")
				want, _, _ := strings.Cut(last, ":")
				if got := git.TrailerKey(line); got != want {
					t.Errorf("the key of %q is %q, and git's is %q", line, got, want)
				}
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for raw, shown := range map[string]string{
		"https://user:pw@Example.com/a//b.git": "https://example.com/a/b.git", "ssh://git@example.com:22/a": "ssh://example.com:22/a",
		"git@example.com:acme/x.git": "ssh://example.com/~/acme/x.git", "example.com:/srv/x": "ssh://example.com/srv/x",
		"/srv/git/x": "file:///srv/git/x", "file:///srv/git/x": "file:///srv/git/x", "http://127.0.0.1:8080/x": "http://127.0.0.1:8080/x",
	} {
		if a, err := git.ParseAddress(raw); err != nil || a.String() != shown {
			t.Errorf("%s is %s (%v), want %s", raw, a, err, shown)
		}
	}
	for _, raw := range []string{
		"", "-oProxyCommand=x", "ext::sh -c x", "../x", "x/y", "ssh://-oProxyCommand=x/y", "git://example.com/x", "https://example.com/a/../b",
		"https://example.com/%2e%2e/b", "https://example.com/a%2Fb", "https://a\\@evil/x", "https://example.com/x?y", "example.com::x", "https:///x",
		"file://host/x", "file://u:p@/x", "ssh://u:p@example.com/x", "ssh://-oProxyCommand=x@example.com/y", "https://u:p%0aq@example.com/x", "https://example.com/x\ny", "-evil:x",
	} {
		if a, err := git.ParseAddress(raw); err == nil {
			t.Errorf("%q was accepted as %s", raw, a)
		}
	}
	for _, c := range []struct {
		raw, prefix string
		want        bool
	}{
		{"https://u:p@example.com/acme/x.git", "https://example.com/acme", true}, {"https://example.com/acme", "https://example.com/acme/", true},
		{"https://example.com/acme-evil/x", "https://example.com/acme", false}, {"https://example.com.evil/acme/x", "https://example.com", false},
		{"https://example.com/x", "https://example.com", true}, {"http://example.com/x", "https://example.com", false},
		{"git@example.com:acme/x", "example.com:acme", true}, {"git@example.com:acme/x", "ssh://example.com/acme", false}, {"/srv/git/x", "/srv/git", true},
	} {
		if got := parse(t, c.raw).IsWithin(parse(t, c.prefix)); got != c.want {
			t.Errorf("%s is within %s: %v, want %v", c.raw, c.prefix, got, c.want)
		}
	}
}

func TestRemotesOfARepository(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r")
	w.Write("r/more", "[remote \"included\"]\n\turl = https://example.com/included\n")
	for _, args := range [][]string{
		{"remote", "add", "origin", "https://user:s3cret@example.com/x"}, {"remote", "add", "odd", "ext::sh -c x"},
		{"remote", "add", "split", "https://example.com/fetch"}, {"config", "remote.split.pushurl", "ext::sh -c x"},
		{"config", "url.ext::sh.insteadOf", "https://"}, {"config", "include.path", "../more"},
		{"remote", "add", "two", "https://example.com/1"}, {"config", "--add", "remote.two.pushurl", "https://example.com/2"}, {"config", "--add", "remote.two.pushurl", "https://example.com/3"},
	} {
		w.Git("r", nil, args...)
	}
	repo, err := w.open("r")
	must(t, err)
	remotes, err := repo.(*git.Local).Remotes(t.Context())
	must(t, err)
	var got []string
	for _, r := range remotes {
		got = append(got, r.Name+" "+r.Fetch.String()+" "+r.Push.String())
		if (r.PushErr == nil) != (r.Push.String() != "") || (r.FetchErr == nil) != (r.Fetch.String() != "") {
			t.Errorf("%s: the errors are %v and %v", r.Name, r.FetchErr, r.PushErr)
		}
	}
	want := "odd  |origin https://example.com/x https://example.com/x|split https://example.com/fetch |two https://example.com/1 "
	if strings.Join(got, "|") != want {
		t.Errorf("the remotes are %q, want %q", strings.Join(got, "|"), want)
	}
}
