package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/git"
)

// killPushEnv is a file with a killedPush, as JSON: it makes the reviewer push.
const killPushEnv = "CTXFS_REVIEW_KILL_PUSH"

// killedPush is a push during which the reviewer kills itself, when it comes to Phase.
type killedPush struct {
	Phase, RequestID string
	Target           Target
	Branch, Old, New string
	Deltas           []git.Delta
	Base             []PickedChange
	Committer        git.Identity
}

func (k *killedPush) request(blob func(id string) (io.Reader, error)) PushRequest {
	return PushRequest{
		Context: id, Actor: "host", RequestID: k.RequestID, Target: k.Target, Branch: k.Branch, Old: k.Old, New: k.New, Deltas: k.Deltas, Base: k.Base,
		Committer: k.Committer, Note: "push", Blob: blob,
	}
}

// bePushing is a reviewer that pushes, until the phase at which it dies.
func bePushing(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var k killedPush
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	w := &world{dir: os.Getenv(killDirEnv)}
	if w.manifest, err = manifestOf(w.in("layer")); err != nil {
		return err
	}
	r, err := Open(context.Background(), Config{Contexts: w, Dir: w.in("state"), Workspace: w.in("workspace")})
	if err != nil {
		return err
	}
	r.point = oneByOne(func(phase string) {
		if phase == k.Phase {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	_, err = r.Push(context.Background(), k.request(func(id string) (io.Reader, error) {
		cmd := exec.Command("git", "cat-file", "blob", id)
		cmd.Dir = w.in("workspace")
		out, err := cmd.Output()
		return bytes.NewReader(out), err
	}))
	return errors.Join(err, r.Close())
}

// killPush runs a reviewer that pushes, and kills itself in a phase.
func (w repos) killPush(req PushRequest, phase string) {
	w.t.Helper()
	must(w.t, w.reviews.Close())
	k := killedPush{phase, req.RequestID, req.Target, req.Branch, req.Old, req.New, req.Deltas, req.Base, req.Committer}
	data, err := json.Marshal(k)
	must(w.t, err)
	must(w.t, os.WriteFile(w.in("push.json"), data, 0o600))
	cmd := exec.CommandContext(w.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killPushEnv+"="+w.in("push.json"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // on Linux
		w.t.Errorf("the reviewer was not killed in phase %s: %v: %s", phase, err, out)
	}
}

func TestKilledPush(t *testing.T) {
	t.Parallel()
	for phase, done := range map[string]bool{
		phaseBegun: false, phaseIntended: false, phaseTaken: false, "settled": false, "moved": true, phaseFinished: true, "done": true, "base moved": true,
	} {
		for _, target := range []Target{ToCommit, ToBranch} {
			t.Run(string(target)+" "+phase, func(t *testing.T) {
				t.Parallel()
				w := newPushed(t)
				branch := "main"
				if target == ToBranch {
					branch = "side"
					w.gitIn("workspace", "branch", "side")
				}
				req, old := w.pushing(target, branch), w.gitIn("workspace", "rev-parse", "main")
				w.killPush(req, phase)
				w.open()
				want, changes := old, "a gone/deep/x link new/deep/file run"
				if done {
					want, changes = req.New, ""
				}
				w.wantGit(want, "rev-parse", branch)
				w.wantGit("", "status", "--porcelain")
				if got := w.changed(); got != changes {
					t.Errorf("the changes are %q, want %q", got, changes)
				}
				if e, err := w.reviews.Requested(id, req.RequestID); err != nil || (e != nil) != done {
					t.Errorf("the journal has %v (%v)", e, err)
				}
				w.sound("workspace")
				_, err := w.push(req)
				must(t, err)
				w.wantGit(req.New, "rev-parse", branch)
				if done := w.rebase(RebaseRequest{}); len(done.Steps) > 0 {
					t.Errorf("the rebase did %v", done.Files())
				}
			})
		}
	}
}
