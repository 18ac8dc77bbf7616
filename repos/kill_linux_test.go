package repos

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/review"
)

// killAtEnv is the number of the phase at which the server of killDirEnv kills itself, killWorkspaceEnv its workspace.
const (
	killAtEnv        = "CTXFS_REPOS_KILL_AT"
	killWorkspaceEnv = "CTXFS_REPOS_KILL_WORKSPACE"
)

// killed is the server of killDirEnv: it stages, prints what it has staged, and discards an earlier staged commit, until the phase at which it dies.
var killed = func(dir string) error {
	if push := os.Getenv(killPushEnv); push != "" {
		return bePushing(dir, push)
	}
	at, err := strconv.Atoi(os.Getenv(killAtEnv))
	if err != nil {
		return err
	}
	w := &world{space: &gittest.Workspace{Dir: os.Getenv(killWorkspaceEnv), State: dir}, dir: dir}
	if w.manifest, err = manifestOf(filepath.Join(dir, "layer")); err != nil {
		return err
	}
	w.manifest.Repos = append(w.manifest.Repos, seeded("app", ""))
	ctx := context.Background()
	if err := w.reopen(ctx); err != nil {
		return err
	}
	earlier, err := w.repos.ListStaged(ctx, ctxID, false)
	if err != nil {
		return err
	}
	phases := 0
	w.repos.point = func(string) {
		if phases++; phases == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	s, err := w.repos.Stage(ctx, StageRequest{Context: ctxID, Message: "m", Author: "A <a@example.com>"})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(s)
	}
	if err == nil {
		_, err = w.repos.Discard(ctx, earlier[0].ID, false)
	}
	return errors.Join(err, w.reviews.Close())
}

// A server that is killed leaves a staged commit as a whole or not at all, and its next start leaves nothing else.
func TestStagedCommitsSurviveAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	before := treeOf(t, w.Dir)
	for at := 1; ; at++ {
		earlier := w.mustStage(StageRequest{Message: "earlier"})
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killWorkspaceEnv+"="+w.Dir, killAtEnv+"="+strconv.Itoa(at))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		var exit *exec.ExitError
		wasKilled := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if err != nil && !wasKilled {
			t.Fatalf("phase %d: %v: %s", at, err, stderr.String())
		}
		must(t, w.reviews.Close())
		w.open()
		left, err := w.repos.ListStaged(t.Context(), ctxID, false)
		must(t, err)
		if len(out) > 0 { // it was acknowledged
			var s Staged
			must(t, json.Unmarshal(out, &s))
			if _, err := w.repos.Staged(t.Context(), "show", s.ID); err != nil {
				t.Errorf("phase %d: the staged commit that the server acknowledged: %v", at, err)
			}
		}
		w.onlyStaged(left...)
		for _, s := range left {
			got, err := w.repos.Get(t.Context(), s.ID)
			if err != nil || len(got.Files) != 1 || w.checkout(s)["f"] != "2\n" {
				t.Errorf("phase %d: staged commit %s is %+v (%v)", at, s.ID, got, err)
			}
			if w.gitStaged(s, "rev-parse", "refs/ctxfs/staged/"+s.ID) != s.Commit {
				t.Errorf("phase %d: the ref of %s does not name its commit", at, s.ID)
			}
			must(t, w.discard(s))
		}
		w.onlyStaged()
		sameTree(t, "the workspace", treeOf(t, w.Dir), before)
		if !wasKilled {
			if at < 6 || len(left) != 1 || left[0].ID == earlier.ID {
				t.Errorf("after %d phases %d staged commits are left", at, len(left))
			}
			return
		}
	}
}

// The contents that a push needs of the reviews stay as long as the staged commit does.
func TestContentsOfStagedCommitsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	s := w.mustStage(StageRequest{})
	blobs := filepath.Join(w.dir, "review", "blobs")
	count := func() (n int) {
		must(t, filepath.WalkDir(blobs, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
				err = os.Chtimes(name, longAgo, longAgo)
			}
			return err
		}))
		return n
	}
	reopen := func() {
		must(t, w.reviews.Close())
		w.open()
	}
	count()
	reopen()
	for _, v := range []review.Version{s.Changes[0].Before, s.Changes[0].After} {
		f, err := w.reviews.Contents().Open(v.Hash)
		if err != nil {
			t.Fatal(err)
		}
		must(t, f.Close())
	}
	must(t, w.discard(s))
	reopen()
	if n := count(); n != 0 {
		t.Errorf("the store has %d contents after the discard", n)
	}
}
