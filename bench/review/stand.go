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

// change changes a line of so many files, evenly among all, in the context and in the clone.
func (s *stand) change(changed int) error {
	for n := range changed {
		i := n * (s.files / changed)
		content := strings.Replace(text(i), "line 7 ", fmt.Sprintf("line 7 of %d changed ", changed), 1)
		for _, in := range []string{s.folder, s.clone} {
			if err := write(filepath.Join(in, name(i)), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// list measures ListChanges, the first one apart, and a walk of the context that reads no content.
func (s *stand) list(ctx context.Context, _ string, changed int) (took map[string]time.Duration, err error) {
	if err := s.change(changed); err != nil {
		return nil, err
	}
	took = map[string]time.Duration{}
	time.Sleep(settle)
	if took[firstList], err = s.changes(ctx, changed); err != nil {
		return nil, err
	}
	for what, do := range map[string]func() (time.Duration, error){
		listing:  func() (time.Duration, error) { return s.changes(ctx, changed) },
		statWalk: func() (time.Duration, error) { return s.walk(ctx) },
	} {
		if took[what], err = s.median(do); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// settle is longer than a file system's clock ticks, so that the server need not read a file again to see whether it changed.
const settle = 50 * time.Millisecond

func (s *stand) changes(ctx context.Context, want int) (time.Duration, error) {
	return timed(func() error {
		all, _, err := s.review.Changes(ctx, &ctxfsv1.ListChangesRequest{})
		if err == nil && len(all) != want {
			err = fmt.Errorf("%d changes are listed, not %d", len(all), want)
		}
		return err
	})
}

// walk reads the stats of all files of the context.
func (s *stand) walk(ctx context.Context) (took time.Duration, err error) {
	root, err := rootfs.Open(s.folder, rootfs.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return timed(func() error {
		return root.Walk(ctx, "/", tree.WalkOptions{Stats: true}, func(_ string, _ rootfs.Entry, err error) error { return err })
	})
}

// all measures list, and GetDiff and Apply in turns with git diff and git apply.
func (s *stand) all(ctx context.Context, driver string, changed int) (map[string]time.Duration, error) {
	took, err := s.list(ctx, driver, changed)
	if err != nil {
		return nil, err
	}
	patch := filepath.Join(s.dir, "patch")
	if err := s.keepPatch(ctx, patch); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		what string
		do   func() (time.Duration, error)
	}{
		{diff, func() (time.Duration, error) {
			return timed(func() error { return s.review.Patch(ctx, io.Discard, &ctxfsv1.GetDiffRequest{}) })
		}},
		{gitDiff, func() (time.Duration, error) { return timed(func() error { return s.git(ctx, s.clone, "diff") }) }},
		{apply, func() (time.Duration, error) { return s.apply(ctx) }},
		{gitApply, func() (time.Duration, error) { return s.gitApply(ctx, patch) }},
	} {
		if took[m.what], err = s.median(m.do); err != nil {
			return nil, fmt.Errorf("%s: %w", m.what, err)
		}
	}
	return took, nil
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

// apply applies everything, and takes it back.
func (s *stand) apply(ctx context.Context) (time.Duration, error) {
	var entry int64
	took, err := timed(func() error {
		done, err := s.review.Apply(ctx, &ctxfsv1.ApplyRequest{Selection: client.SelectAll(), Approve: true})
		entry = done.GetJournalId()
		return err
	})
	if err == nil {
		_, err = s.client.Undo(ctx, entry, false)
	}
	return took, err
}

// gitApply applies the patch to the repository, without its prefix, and takes it back.
func (s *stand) gitApply(ctx context.Context, patch string) (time.Duration, error) {
	w := filepath.Join(s.dir, "w", "app")
	took, err := timed(func() error { return s.git(ctx, w, "apply", "-p2", patch) })
	if err == nil {
		err = s.git(ctx, w, "apply", "-p2", "-R", patch)
	}
	return took, err
}
