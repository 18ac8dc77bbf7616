// Package review measures what a review costs, by driver, by the size of the workspace and by how much changed, in turns with git on the same
// files. Each server is asked over its socket.
package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

const (
	// few is how many files change in workspaces of several sizes.
	few = 10
	// firsts bounds the contexts that are made to measure their first ListChanges.
	firsts = 3
)

// Run measures few changes in workspaces of several sizes, and more and more changes in one.
func Run(ctx context.Context, o *stand.Options) (*report.Page, error) {
	f := figures{files: 10_000, rounds: o.Rounds}
	if o.Quick {
		f.files = 100
	}
	for _, size := range o.Sizes {
		o.Logf("%d files", size)
		err := measure(ctx, o, size, func(s *repository, driver string) error {
			s.took = report.Samples{}
			err := s.first(ctx, min(few, size), min(o.Rounds, firsts))
			for turn := 0; turn < o.Rounds && err == nil; turn++ {
				err = s.list(ctx, turn, min(few, size))
			}
			f.sizes = append(f.sizes, row{files: size, changed: min(few, size), driver: driver, took: s.took.Medians()})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%d files: %w", size, err)
		}
	}
	o.Logf("up to all of %d files changed", f.files)
	err := measure(ctx, o, f.files, func(s *repository, driver string) error {
		for changed := few; changed <= f.files; changed *= 10 {
			s.took = report.Samples{}
			for turn := range o.Rounds {
				if err := s.all(ctx, turn, changed); err != nil {
					return fmt.Errorf("%d changed: %w", changed, err)
				}
			}
			f.changed = append(f.changed, row{files: f.files, changed: changed, driver: driver, took: s.took.Medians()})
		}
		return nil
	})
	return &report.Page{
		Name: "review", Title: "Review", Intro: "Written by `make bench-review`; [what a review is](../how-to/review.md).", Text: f.text(),
		Chart: report.Chart{Title: "Time of ListChanges", Subtitle: "by number of files, and of changed files; each plot has a scale of its own; shorter is better", Plots: f.plots()},
	}, err
}

// repository is a repository with a context in which files change, and a clone, for git, in which the same files change.
type repository struct {
	dir   string
	files int
	// app is the repository in the workspace, folder in the context, and clone is git's.
	app, folder, clone string
	server             stand.Server
	review             *client.Review
	took               report.Samples
}

// measure calls do with a repository of so many files, for each driver that works here.
func measure(ctx context.Context, o *stand.Options, files int, do func(s *repository, driver string) error) error {
	return o.Drivers(ctx, func(driver string) error {
		return o.Scratch(func(dir string) error {
			s := &repository{dir: dir, files: files, app: filepath.Join(dir, "w", "app"), clone: filepath.Join(dir, "clone")}
			err := stand.Fill(s.app, files, func(i int) []byte { return []byte(content(i)) })
			if err == nil {
				err = stand.Repository(ctx, s.app)
			}
			if err == nil {
				err = stand.Git(ctx, ".", "clone", "-q", s.app, s.clone)
			}
			if err != nil {
				return err
			}
			return stand.Serve(ctx, func(cfg *server.Config) {
				cfg.Workspace, cfg.ContextsDir, cfg.Driver = filepath.Join(dir, "w"), filepath.Join(dir, "c"), driver
			}, func(srv stand.Server) error {
				ready, err := srv.EnsureContext(ctx, "ctx_a", nil)
				if err != nil {
					return err
				}
				s.folder, s.server, s.review = filepath.Join(ready.GetContext().GetFolder(), "app"), srv, srv.Review("ctx_a")
				return do(s, driver)
			})
		})
	})
}

// content is that of a file of 1 KiB.
func content(i int) string {
	var b strings.Builder
	for line := range 20 {
		_, _ = fmt.Fprintf(&b, "line %d of file %d, with some words after it\n", line, i)
	}
	return b.String()
}

// change changes a line of so many files, evenly among all, in some copies of the repository, and waits for longer than a file system's clock
// ticks, so that the server need not read a file again to see whether it changed. Each turn makes other contents.
func (s *repository) change(changed, turn int, copies ...string) error {
	for n := range changed {
		i := n * (s.files / changed)
		text := strings.Replace(content(i), "line 7 ", fmt.Sprintf("line 7 of %d changed %d ", changed, turn), 1)
		for _, in := range copies {
			if err := stand.Write(filepath.Join(in, stand.Name(i)), []byte(text)); err != nil {
				return err
			}
		}
	}
	time.Sleep(50 * time.Millisecond)
	return nil
}

// first measures the first ListChanges of new contexts.
func (s *repository) first(ctx context.Context, changed, times int) error {
	for turn := range times {
		id := fmt.Sprintf("ctx_first%d", turn)
		ready, err := s.server.EnsureContext(ctx, id, nil)
		if err == nil {
			err = s.change(changed, turn, filepath.Join(ready.GetContext().GetFolder(), "app"))
		}
		if err == nil {
			err = s.took.Add(firstList, func() error { return changes(ctx, s.server.Review(id), changed) })
		}
		if err == nil {
			_, err = s.server.DeleteContext(ctx, id, client.DiscardChanges)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list measures ListChanges, and a walk of the context that reads no content, in turns.
func (s *repository) list(ctx context.Context, turn, changed int) error {
	if err := s.change(changed, turn, s.folder, s.clone); err != nil {
		return err
	}
	return errors.Join(
		s.took.Add(listing, func() error { return changes(ctx, s.review, changed) }),
		s.took.Add(statWalk, func() error { return s.walk(ctx) }),
	)
}

func changes(ctx context.Context, review *client.Review, want int) error {
	all, _, err := review.Changes(ctx, &ctxfsv1.ListChangesRequest{})
	if err == nil && len(all) != want {
		err = fmt.Errorf("%d changes are listed, not %d", len(all), want)
	}
	return err
}

// walk reads the stats of all files of the context.
func (s *repository) walk(ctx context.Context) (err error) {
	root, err := rootfs.Open(s.folder, rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return root.Walk(ctx, "/", tree.WalkOptions{Stats: true}, func(_ string, _ rootfs.Entry, err error) error { return err })
}

// all measures list, and GetDiff and Apply in turns with git diff and git apply. Each turn has contents that the server has not seen.
func (s *repository) all(ctx context.Context, turn, changed int) error {
	if err := s.list(ctx, turn, changed); err != nil {
		return err
	}
	patch, err := os.Create(filepath.Join(s.dir, "patch"))
	if err != nil {
		return err
	}
	for _, do := range []func() error{
		func() error {
			return errors.Join(s.patch(ctx, patch), patch.Close(), stand.Git(ctx, s.clone, "status", "-s")) // which refreshes git's index
		},
		func() error {
			return s.took.Add(diff, func() error { return s.patch(ctx, io.Discard) })
		},
		func() error { return s.took.Add(gitDiff, func() error { return stand.Git(ctx, s.clone, "diff") }) },
		// In one step first: the store has none of the contents then.
		func() error {
			return s.apply(ctx, approveAndApply, &ctxfsv1.ApplyRequest{Selection: client.SelectAll(), Approve: true})
		},
		func() error {
			return s.took.Add(gitApply, func() error { return stand.Git(ctx, s.app, "apply", "-p2", patch.Name()) })
		},
		func() error { return stand.Git(ctx, s.app, "apply", "-p2", "-R", patch.Name()) },
		func() error {
			_, err := s.review.Decide(ctx, &ctxfsv1.DecideRequest{Selection: client.SelectAll(), Decision: ctxfsv1.Decision_DECISION_APPROVED})
			return err
		},
		func() error { return s.apply(ctx, apply, &ctxfsv1.ApplyRequest{}) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// patch writes what the context changed to w.
func (s *repository) patch(ctx context.Context, w io.Writer) error {
	_, _, err := s.review.Patch(ctx, w, &ctxfsv1.GetDiffRequest{})
	return err
}

// apply applies changes, and takes them back.
func (s *repository) apply(ctx context.Context, name string, req *ctxfsv1.ApplyRequest) error {
	var entry int64
	err := s.took.Add(name, func() error {
		done, err := s.review.Apply(ctx, req)
		entry = done.GetJournalId()
		return err
	})
	if err == nil {
		_, err = s.server.Undo(ctx, entry, false)
	}
	return err
}
