package repos

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/internal/long"
	"github.com/ctxfs/ctxfs/review"
)

const lines = "l1\nl2\nl3\nl4\nl5\n"

// newPush makes a repository app, with a branch side, whose context changed f, and the bare repository team/app.git of a remote.
func newPush(t testing.TB) (w *world, remote *gittest.Workspace) {
	t.Helper()
	w, remote = newWorld(t), gittest.New(t)
	w.Repo("app", "f="+lines, "other=1\n")
	w.Git("app", nil, "branch", "side")
	must(t, os.Mkdir(remote.In("team"), 0o755))
	remote.Git("", nil, "clone", "-q", "--bare", w.In("app"), "team/app.git")
	w.seed("app")
	w.edit(map[string]string{"app/f": "l1\nl2\nl3\nl4\nl5 AGENT\n", "app/new": "n\n"})
	return w, remote
}

// withRemote names the bare repository origin, at a server's URL with user and password.
func (w *world) withRemote(base string) {
	w.t.Helper()
	w.Git("app", nil, "remote", "add", "origin", strings.Replace(base, "://", "://user:s3cret@", 1)+"/team/app.git")
}

func (w *world) push(s *Staged, req PushRequest) (*Pushed, error) {
	w.t.Helper()
	req.ID, req.Actor = s.ID, "host"
	if req.Expected == "" {
		req.Expected = s.Commit
	}
	if req.Target == "" {
		req.Target = ToBranch
	}
	return w.repos.Push(w.t.Context(), req)
}

func (w *world) mustPush(s *Staged, req PushRequest) *Pushed {
	w.t.Helper()
	out, err := w.push(s, req)
	must(w.t, err)
	return out
}

// branch returns what a branch of app names; "" for nothing.
func (w *world) branch(name string) string {
	w.t.Helper()
	return w.Git("app", nil, "for-each-ref", "--format=%(objectname)", "refs/heads/"+name)
}

// changed returns the paths of the context's changes.
func (w *world) changed() string {
	w.t.Helper()
	l, err := w.reviews.Changes(w.t.Context(), review.Query{Context: ctxID})
	must(w.t, err)
	must(w.t, l.Close())
	var paths []string
	for _, c := range l.Changes {
		paths = append(paths, string(c.Path))
	}
	return strings.Join(paths, " ")
}

// sound checks that app has no damage, no lock and nothing of ours, and that no scratch is left.
func (w *world) sound() {
	w.t.Helper()
	w.Git("app", nil, "fsck", "--strict", "--no-dangling")
	for _, pattern := range []string{w.In("app/.git/*.lock"), w.In("app/.git/refs/heads/*.lock"), w.In("app/.git/*ctxfs*"), filepath.Join(w.dir, "scratch", "*")} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			w.t.Errorf("left is %v (%v)", left, err)
		}
	}
}

func wantReason(t testing.TB, err error, reason Reason) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
	if text := fmt.Sprint(e.Error(), e.Err); strings.Contains(text, "s3cret") {
		t.Errorf("the error shows the password: %s", text)
	}
	return e
}

func TestPushCreatesTheBranchThatStageNamed(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	s := w.mustStage(StageRequest{})
	before := treeOf(t, w.In("app/f"))
	out := w.mustPush(s, PushRequest{})
	if out.Commit != s.Commit || out.Branch != s.Branch || out.Previous != "" || out.URL != "/app" || out.At.IsZero() {
		t.Errorf("the result is %+v", out)
	}
	if w.branch(s.Branch) != s.Commit {
		t.Errorf("the branch is at %q", w.branch(s.Branch))
	}
	sameTree(t, "the file", treeOf(t, w.In("app/f")), before)
	if left := w.changed(); left != "" {
		t.Errorf("these changes are left: %s", left)
	}
	kept, err := w.repos.ListStaged(t.Context(), ctxID, true)
	if err != nil || len(kept) != 1 || kept[0].Pushed == nil || kept[0].Pushed.Commit != s.Commit || kept[0].Pushing != nil {
		t.Errorf("the record is %+v (%v)", kept, err)
	}
	again := w.mustPush(s, PushRequest{})
	if !again.At.Equal(out.At) {
		t.Errorf("pushing again has the result %+v", again)
	}
	w.sound()
}

func TestPushToExistingBranch(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	s := w.mustStage(StageRequest{Branch: "side", Files: []review.Path{"app/f"}})
	var phases []Phase
	dry := w.mustPush(s, PushRequest{DryRun: true})
	if !dry.At.IsZero() || dry.Commit != s.Commit || w.branch("side") == s.Commit {
		t.Errorf("the dry run has the result %+v", dry)
	}
	out := w.mustPush(s, PushRequest{Progress: func(p Phase) { phases = append(phases, p) }})
	if w.branch("side") != s.Commit || out.Previous != s.Parent {
		t.Errorf("the branch is at %s, the result %+v", w.branch("side"), out)
	}
	if got := fmt.Sprint(phases); got != fmt.Sprint([]Phase{Checking, Moving, Advancing}) {
		t.Errorf("the phases are %s", got)
	}
	if left := w.changed(); left != "app/new" {
		t.Errorf("these changes are left: %q", left)
	}
	w.sound()
}

// The user has staged and dirty files. They are the same bytes afterwards, and the commit has the context's lines alone.
func TestPushToTheWorkingTreeKeepsTheUsersFiles(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	w.Write("app/other", "dirty\n")
	w.Write("app/mine", "staged\n")
	w.Git("app", nil, "add", "mine")
	w.Write("app/mine", "and dirty\n")
	s := w.mustStage(StageRequest{Branch: "main"})
	w.mustPush(s, PushRequest{Target: ToWorktree})
	if got := w.Git("app", nil, "status", "--porcelain"); got != "AM mine\n M other" {
		t.Errorf("the status is %q", got)
	}
	if got := w.Git("app", nil, "show", "--format=%an", "--stat=60", "HEAD"); !strings.Contains(got, "2 files changed") {
		t.Errorf("the commit is %s", got)
	}
	for p, want := range map[string]string{"app/f": "l1\nl2\nl3\nl4\nl5 AGENT\n", "app/new": "n\n", "app/other": "dirty\n", "app/mine": "and dirty\n"} {
		if data, err := os.ReadFile(w.In(p)); err != nil || string(data) != want {
			t.Errorf("%s is %q (%v)", p, data, err)
		}
	}
	if w.branch("main") != s.Commit || w.changed() != "" {
		t.Errorf("main is at %s, and these changes are left: %q", w.branch("main"), w.changed())
	}
	w.sound()
}

func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		req     PushRequest
		prepare func(w *world)
		reason  Reason
		code    fserr.Code
		paths   string
	}{
		{name: "unknown ID", req: PushRequest{ID: strings.Repeat("a", 26)}, reason: NoStaged},
		{name: "another commit was reviewed", req: PushRequest{Expected: strings.Repeat("1", 40)}, reason: StaleBase},
		{name: "no such branch", req: PushRequest{Branch: "none"}, reason: NoRef},
		{name: "no such remote", req: PushRequest{Target: ToRemote}, reason: NoRef},
		{name: "remote that is a directory", req: PushRequest{Target: ToRemote}, prepare: func(w *world) { w.Git("app", nil, "remote", "add", "origin", w.Dir) }, code: fserr.EACCES},
		{name: "remote with a program", req: PushRequest{Target: ToRemote}, prepare: func(w *world) { w.Git("app", nil, "remote", "add", "origin", "ext::sh -c id") }, code: fserr.EACCES},
		{name: "panel without a list of remotes", req: PushRequest{Target: ToRemote, Panel: true}, prepare: func(w *world) { w.withRemote("http://127.0.0.1:1") }, code: fserr.EACCES},
		{name: "moved", prepare: func(w *world) { w.move("side", "f="+lines+"l6\n") }, reason: NonFastForward},
		{name: "moved to the same lines", req: PushRequest{Merge: true}, prepare: func(w *world) { w.move("side", "f=l1\nl2\nl3\nl4\nl5 USER\n") }, reason: Conflict, paths: "app/f"},
		{name: "checked out", req: PushRequest{Branch: "main"}, code: fserr.EINVAL},
		{name: "not checked out", req: PushRequest{Target: ToWorktree}, code: fserr.EINVAL},
		{name: "dirty", req: PushRequest{Target: ToWorktree, Branch: "main"}, prepare: func(w *world) { w.Write("app/f", "dirty\n") }, reason: WorktreeDirty, paths: "app/f"},
		{name: "detached", req: PushRequest{Target: ToWorktree, Branch: "main"}, prepare: func(w *world) { w.Git("app", nil, "checkout", "-q", "--detach") }, code: fserr.EINVAL},
		{name: "locked", req: PushRequest{Target: ToWorktree, Branch: "main"}, prepare: func(w *world) { w.Write("app/.git/index.lock", "") }, reason: Locked},
		{name: "unrelated", req: PushRequest{Merge: true}, prepare: func(w *world) {
			w.Git("app", nil, "update-ref", "refs/heads/side", w.Git("app", nil, "commit-tree", "-m", "alone", "main^{tree}"))
		}, reason: NonFastForward},
		{name: "bad name", req: PushRequest{Branch: "a..b"}, code: fserr.EINVAL},
		{name: "remote for a branch of the workspace", req: PushRequest{Remote: "origin"}, code: fserr.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newPush(t)
			s := w.mustStage(StageRequest{Branch: "side"})
			if c.prepare != nil {
				c.prepare(w)
			}
			before, changes := treeOf(t, w.Dir), w.changed()
			id := s.ID
			if c.req.ID != "" {
				s.ID = c.req.ID
			}
			_, err := w.push(s, c.req)
			if c.reason != "" {
				e := wantReason(t, err, c.reason)
				if got := strings.Join(e.Paths, " "); got != c.paths {
					t.Errorf("the paths are %q, want %q", got, c.paths)
				}
			} else if fserr.CodeOf(err) != c.code {
				t.Errorf("got %v, want %v", err, c.code)
			}
			kept, err := w.repos.Staged(t.Context(), "get", id)
			if err != nil || kept.Pushed != nil || kept.Pushing != nil {
				t.Errorf("the record is %+v (%v)", kept, err)
			}
			if got := w.changed(); got != changes {
				t.Errorf("the changes are %q, were %q", got, changes)
			}
			sameRefs(t, treeOf(t, w.Dir), before)
		})
	}
}

// sameRefs is sameTree without the objects, of which a refused push may leave some.
func sameRefs(t testing.TB, got, want map[string]string) {
	t.Helper()
	for _, tree := range []map[string]string{got, want} {
		for p := range tree {
			if strings.Contains(p, "/.git/objects") || strings.HasSuffix(p, "/.git") || strings.HasSuffix(p, "/refs/heads") {
				delete(tree, p)
			}
		}
	}
	sameTree(t, "the workspace", got, want)
}

// move commits to a branch that is not checked out.
func (w *world) move(branch string, files ...string) {
	w.t.Helper()
	w.Git("app", nil, "checkout", "-q", branch)
	w.Commit("app", files...)
	w.Git("app", nil, "checkout", "-q", "main")
}

func TestPushMerges(t *testing.T) {
	t.Parallel()
	for _, target := range []string{ToBranch, ToWorktree} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			w, _ := newPush(t)
			branch := map[string]string{ToBranch: "side", ToWorktree: "main"}[target]
			s := w.mustStage(StageRequest{Branch: branch})
			if branch == "main" {
				w.Commit("app", "f=l1 USER\nl2\nl3\nl4\nl5\n")
			} else {
				w.move(branch, "f=l1 USER\nl2\nl3\nl4\nl5\n")
			}
			was := w.branch(branch)
			out := w.mustPush(s, PushRequest{Target: target, Merge: true})
			if got := w.Git("app", nil, "show", branch+":f"); got != "l1 USER\nl2\nl3\nl4\nl5 AGENT" || w.branch(branch) != out.Commit || out.Previous != was {
				t.Errorf("the branch has %q, the result is %+v", got, out)
			}
			if got := w.Git("app", nil, "log", "-1", "--format=%P", branch); got != was+" "+s.Commit {
				t.Errorf("the parents are %s", got)
			}
			if got := w.Git("app", nil, "status", "--porcelain"); got != "" || w.changed() != "" {
				t.Errorf("the status is %q, and the changes %q", got, w.changed())
			}
			w.sound()
		})
	}
}

// All push to one branch at once: without merges one of them wins, with merges all do.
func TestManyPushesOfOneBranch(t *testing.T) {
	t.Parallel()
	for _, merge := range []bool{false, true} {
		t.Run(fmt.Sprint("merge ", merge), func(t *testing.T) {
			t.Parallel()
			w, _ := newPush(t)
			many := map[bool]int{false: long.Of(20, 50), true: long.Of(6, 12)}[merge]
			var staged []*Staged
			for i := range many {
				w.edit(map[string]string{"app/f": lines, "app/new": "", fmt.Sprintf("app/file%d", i): "x\n"})
				staged = append(staged, w.mustStage(StageRequest{Branch: "side", Files: []review.Path{review.Path(fmt.Sprintf("app/file%d", i))}}))
			}
			errs := make([]error, many)
			var wait sync.WaitGroup
			for i, s := range staged {
				wait.Go(func() { _, errs[i] = w.push(s, PushRequest{Merge: merge}) })
			}
			wait.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				wantReason(t, err, NonFastForward)
			}
			if want := map[bool]int{false: 1, true: many}[merge]; won != want {
				t.Errorf("%d pushes won, want %d", won, want)
			}
			if got := strings.Count(w.Git("app", nil, "ls-tree", "-r", "--name-only", "side"), "file"); got != won {
				t.Errorf("the branch has %d files of %d pushes", got, won)
			}
			w.sound()
		})
	}
}

func TestPushToRemote(t *testing.T) {
	t.Parallel()
	w, remote := newPush(t)
	w.withRemote(remote.ServePrivate("user", "s3cret", nil).URL)
	s := w.mustStage(StageRequest{Branch: "main", Files: []review.Path{"app/f"}})
	dry := w.mustPush(s, PushRequest{Target: ToRemote, DryRun: true})
	if dry.Commit != s.Commit || remote.Git("team/app.git", nil, "rev-parse", "main") == s.Commit {
		t.Errorf("the dry run has the result %+v", dry)
	}
	out := w.mustPush(s, PushRequest{Target: ToRemote})
	if got := remote.Git("team/app.git", nil, "rev-parse", "main"); got != s.Commit || out.Remote != "origin" || strings.Contains(out.URL, "s3cret") || !strings.HasSuffix(out.URL, "/team/app.git") {
		t.Errorf("the remote's branch is at %s, the result %+v", got, out)
	}
	if w.branch("main") == s.Commit || w.changed() != "app/new" {
		t.Errorf("the workspace's branch moved, or these changes are left: %q", w.changed())
	}
	data, err := os.ReadFile(filepath.Join(w.repos.dirOf(s.ID), recordName))
	if err != nil || strings.Contains(string(data), "s3cret") {
		t.Errorf("the record has the password: %s (%v)", data, err)
	}
	// The context's next change goes on top of what the remote has.
	w.edit(map[string]string{"app/f": "l1 MORE\nl2\nl3\nl4\nl5 AGENT\n"})
	next := w.mustStage(StageRequest{Branch: "main", Files: []review.Path{"app/f"}})
	wantReason(t, w.fails(next, PushRequest{Target: ToRemote}), NonFastForward)
	w.mustPush(next, PushRequest{Target: ToRemote, Merge: true})
	if got := remote.Git("team/app.git", nil, "show", "main:f"); got != "l1 MORE\nl2\nl3\nl4\nl5 AGENT" {
		t.Errorf("the remote has %q", got)
	}
	remote.Git("team/app.git", nil, "fsck", "--strict")
}

func (w *world) fails(s *Staged, req PushRequest) error {
	w.t.Helper()
	_, err := w.push(s, req)
	return err
}

func TestPushToRemoteIsRefused(t *testing.T) {
	t.Parallel()
	hook := "#!/bin/sh\necho protected >&2\nexit 1\n"
	for _, c := range []struct {
		name, password string
		prepare        func(remote *gittest.Workspace)
		reason         Reason
		words          string
	}{
		{"credentials", "other", nil, Auth, "refuses the server's credentials"},
		{"hook", "s3cret", func(r *gittest.Workspace) {
			r.Must(os.WriteFile(r.In("team/app.git/hooks/pre-receive"), []byte(hook), 0o755))
		}, Rejected, "protected"},
		{"moved", "s3cret", func(r *gittest.Workspace) {
			r.Git("team/app.git", nil, "update-ref", "refs/heads/main", r.Git("team/app.git", nil, "commit-tree", "-p", "main", "-m", "x", "main^{tree}"))
		}, NonFastForward, "got other commits"},
		{"gone", "s3cret", func(r *gittest.Workspace) { r.Must(os.RemoveAll(r.In("team/app.git"))) }, Unreachable, "does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, remote := newPush(t)
			w.withRemote(remote.ServePrivate("user", c.password, nil).URL)
			s := w.mustStage(StageRequest{Branch: "main"})
			if c.prepare != nil {
				c.prepare(remote)
			}
			if e := wantReason(t, w.fails(s, PushRequest{Target: ToRemote}), c.reason); !strings.Contains(e.Error(), c.words) {
				t.Errorf("the error is %q, want %q", e, c.words)
			}
			if kept, err := w.repos.Staged(t.Context(), "get", s.ID); err != nil || kept.Pushed != nil || kept.Pushing != nil || w.changed() == "" {
				t.Errorf("the record is %+v (%v)", kept, err)
			}
		})
	}
}

// The remote accepts the push, and the connection is lost before it says so.
func TestPushWhoseConnectionIsLost(t *testing.T) {
	t.Parallel()
	w, remote := newPush(t)
	w.withRemote(remote.ServePrivate("user", "s3cret", gittest.CutAfterPush).URL)
	s := w.mustStage(StageRequest{Branch: "main"})
	w.mustPush(s, PushRequest{Target: ToRemote})
	if got := remote.Git("team/app.git", nil, "rev-parse", "main"); got != s.Commit || w.changed() != "" {
		t.Errorf("the remote is at %s, and these changes are left: %q", got, w.changed())
	}
}

// The remote accepts the push, and is gone when it is asked. The next push finds out.
func TestPushThatMayHaveHappened(t *testing.T) {
	t.Parallel()
	w, remote := newPush(t)
	s, down := w.losePush(remote)
	if w.changed() == "" {
		t.Error("the base moved")
	}
	wantReason(t, w.fails(s, PushRequest{Target: ToRemote}), Unreachable)
	down.Store(false)
	out := w.mustPush(s, PushRequest{Target: ToRemote})
	if out.Commit != s.Commit || out.Previous != s.Parent || w.changed() != "" {
		t.Errorf("the result is %+v, and these changes are left: %q", out, w.changed())
	}
}

// losePush stages a commit and pushes it. The remote accepts it, and is gone when it is asked. It is back when down is false.
func (w *world) losePush(remote *gittest.Workspace) (s *Staged, down *atomic.Bool) {
	w.t.Helper()
	down = &atomic.Bool{}
	w.withRemote(remote.ServePrivate("user", "s3cret", func(next http.Handler) http.Handler {
		cut := gittest.CutAfterPush(next)
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if down.Load() {
				panic(http.ErrAbortHandler)
			}
			down.Store(r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack"))
			cut.ServeHTTP(out, r)
		})
	}).URL)
	s = w.mustStage(StageRequest{Branch: "main"})
	if e := wantReason(w.t, w.fails(s, PushRequest{Target: ToRemote}), Unreachable); !e.MayHaveHappened {
		w.t.Errorf("the error is %+v", e)
	}
	return s, down
}

// A remote has a commit, and did not say so. As long as it cannot be asked, no other push makes the server forget that, and a discard has to be forced.
func TestUnsettledPushIsNotForgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(w *world)
		code fserr.Code
		says Reason
	}{
		"dead":        {func(*world) {}, 0, Unreachable},
		"removed":     {func(w *world) { w.Git("app", nil, "remote", "remove", "origin") }, 0, NoRef},
		"not allowed": {func(w *world) { w.repos.cfg.Remotes = prefixes(w.t, "https://example.com/x") }, fserr.EACCES, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, remote := newPush(t)
			s, _ := w.losePush(remote)
			c.lose(w)
			for _, req := range []PushRequest{{Target: ToBranch, Branch: "checked-out-nowhere", Create: true}, {Target: ToWorktree, Branch: "side"}, {Target: ToRemote}} {
				if err := w.fails(s, req); c.says != "" {
					if e := wantReason(t, err, c.says); !e.MayHaveHappened {
						t.Errorf("%s: the error is %+v", req.Target, e)
					}
				} else {
					invalid(t, err, c.code, "it is not known whether")
				}
			}
			invalid(t, w.discard(s), fserr.EINVAL, "not known yet")
			kept, err := w.repos.Staged(t.Context(), "get", s.ID)
			if err != nil || kept.Pushing == nil || kept.Pushing.Remote != "origin" || w.branch("checked-out-nowhere") != "" {
				t.Errorf("the record is %+v (%v)", kept, err)
			}
			unsettled, err := w.repos.Discard(t.Context(), s.ID, true)
			if err != nil || unsettled == nil || unsettled.Commit != s.Commit || unsettled.Remote != "origin" {
				t.Errorf("the forced discard has the result %+v (%v)", unsettled, err)
			}
			w.onlyStaged()
		})
	}
}

// Another process changes the workspace, so that the base cannot move when the remote's branch has moved. The push says so in time, and the next one completes it.
func TestPushDoesNotWaitForEverOnceTheBranchHasMoved(t *testing.T) {
	t.Parallel()
	w, remote := newPush(t)
	w.withRemote(remote.ServePrivate("user", "s3cret", nil).URL)
	s := w.mustStage(StageRequest{Branch: "main"})
	w.repos.finishTime = 100 * time.Millisecond
	other := flock.New(filepath.Join(w.dir, "review", "apply.lock"))
	if ok, err := other.TryLock(); err != nil || !ok {
		t.Fatalf("the lock of the workspace: %v (%v)", ok, err)
	}
	if e := wantReason(t, w.fails(s, PushRequest{Target: ToRemote}), Locked); !e.MayHaveHappened || !strings.Contains(e.Detail, "has the commit") {
		t.Errorf("the error is %+v", e)
	}
	if got := remote.Git("team/app.git", nil, "rev-parse", "main"); got != s.Commit || w.changed() == "" {
		t.Errorf("the remote is at %s, and these changes are left: %q", got, w.changed())
	}
	must(t, other.Close())
	w.mustPush(s, PushRequest{Target: ToRemote})
	if w.changed() != "" {
		t.Errorf("these changes are left: %q", w.changed())
	}
}

// Hosts limit remotes, and allow panels and directories, by prefixes.
func TestAllowedRemotes(t *testing.T) {
	t.Parallel()
	w, remote := newPush(t)
	w.repos.cfg.Remotes = prefixes(t, remote.In("team"))
	w.Git("app", nil, "remote", "add", "origin", remote.In("team/app.git"))
	w.Git("app", nil, "remote", "add", "other", "https://example.com/x")
	s := w.mustStage(StageRequest{Branch: "main"})
	if err := w.fails(s, PushRequest{Target: ToRemote, Remote: "other"}); fserr.CodeOf(err) != fserr.EACCES {
		t.Errorf("a remote that is not in the list: %v", err)
	}
	w.mustPush(s, PushRequest{Target: ToRemote, Panel: true})
	if got := remote.Git("team/app.git", nil, "rev-parse", "main"); got != s.Commit {
		t.Errorf("the remote is at %s", got)
	}
}

func prefixes(t testing.TB, raw ...string) (out []git.Address) {
	t.Helper()
	for _, r := range raw {
		a, err := git.ParseAddress(r)
		must(t, err)
		out = append(out, a)
	}
	return out
}

// A repository names programs wherever its configuration and hooks can. None runs, whatever is pushed where.
func TestPushRunsNothing(t *testing.T) {
	tr := gittest.NewTrap(t)
	remote := gittest.New(t)
	must(t, os.Mkdir(remote.In("team"), 0o755))
	remote.Git("", nil, "init", "-q", "--bare", "team/app.git")
	url := remote.ServePrivate("user", "s3cret", nil).URL
	config, err := os.ReadFile(tr.In("r/.git/config"))
	must(t, err)
	origin := "[remote \"origin\"]\n\turl = " + strings.Replace(url, "://", "://user:s3cret@", 1) + "/team/app.git\n"
	tr.Write("r/.git/config", string(config)+origin)
	tr.Write("r/.git/info/attributes", "") // filters are refused when a commit is staged
	tr.CommitTree(tr.Tree(gittest.Entry{"100644", "f", tr.Blob(lines)}))
	tr.Write("r/f", lines)
	safe := []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.attributesFile=" + os.DevNull}
	tr.Git("r", nil, append(safe, "reset", "-q", "--hard")...)
	tr.Git("r", nil, append(safe, "branch", "side")...)
	w := &world{space: tr.Workspace, t: t, dir: tr.State}
	w.seed("r")
	w.edit(map[string]string{"r/f": "l1 AGENT\nl2\nl3\nl4\nl5\n"})
	staged := w.mustStage(StageRequest{Branch: "main"})
	beside := w.mustStage(StageRequest{Branch: "side"})
	tr.WasSprung()
	w.mustPush(staged, PushRequest{Target: ToRemote, Create: true})
	w.mustPush(staged, PushRequest{Target: ToWorktree})
	w.mustPush(beside, PushRequest{})
	w.mustPush(beside, PushRequest{Target: ToRemote, Branch: "main", Merge: true})
	if tr.WasSprung() {
		t.Error("a program of the repository ran")
	}
}

// The branch that is checked out is behind what the commit was staged on top of. The commits between come with it, and are no part of the context's base.
func TestPushBringsEarlierCommits(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	w.Commit("app", "other=2\n")
	s := w.mustStage(StageRequest{Branch: "main"})
	w.Git("app", nil, "checkout", "-q", "side")
	w.mustPush(s, PushRequest{Target: ToWorktree, Branch: "side"})
	if got := w.Git("app", nil, "status", "--porcelain"); got != "" || w.branch("side") != s.Commit {
		t.Errorf("the status is %q, and the branch at %s", got, w.branch("side"))
	}
	if data, err := os.ReadFile(w.In("app/other")); err != nil || string(data) != "2\n" {
		t.Errorf("other is %q (%v)", data, err)
	}
	if got := w.changed(); got != "" {
		t.Errorf("these changes are left: %q", got)
	}
}
