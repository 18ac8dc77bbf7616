package review

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// newHooked makes a repository with hooks, and a context with changes.
func newHooked(t *testing.T, hooks files) repos {
	t.Helper()
	w := newRepos(t, files{"a": "a\n", "dirty": "dirty\n"})
	for name, script := range hooks {
		write(t, w.in("workspace/.git/hooks"), files{name: "+x #!/bin/sh\n" + script})
	}
	write(t, w.in("workspace"), files{"dirty": "the user's\n"})
	write(t, w.in(id), files{"a": "agent\n", "new": "new\n"})
	return w
}

// commitHooked approves everything, and commits it with the hooks.
func (w repos) commitHooked(ctx context.Context) (*Entry, error) {
	req := w.committing("")
	req.Commit.RunHooks = true
	return w.reviews.Apply(ctx, req)
}

// wantNothing checks that a refused commit left nothing.
func (w repos) wantNothing() {
	w.t.Helper()
	if got := read(w.t, w.in("workspace")); got["a"] != "a\n" || got["new"] != "" || got["dirty"] != "the user's\n" {
		w.t.Errorf("the working tree is %q", got)
	}
	w.wantGit("1", "rev-list", "--count", "HEAD")
	if left, err := w.reviews.journal.ids(intentSuffix); err != nil || len(left) > 0 {
		w.t.Errorf("the journal has the intents %v (%v)", left, err)
	}
	w.sound("workspace")
}

func TestHooksSeeTheCommit(t *testing.T) {
	t.Parallel()
	w := newHooked(t, files{
		"pre-commit":         "git diff --cached --name-only HEAD >../pre-commit; cat a >>../pre-commit; echo \"$MARK $GIT_AUTHOR_NAME\" >>../pre-commit\n",
		"prepare-commit-msg": "echo \"$2\" >../prepare\n",
		"commit-msg":         "sed -i 's/^Subject$/Checked subject/' \"$1\"\n",
		"post-commit":        "git log -1 --format=%s >../post; git diff --cached --name-only >>../post; exit 1\n",
	})
	e, err := w.commitHooked(t.Context())
	must(t, err)
	same(t, "what the hooks saw", files{
		"pre-commit": read(t, w.dir)["pre-commit"], "prepare": read(t, w.dir)["prepare"], "post": read(t, w.dir)["post"],
	}, files{"pre-commit": "a\nnew\nagent\n Repo Owner\n", "prepare": "message\n", "post": "Checked subject\n"})
	want := []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"}
	logged, err := w.reviews.journal.read(e.ID, doneSuffix)
	must(t, err)
	for what, got := range map[string]*Entry{"the answer": e, "the journal": logged} {
		if !slices.Equal(got.Commits[0].Hooks, want) || got.Commits[0].ID != w.gitIn("workspace", "rev-parse", "HEAD") {
			t.Errorf("%s names the commits %+v", what, got.Commits)
		}
	}
	w.wantGit("Checked subject", "log", "-1", "--format=%s")
	w.wantGit(" M dirty", "status", "--porcelain")
	w.sound("workspace")
	_, err = w.undoCommit(e.ID, CommitOptions{RunHooks: true})
	must(t, err)
	w.wantGit("a", "show", "HEAD:a")
}

func TestHookThatRefusesTheCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hooks files
		want  string
	}{
		"pre-commit fails": {files{"pre-commit": "echo no tabs please; exit 1\n"}, "hook pre-commit failed: no tabs please"},
		"commit-msg fails": {files{"commit-msg": "echo bad subject >&2; exit 1\n"}, "hook commit-msg failed: bad subject"},
		"the index":        {files{"pre-commit": "git add dirty\n"}, "hook pre-commit changed the content of the commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHooked(t, c.hooks)
			_, err := w.commitHooked(t.Context())
			if refused := wantReason(t, err, HookFailed); !strings.Contains(refused.Detail, c.want) {
				t.Errorf("the refusal is %q, want %q", refused.Detail, c.want)
			}
			w.wantNothing()
		})
	}
}

func TestHookEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	w := newHooked(t, files{"pre-commit": "touch ../running; sleep 600\n"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := w.commitHooked(ctx)
		ended <- err
	}()
	clocktest.Await(t, "the hook runs", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the apply ended with %v", err)
		default:
		}
		_, err := os.Stat(w.in("running"))
		return err == nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the apply ended with %v", err)
	}
	w.wantNothing()
}

func TestHooksRunOnlyForWhatIsCheckedOut(t *testing.T) {
	t.Parallel()
	w := newHooked(t, files{"pre-commit": "touch ../ran\n"})
	req := w.committing("side")
	req.Commit.RunHooks = true
	if _, err := w.reviews.Apply(t.Context(), req); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("a branch: %v", err)
	}
	req = w.committing("")
	req.Commit.RunHooks, req.DryRun = true, true
	if _, err := w.reviews.Apply(t.Context(), req); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := os.Stat(w.in("ran")); err == nil {
		t.Error("a hook ran")
	}
	w.wantNothing()
}

// TestHooksOfTheConfiguration has hooks that git 2.54 and later find in the repository's configuration. Older versions run none of them.
func TestHooksOfTheConfiguration(t *testing.T) {
	t.Parallel()
	const scanner = "hook.secret scanner=1.x"
	configured := func(t *testing.T) repos {
		w := newHooked(t, nil)
		for _, event := range []string{"pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change", "post-checkout"} {
			w.gitIn("workspace", "config", "--add", scanner+".event", event)
		}
		w.gitIn("workspace", "config", scanner+".command", "touch "+w.in("ran")+"; cat >/dev/null </dev/null; echo a secret; false")
		return w
	}
	t.Run("without hooks", func(t *testing.T) {
		t.Parallel()
		w := configured(t)
		e, err := w.reviews.Apply(t.Context(), w.committing(""))
		must(t, err)
		_, err = w.undoCommit(e.ID, CommitOptions{})
		must(t, err)
		_, err = w.reviews.Apply(t.Context(), w.committing("side"))
		must(t, err)
		if _, err := os.Stat(w.in("ran")); err == nil {
			t.Error("a hook ran")
		}
	})
	t.Run("with hooks", func(t *testing.T) {
		t.Parallel()
		w := configured(t)
		w.gitIn("workspace", "config", "--unset-all", scanner+".event", "reference-transaction|post-index-change|post-checkout")
		if _, err := w.tryGit("workspace", "hook", "list", "pre-commit"); err != nil {
			t.Skipf("this git knows no hooks of the configuration: git hook list fails with %v", err)
		}
		_, err := w.commitHooked(t.Context())
		if refused := wantReason(t, err, HookFailed); !strings.Contains(refused.Detail, "hook pre-commit failed: a secret") {
			t.Errorf("the refusal is %q", refused.Detail)
		}
		w.wantNothing()
	})
}

// TestHookThatChangesFilesAndFails has a formatter for a hook. What it changed stays, with what was applied: the refusal names that, an undo takes it back, and
// the change can be applied again.
func TestHookThatChangesFilesAndFails(t *testing.T) {
	t.Parallel()
	const lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	w := newRepos(t, files{"a": lines, "b": lines, "same": lines})
	write(t, w.in("workspace/.git/hooks"), files{"pre-commit": "+x #!/bin/sh\necho hook >>a; git checkout -q HEAD -- same 2>&1; echo 0 | cat - b >b.new; exit 1\n"})
	write(t, w.in(id), files{"a": strings.Replace(lines, "2", "agent", 1), "b": strings.Replace(lines, "2", "agent", 1), "same": strings.Replace(lines, "2", "agent", 1)})
	_, err := w.commitHooked(t.Context())
	refused := wantReason(t, err, HookFailed)
	if !slices.Equal(refused.Paths, []Path{"a"}) || strings.Contains(refused.Error(), "nothing was applied") || !strings.Contains(refused.Hint, "undo entry 1") {
		t.Errorf("the refusal is %q and names %v", refused, refused.Paths)
	}
	got := read(t, w.in("workspace"))
	same(t, "the working tree", files{"a": got["a"], "b": got["b"], "same": got["same"]}, files{"a": strings.Replace(lines, "2", "agent", 1) + "hook\n", "b": lines, "same": lines})
	w.wantGit("1", "rev-list", "--count", "HEAD")
	undo := func(entry int64) {
		t.Helper()
		_, err := w.reviews.Undo(t.Context(), UndoRequest{ID: entry, Actor: "host", May: func(*Entry) error { return nil }})
		must(t, err)
	}
	undo(1)
	same(t, "the file after an undo", files{"a": read(t, w.in("workspace"))["a"]}, files{"a": lines + "hook\n"})
	undo(2)
	must(t, os.Remove(w.in("workspace/.git/hooks/pre-commit")))
	req := w.committing("")
	req.Target, req.Commit = ToWorkingTree, CommitOptions{}
	_, err = w.reviews.Apply(t.Context(), req)
	must(t, err)
	got = read(t, w.in("workspace"))
	agent := strings.Replace(lines, "2", "agent", 1)
	same(t, "what was applied again", files{"a": got["a"], "b": got["b"], "same": got["same"]}, files{"a": agent + "hook\n", "b": agent, "same": agent})
}
