package review

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// stand is a server, a context in which files change, and a clone of the repository, for git, in which the same files change.
type stand struct {
	dir           string
	rounds, files int
	// folder is the repository in the context, clone is git's.
	folder, clone string
	review        *client.Review
	client        *client.Client
	end           func() error
}

// perDirectory is how many files lie in a directory. A file has lines lines of about 50 bytes.
const perDirectory, lines = 50, 20

// open makes the workspace, one repository of files of 1 KiB, and starts the server.
func (s *stand) open(ctx context.Context, driver string) error {
	app := filepath.Join(s.dir, "w", "app")
	s.clone = filepath.Join(s.dir, "clone")
	for i := range s.files {
		if err := write(filepath.Join(app, name(i)), text(i)); err != nil {
			return err
		}
	}
	if err := s.git(ctx, ".", "init", "-q", app); err != nil {
		return err
	}
	if err := errors.Join(s.git(ctx, app, "add", "."), s.git(ctx, app, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-qm", "all")); err != nil {
		return err
	}
	if err := s.git(ctx, ".", "clone", "-q", app, s.clone); err != nil {
		return err
	}
	return s.serve(ctx, driver)
}

func name(i int) string {
	return filepath.Join(fmt.Sprintf("d%d", i/perDirectory), fmt.Sprintf("f%d", i))
}

func text(i int) string {
	var b strings.Builder
	for line := range lines {
		_, _ = fmt.Fprintf(&b, "line %d of file %d, with some words after it\n", line, i)
	}
	return b.String()
}

func write(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o644)
}

func (s *stand) git(ctx context.Context, in string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = in
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, &out)
	}
	return nil
}

func (s *stand) serve(ctx context.Context, driver string) error {
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.ContextsDir, cfg.Driver, cfg.Pool = filepath.Join(s.dir, "w"), filepath.Join(s.dir, "c"), driver, 0
	cfg.LogLevel, cfg.DiskReserve, cfg.SeedMaxFiles = "error", 0, 1<<20
	cfg.GitRemote = []string{s.dir}
	srv, err := server.New(ctx, cfg, server.Deps{Version: "0.0.0-bench"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	s.end = func() error { stop(); return <-served }
	if s.client, err = client.Dial(ctx, client.WithAddress(srv.Info().Addresses.Target())); err != nil {
		return err
	}
	ready, err := s.client.EnsureContext(ctx, "ctx_a", nil)
	s.folder, s.review = filepath.Join(ready.GetContext().GetFolder(), "app"), s.client.Review("ctx_a")
	return err
}

// close ends the server and removes everything.
func (s *stand) close() error {
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.end != nil {
		errs = append(errs, s.end())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// change changes a line of so many files, evenly among all, in some copies of the repository. Each turn makes other contents.
func (s *stand) change(changed, turn int, copies ...string) error {
	for n := range changed {
		i := n * (s.files / changed)
		content := strings.Replace(text(i), "line 7 ", fmt.Sprintf("line 7 of %d changed %d ", changed, turn), 1)
		for _, in := range copies {
			if err := write(filepath.Join(in, name(i)), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// first measures the first ListChanges of new contexts.
func (s *stand) first(ctx context.Context, changed int) (took samples, err error) {
	took = samples{}
	for turn := range min(s.rounds, firsts) {
		id := fmt.Sprintf("ctx_first%d", turn)
		ready, err := s.client.EnsureContext(ctx, id, nil)
		if err == nil {
			err = s.change(changed, turn, filepath.Join(ready.GetContext().GetFolder(), "app"))
		}
		if err != nil {
			return nil, err
		}
		time.Sleep(settle)
		err = took.add(firstList, func() error { return changes(ctx, s.client.Review(id), changed) })
		if err == nil {
			_, err = s.client.DeleteContext(ctx, id)
		}
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// firsts bounds the contexts that are made to measure their first ListChanges.
const firsts = 3

// list measures ListChanges, and a walk of the context that reads no content, in turns.
func (s *stand) list(ctx context.Context, took samples, turn, changed int) error {
	if err := s.change(changed, turn, s.folder, s.clone); err != nil {
		return err
	}
	time.Sleep(settle)
	return errors.Join(
		took.add(listing, func() error { return changes(ctx, s.review, changed) }),
		took.add(statWalk, func() error { return s.walk(ctx) }),
	)
}

// settle is longer than a file system's clock ticks, so that the server need not read a file again to see whether it changed.
const settle = 50 * time.Millisecond

func changes(ctx context.Context, review *client.Review, want int) error {
	all, _, err := review.Changes(ctx, &ctxfsv1.ListChangesRequest{})
	if err == nil && len(all) != want {
		err = fmt.Errorf("%d changes are listed, not %d", len(all), want)
	}
	return err
}

// walk reads the stats of all files of the context.
func (s *stand) walk(ctx context.Context) (err error) {
	root, err := rootfs.Open(s.folder, rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return root.Walk(ctx, "/", tree.WalkOptions{Stats: true}, func(_ string, _ rootfs.Entry, err error) error { return err })
}

// all measures list, and GetDiff and Apply in turns with git diff and git apply. Each turn has contents that the server has not seen.
func (s *stand) all(ctx context.Context, took samples, turn, changed int) error {
	if err := s.list(ctx, took, turn, changed); err != nil {
		return err
	}
	patch := filepath.Join(s.dir, "patch")
	if err := s.keepPatch(ctx, patch); err != nil {
		return err
	}
	err := errors.Join(
		took.add(diff, func() error { return s.review.Patch(ctx, io.Discard, &ctxfsv1.GetDiffRequest{}) }),
		took.add(gitDiff, func() error { return s.git(ctx, s.clone, "diff") }),
	)
	if err != nil {
		return err
	}
	// In one step first: the store has none of the contents then.
	if err := s.apply(ctx, took, approveAndApply, &ctxfsv1.ApplyRequest{Selection: client.SelectAll(), Approve: true}); err != nil {
		return err
	}
	if err := s.gitApply(ctx, took, patch); err != nil {
		return err
	}
	if _, err := s.review.Decide(ctx, client.SelectAll(), ctxfsv1.Decision_DECISION_APPROVED, ""); err != nil {
		return err
	}
	return s.apply(ctx, took, apply, &ctxfsv1.ApplyRequest{})
}

// keepPatch writes what the context changed to a file, and refreshes git's index.
func (s *stand) keepPatch(ctx context.Context, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = s.review.Patch(ctx, f, &ctxfsv1.GetDiffRequest{})
	return errors.Join(err, f.Close(), s.git(ctx, s.clone, "status", "-s"))
}

// apply applies changes, and takes them back.
func (s *stand) apply(ctx context.Context, took samples, name string, req *ctxfsv1.ApplyRequest) error {
	var entry int64
	err := took.add(name, func() error {
		done, err := s.review.Apply(ctx, req)
		entry = done.GetJournalId()
		return err
	})
	if err == nil {
		_, err = s.client.Undo(ctx, entry, false)
	}
	return err
}

// gitApply applies the patch to the repository, without its prefix, and takes it back.
func (s *stand) gitApply(ctx context.Context, took samples, patch string) error {
	w := filepath.Join(s.dir, "w", "app")
	err := took.add(gitApply, func() error { return s.git(ctx, w, "apply", "-p2", patch) })
	if err == nil {
		err = s.git(ctx, w, "apply", "-p2", "-R", patch)
	}
	return err
}
