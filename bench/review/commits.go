package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// What is measured of commits.
const (
	stage         = "Stage"
	gitCommit     = "git add, git commit"
	push          = "Push"
	gitPush       = "git push"
	pushRemote    = "Push to a remote"
	gitPushRemote = "git push to a remote"
)

// author makes the commits, branch is where ctxfs pushes to and gitBranch where git does.
const author, branch, gitBranch = "bench <bench@localhost>", "ctxfs-bench", "git-bench"

// RunCommits measures how long commits of changed files and their pushes take, prints it and, with Options.Out, writes git.md. It
// ignores Options.Sizes.
func RunCommits(ctx context.Context, o Options, stdout, log io.Writer) error {
	machine := report.Describe(o.Dir)
	var rows []Row
	err := o.measure(ctx, o.Files, log, func(s *stand, driver string) error {
		bare, err := s.addRemote(ctx)
		if err != nil {
			return err
		}
		turn := 0 // all turns push to the same branches
		for changed := min(few, o.Most); changed <= o.Most; changed *= 10 {
			took := samples{}
			err := s.turns(func(int) error { turn++; return s.commit(ctx, took, turn, changed, bare) })
			if err != nil {
				return fmt.Errorf("%d changed: %w", changed, err)
			}
			rows = append(rows, Row{Files: o.Files, Changed: changed, Driver: driver, Took: took.medians()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	text := machine + ".\n\n" + commitText(rows, o.Rounds)
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	md := "# Commits and pushes\n\nWritten by `make bench-git`; [what they are](../how-to/git-push.md).\n\n" + text
	return os.WriteFile(filepath.Join(o.Out, "git.md"), []byte(md), 0o644)
}

// addRemote makes a bare repository, which is a remote of the workspace's and of the clone. No repository is packed while git is measured.
func (s *stand) addRemote(ctx context.Context) (bare string, err error) {
	app := filepath.Join(s.dir, "w", "app")
	bare = filepath.Join(s.dir, "bare.git")
	if err := s.git(ctx, ".", "clone", "-q", "--bare", app, bare); err != nil {
		return "", err
	}
	for _, repo := range []string{app, bare, s.clone} {
		err = errors.Join(err, s.git(ctx, repo, "config", "gc.auto", "0"), s.git(ctx, repo, "config", "maintenance.auto", "false"))
	}
	return bare, errors.Join(err, s.git(ctx, app, "remote", "add", "bare", bare))
}

// commit changes files, and stages and pushes them with ctxfs and with git in turns. The contents are new to every repository.
func (s *stand) commit(ctx context.Context, took samples, turn, changed int, bare string) error {
	if err := errors.Join(s.change(changed, 2*turn, s.folder), s.change(changed, 2*turn+1, s.clone)); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	g := s.client.Git("ctx_a")
	var staged *ctxfsv1.StagedCommit
	err := took.add(stage, func() (err error) {
		staged, err = g.Stage(ctx, &ctxfsv1.StageRequest{Repo: "/app", Branch: branch, Message: "change", Author: author})
		return err
	})
	if err == nil && int(staged.GetFileCount()) != changed {
		err = fmt.Errorf("%d files are staged, %d changed", staged.GetFileCount(), changed)
	}
	if err == nil {
		err = took.add(gitCommit, func() error { return s.gitCommit(ctx) })
	}
	if err != nil {
		return err
	}
	req := &ctxfsv1.PushRequest{Id: staged.GetId(), ExpectedCommit: staged.GetCommit(), Branch: branch, CreateBranch: true}
	pushTo := func(ours, theirs, address string) error {
		if err := s.flush(); err != nil {
			return err
		}
		if err := took.add(ours, func() error { _, err := g.Push(ctx, req, nil); return err }); err != nil {
			return err
		}
		return took.add(theirs, func() error { return s.git(ctx, s.clone, "push", "-q", address, "HEAD:refs/heads/"+gitBranch) })
	}
	if err := pushTo(push, gitPush, "origin"); err != nil {
		return err
	}
	req.Target, req.Remote = ctxfsv1.PushTarget_PUSH_TARGET_REMOTE, "bare"
	return pushTo(pushRemote, gitPushRemote, bare)
}

// flush writes everything to the disk, so that no side writes what the other one left, and waits until the file system's clock has ticked.
func (s *stand) flush() error {
	root, err := rootfs.Open(s.dir, rootfs.Options{})
	if err != nil {
		return err
	}
	time.Sleep(settle)
	return errors.Join(tree.SyncAll(root), root.Close())
}

func (s *stand) gitCommit(ctx context.Context) error {
	if err := s.git(ctx, s.clone, "add", "-A"); err != nil {
		return err
	}
	return s.git(ctx, s.clone, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-qm", "change")
}

func commitText(rows []Row, rounds int) string {
	t := &report.Table{Head: []string{"driver", ">changed"}}
	pairs := [][2]string{{stage, gitCommit}, {push, gitPush}, {pushRemote, gitPushRemote}}
	for _, p := range pairs {
		t.Head = append(t.Head, ">"+p[0], ">"+p[1], ">ratio")
	}
	files := 0
	for _, r := range rows {
		files = r.Files
		cells := []string{r.Driver, report.Thousands(int64(r.Changed))}
		for _, p := range pairs {
			ours, theirs := r.Took[p[0]], r.Took[p[1]]
			cells = append(cells, report.Duration(ours), report.Duration(theirs), report.Ratio(float64(ours)/float64(max(1, theirs))))
		}
		t.Add(cells...)
	}
	return fmt.Sprintf("## By number of changed files, of %s\n\n%s\nMedians of %d rounds, over the socket; each round measures both sides in turns. "+
		"Files have 1 KiB; one line of each changed file changed, to what neither repository has. Stage compares the context with its base, "+
		"and returns the diff of each file; git does neither. Stage and Push return when everything is on the disk; git leaves that to the system. Before each of them, what the other side wrote is flushed. Both push to a branch of the workspace's repository "+
		"that is not checked out, and then to a bare repository on the same disk. A ratio below 1 means that ctxfs is faster.\n",
		report.Thousands(int64(files)), t, rounds)
}
