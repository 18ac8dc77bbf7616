package repos

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/git/gittest"
)

// killPushEnv is a killedPush, as JSON: it makes the server of killDirEnv push.
const killPushEnv = "CTXFS_REPOS_KILL_PUSH"

// killedPush is a push during which the server kills itself, when it comes to Phase.
type killedPush struct {
	ID, Target, Phase string
	Repositories      []seed.Repository
}

// bePushing is the server of killPushEnv.
func bePushing(dir, push string) error {
	var k killedPush
	if err := json.Unmarshal([]byte(push), &k); err != nil {
		return err
	}
	w := &world{space: &gittest.Workspace{Dir: os.Getenv(killWorkspaceEnv), State: dir}, dir: dir}
	var err error
	if w.manifest, err = manifestOf(filepath.Join(dir, "layer")); err != nil {
		return err
	}
	w.manifest.Repos = k.Repositories
	ctx := context.Background()
	if err := w.reopen(ctx); err != nil {
		return err
	}
	s, err := w.repos.Staged(ctx, opPush, k.ID)
	if err != nil {
		return err
	}
	w.repos.point = func(phase string) {
		if phase == k.Phase {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	_, err = w.repos.Push(ctx, PushRequest{ID: k.ID, Expected: s.Commit, Target: k.Target, Actor: "host"})
	return errors.Join(err, w.reviews.Close())
}

// kill runs a server that pushes, and kills itself in a phase. Then the world starts again.
func (w *world) kill(s *Staged, target, phase string) {
	w.t.Helper()
	must(w.t, w.reviews.Close())
	push, err := json.Marshal(killedPush{s.ID, target, phase, w.manifest.Repos})
	must(w.t, err)
	cmd := exec.CommandContext(w.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killWorkspaceEnv+"="+w.Dir, killPushEnv+"="+string(push))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // on Linux
		w.t.Errorf("the server was not killed in phase %s: %v: %s", phase, err, out)
	}
	w.open()
}

func TestKilledPushToRemote(t *testing.T) {
	t.Parallel()
	for phase, happened := range map[string]bool{"intended": false, "moved": true, "advanced": true, "pushed": true} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			w, remote := newPush(t)
			w.withRemote(remote.ServePrivate("user", "s3cret", nil).URL)
			s := w.mustStage(StageRequest{Branch: "main"})
			w.kill(s, ToRemote, phase)
			if got := remote.Git("team/app.git", nil, "rev-parse", "main") == s.Commit; got != happened {
				t.Fatalf("the remote has the commit: %v", got)
			}
			must(t, w.repos.Settle(t.Context()))
			kept, err := w.repos.Staged(t.Context(), "get", s.ID)
			if err != nil || kept.Pushing != nil || (kept.Pushed != nil) != happened || (w.changed() == "") != happened {
				t.Errorf("the record is %+v (%v), and these changes are left: %q", kept, err, w.changed())
			}
			w.mustPush(s, PushRequest{Target: ToRemote})
			if w.changed() != "" {
				t.Errorf("these changes are left: %q", w.changed())
			}
		})
	}
}

// The server is killed, and the remote's branch gets other commits before the next start: on top of the pushed one, or instead of it.
func TestKilledPushToRemoteThatMovesOn(t *testing.T) {
	t.Parallel()
	for phase, happened := range map[string]bool{"intended": false, "moved": true} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			w, remote := newPush(t)
			w.withRemote(remote.ServePrivate("user", "s3cret", nil).URL)
			s := w.mustStage(StageRequest{Branch: "main"})
			w.kill(s, ToRemote, phase)
			remote.Git("team/app.git", nil, "update-ref", "refs/heads/main", remote.Git("team/app.git", nil, "commit-tree", "-p", "main", "-m", "next", "main^{tree}"))
			must(t, w.repos.Settle(t.Context()))
			kept, err := w.repos.Staged(t.Context(), "get", s.ID)
			if err != nil || kept.Pushing != nil || (kept.Pushed != nil) != happened || (w.changed() == "") != happened {
				t.Errorf("the record is %+v (%v), and these changes are left: %q", kept, err, w.changed())
			}
		})
	}
}

func TestKilledPushToTheWorkspace(t *testing.T) {
	t.Parallel()
	for _, target := range []string{ToBranch, ToWorktree} {
		for phase, happened := range map[string]bool{"intended": false, "advanced": true, "pushed": true} {
			t.Run(target+" "+phase, func(t *testing.T) {
				t.Parallel()
				w, _ := newPush(t)
				s := w.mustStage(StageRequest{Branch: map[string]string{ToBranch: "side", ToWorktree: "main"}[target]})
				w.kill(s, target, phase)
				kept, err := w.repos.Staged(t.Context(), "get", s.ID)
				if err != nil || kept.Pushing != nil || (kept.Pushed != nil) != happened || (w.changed() == "") != happened || (w.branch(s.Branch) == s.Commit) != happened {
					t.Errorf("the record is %+v (%v), and these changes are left: %q", kept, err, w.changed())
				}
				w.mustPush(s, PushRequest{Target: target})
				w.sound()
			})
		}
	}
}

// The server is killed after a push, and before its objects are gone. The next start, or collection, removes them.
func TestObjectsOfKilledPushesGo(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	s := w.mustStage(StageRequest{Branch: "side"})
	w.kill(s, ToBranch, "pushed")
	if left := w.objects(s); len(left) > 0 {
		t.Errorf("after a start, left are %v", left)
	}
	must(t, os.WriteFile(filepath.Join(w.repos.dirOf(s.ID), "objects", "pack", "pack-x.pack"), nil, 0o600))
	must(t, w.repos.Collect(t.Context()))
	if left := w.objects(s); len(left) > 0 {
		t.Errorf("after a collection, left are %v", left)
	}
}
