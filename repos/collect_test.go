package repos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// objects lists the objects and refs of a staged commit's own repository.
func (w *world) objects(s *Staged) (left []string) {
	w.t.Helper()
	for _, pattern := range []string{"objects/??/*", "objects/pack/*", "refs/ctxfs/staged/*"} {
		found, err := filepath.Glob(filepath.Join(w.repos.dirOf(s.ID), pattern))
		must(w.t, err)
		left = append(left, found...)
	}
	return left
}

// A push leaves no objects behind. The workspace's repository shows the commit afterwards.
func TestPushedObjectsGo(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	s := w.mustStage(StageRequest{Branch: "side"})
	if len(w.objects(s)) == 0 {
		t.Fatal("there are no objects to remove")
	}
	w.mustPush(s, PushRequest{})
	if left := w.objects(s); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	got, err := w.repos.Get(t.Context(), s.ID)
	if err != nil || len(got.Files) != 2 || !strings.Contains(got.Files[0].Diff, "+l5 AGENT") || got.Changes != nil {
		t.Errorf("the pushed commit is %+v (%v)", got, err)
	}
	w.mustPush(s, PushRequest{Branch: "further", Create: true})
	if w.branch("further") != s.Commit {
		t.Error("the pushed commit cannot be pushed again")
	}
}

// What was pushed to a remote is fetched from there for a push to another place. Until then the record says where it is.
func TestPushedToRemoteAndThenElsewhere(t *testing.T) {
	t.Parallel()
	w, remote := newPush(t)
	w.withRemote(remote.ServePrivate("user", "s3cret", nil).URL)
	s := w.mustStage(StageRequest{Branch: "main"})
	w.mustPush(s, PushRequest{Target: ToRemote})
	if left := w.objects(s); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	got, err := w.repos.Get(t.Context(), s.ID)
	if err != nil || len(got.Files) != 2 || !got.Files[0].Truncated || got.Files[0].Diff != "" {
		t.Errorf("the pushed commit is %+v (%v)", got, err)
	}
	refusedAs(t, w.repos.DiffStaged(t.Context(), got, nil, 3, &bytes.Buffer{}), NoStaged, "was pushed to branch main of "+strings.TrimSuffix(got.Pushed.URL, "/"))
	again := w.mustPush(s, PushRequest{Target: ToRemote})
	if !again.At.Equal(got.Pushed.At) {
		t.Errorf("pushing again has the result %+v", again)
	}
	w.mustPush(s, PushRequest{Target: ToWorktree})
	if w.branch("main") != s.Commit || len(w.objects(s)) > 0 {
		t.Errorf("main is at %s, and left are %v", w.branch("main"), w.objects(s))
	}
	w.sound()
}

func TestPushedToRemoteThatForgot(t *testing.T) {
	t.Parallel()
	w, remote := newPush(t)
	w.withRemote(remote.ServePrivate("user", "s3cret", nil).URL)
	s := w.mustStage(StageRequest{Branch: "main"})
	w.mustPush(s, PushRequest{Target: ToRemote})
	remote.Git("team/app.git", nil, "update-ref", "refs/heads/main", s.Parent)
	refusedAs(t, w.fails(s, PushRequest{Target: ToWorktree}), NoStaged, "was pushed to branch main")
}

// pushedCopies makes so many records of pushed commits of a context, each an hour older than the one before.
func (w *world) pushedCopies(s *Staged, context string, n int) (ids []string) {
	w.t.Helper()
	for i := range n {
		c := *s
		c.ID, c.Context = newID(), context
		c.Pushed = &Pushed{Commit: s.Commit, Branch: s.Branch, Target: ToBranch, At: time.Now().Add(-time.Duration(i+1) * time.Hour)}
		must(w.t, os.MkdirAll(filepath.Join(w.repos.dirOf(c.ID), "objects", "pack"), 0o700))
		must(w.t, w.repos.update(&c))
		ids = append(ids, c.ID)
	}
	return ids
}

// Of a context the newest records of pushed commits stay, and those of the last 30 days. What was not pushed stays in any case.
func TestRecordsOfPushedCommitsAreBounded(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	s := w.mustStage(StageRequest{Branch: "side"})
	kept := w.mustStage(StageRequest{Branch: "main"})
	ids := w.pushedCopies(s, ctxID, pushedKept+2)
	others := w.pushedCopies(s, "ctx_b", 3)
	old := *s
	old.ID, old.Context, old.Pushed = others[2], "ctx_b", &Pushed{Branch: "side", At: time.Now().Add(-pushedTime - time.Minute)}
	must(t, w.repos.update(&old))
	has := func(what string, id string, want bool) {
		t.Helper()
		if _, err := os.Stat(w.repos.dirOf(id)); (err == nil) != want {
			t.Errorf("%s: record %s is there: %v, want %v", what, id, err == nil, want)
		}
	}
	w.mustPush(s, PushRequest{})
	has("push", ids[pushedKept-2], true)
	has("push", ids[pushedKept-1], false)
	has("push", others[2], true) // it is of another context
	must(t, w.repos.Collect(t.Context()))
	has("collection", others[1], true)
	has("collection", others[2], false)
	has("collection", kept.ID, true)
	w.restart()
	if list, err := w.repos.ListStaged(t.Context(), "", true); err != nil || len(list) != pushedKept+2+1 {
		t.Errorf("there are %d records (%v)", len(list), err)
	}
}

// Many stage at once in one context: no more than there is room for, and each gets a branch of its own.
func TestManyStagesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	const room, callers = 3, 8
	s := w.mustStage(StageRequest{})
	for range maxStaged - room - 1 {
		c := *s
		c.ID, c.Branch = newID(), newID()
		must(t, os.MkdirAll(w.repos.dirOf(c.ID), 0o700))
		must(t, w.repos.update(&c))
	}
	var wait sync.WaitGroup
	staged, errs := make([]*Staged, callers), make([]error, callers)
	for i := range callers {
		wait.Go(func() { staged[i], errs[i] = w.stage(StageRequest{}) })
	}
	wait.Wait()
	branches := map[string]bool{s.Branch: true}
	for i, err := range errs {
		if err == nil {
			branches[staged[i].Branch] = true
			continue
		}
		refusedAs(t, err, TooLarge, fmt.Sprint(maxStaged))
	}
	if len(branches) != room+1 || w.repos.Holds()[ctxID].Unpushed != maxStaged {
		t.Errorf("the branches are %v, and held are %v", branches, w.repos.Holds())
	}
}

// Two contexts stage the same message at once. While one has not finished, the other takes another name.
func TestStagesOfTwoContextsTakeTwoNames(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	must(t, copyTree(w.inContext("."), filepath.Join(w.dir, "ctx_b")))
	var second *Staged
	w.repos.point = func(phase string) {
		if phase == "begun" && second == nil {
			second = &Staged{}
			var err error
			second, err = w.repos.Stage(t.Context(), StageRequest{Context: "ctx_b", Message: "Change it", Author: "A <a@example.com>"})
			must(t, err)
		}
	}
	if first := w.mustStage(StageRequest{}); first.Branch == second.Branch {
		t.Errorf("both have %s", first.Branch)
	}
}

// Every call that runs git waits for room, as long as its caller waits.
func TestGitIsBounded(t *testing.T) {
	t.Parallel()
	w, _ := newPush(t)
	s := w.mustStage(StageRequest{Branch: "side"})
	calls := map[string]func(ctx context.Context) error{
		"List":     func(ctx context.Context) error { _, err := w.repos.List(ctx, ctxID, true); return err },
		"Branches": func(ctx context.Context) error { _, err := w.repos.Branches(ctx, ctxID, "app"); return err },
		"Stage": func(ctx context.Context) error {
			_, err := w.repos.Stage(ctx, StageRequest{Context: ctxID, Message: "m", Author: "A <a@example.com>"})
			return err
		},
		"Get":        func(ctx context.Context) error { _, err := w.repos.Get(ctx, s.ID); return err },
		"DiffStaged": func(ctx context.Context) error { return w.repos.DiffStaged(ctx, s, nil, 3, &bytes.Buffer{}) },
		"Pull": func(ctx context.Context) error {
			_, err := w.repos.Pull(ctx, PullRequest{Context: ctxID, Repo: "app"})
			return err
		},
		"Push": func(ctx context.Context) error {
			_, err := w.repos.Push(ctx, PushRequest{ID: s.ID, Expected: s.Commit, Target: ToBranch})
			return err
		},
	}
	for name, room := range map[string]func() []func(){
		"of the context": func() []func() { return w.hold(ctxID, maxRunningOfContext) },
		"in all": func() (all []func()) {
			for i := range maxRunning {
				all = append(all, w.hold(fmt.Sprint("ctx_", i), 1)...)
			}
			return all
		},
	} {
		held := room()
		for call, f := range calls {
			// clock: the caller gives up, whenever that is
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if err := f(ctx); fserr.CodeOf(err) != fserr.ETIMEDOUT {
				t.Errorf("%s without room %s: %v", call, name, err)
			}
			cancel()
		}
		for _, leave := range held {
			leave()
		}
	}
	for _, call := range []string{"List", "Branches", "Get", "DiffStaged", "Stage", "Push"} {
		if err := calls[call](t.Context()); err != nil {
			t.Errorf("%s with room: %v", call, err)
		}
	}
}

// hold takes room of a context.
func (w *world) hold(id string, n int) (all []func()) {
	w.t.Helper()
	for range n {
		leave, err := w.repos.run(w.t.Context(), id)
		must(w.t, err)
		all = append(all, leave)
	}
	return all
}
