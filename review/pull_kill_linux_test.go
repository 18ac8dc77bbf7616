package review

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// killPullEnv makes the reviewer pull.
const killPullEnv = "CTXFS_REVIEW_KILL_PULL"

// pulledOver is what a kill of a Pull is tried on.
var pulledOver = struct{ base, context, tree, pulled files }{
	files{"merged": numbered(9), "plain": "old\n", "gone/deep": "old\n", "todir": "f\n", "tofile/a": "a\n", "link": "-> plain", "run": "echo\n", "mine": "old\n"},
	files{
		"merged": byAgent(numbered(9)), "plain": "old\n", "gone/deep": "old\n", "todir": "f\n", "tofile/a": "a\n", "link": "-> plain", "run": "echo\n", "mine": "mine\n", "new": "n\n",
	},
	files{
		"merged": numbered(9) + "theirs\n", "plain": "new\n", "todir/a": "a\n", "tofile": "f\n", "link": "-> run", "run": "+x echo\n", "added/deep": "added\n", "mine": "old\n",
	},
	files{
		"merged": byAgent(numbered(9)) + "theirs\n", "plain": "new\n", "todir/a": "a\n", "tofile": "f\n", "link": "-> run", "run": "+x echo\n", "added/deep": "added\n", "mine": "mine\n", "new": "n\n",
	},
}

// bePulled is a reviewer that pulls and undoes that, until the phase at which it dies.
func bePulled(r *Reviews) error {
	ctx := context.Background()
	req := pulling(pulledOver.tree)
	for p := range pulledOver.base {
		req.Tracked[Path(p)] = true
	}
	done, err := r.Pull(ctx, req)
	if err != nil {
		return err
	}
	_, err = r.Undo(ctx, UndoRequest{ID: done.ID, Actor: "host", May: func(*Entry) error { return nil }})
	return err
}

// allPullPhases is more than bePulled passes.
const allPullPhases = 100

// TestPullKilledAtEachPhase kills a reviewer at phases of Pull and of its Undo. A start leaves the context and its base as they were before or after.
func TestPullKilledAtEachPhase(t *testing.T) {
	t.Parallel()
	phases := rand.Perm(allPullPhases)
	if os.Getenv(killsEnv) == "" {
		phases = phases[:fewPhases]
	}
	kills := 0
	for _, at := range phases {
		if killPullAt(t, 1+at) {
			kills++
		}
		if t.Failed() {
			t.Fatalf("killed at phase %d", 1+at)
		}
	}
	fmt.Printf("review: %d kills of a pull at as many phases\n", kills)
	if kills == 0 && len(phases) == allPullPhases {
		t.Error("the reviewer was never killed")
	}
}

// killPullAt reports whether the reviewer came as far as the phase.
func killPullAt(t *testing.T, at int) (killed bool) {
	t.Helper()
	w := newWorld(t, pulledOver.base)
	must(t, w.reviews.Close())
	must(t, os.RemoveAll(w.in(id)))
	must(t, os.Mkdir(w.in(id), 0o755))
	write(t, w.in(id), pulledOver.context)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killAtEnv+"="+strconv.Itoa(at), killPullEnv+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // on Linux
			t.Errorf("the reviewer: %v: %s", err, out)
		}
		killed = true
	}
	w.open()
	w.checkPulled()
	if left := reserved(t, w.dir); len(left) > 0 {
		t.Errorf("temporary names are left: %q", left)
	}
	return killed
}

// checkPulled checks that the context, its base and the journal say the same, and that the work can continue.
func (w *world) checkPulled() {
	w.t.Helper()
	entries, _, err := w.reviews.Journal(w.t.Context(), func(*Entry) bool { return true }, 0, 10)
	must(w.t, err)
	want, changes := pulledOver.context, "mine, merged, new"
	if len(entries) == 1 {
		want = pulledOver.pulled
	}
	same(w.t, "after the kill", read(w.t, w.in(id)), want)
	l := w.changes(Query{})
	for _, c := range l.Changes {
		if !strings.Contains(changes, string(c.Path)) {
			w.t.Errorf("after the kill %s is changed", c.Path)
		}
	}
	if len(l.Changes) != 3 {
		w.t.Errorf("after the kill there are %d changes", len(l.Changes))
	}
	w.mustPull(pulledOver.tree, pulledOver.base)
	same(w.t, "pulled again", read(w.t, w.in(id)), pulledOver.pulled)
}
