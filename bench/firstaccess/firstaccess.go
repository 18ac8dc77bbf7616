// Package firstaccess measures what the first access to a context costs, by driver and by the size of the workspace, in turns with cp -a of the
// same files. Each server is asked over its socket.
package firstaccess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	otiai "github.com/otiai10/copy"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/stand"
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/server"
)

// manyFiles is what a workspace has at most of which each round is repeated: each one writes gigabytes otherwise.
const manyFiles = 20_000

// Run measures everything.
func Run(ctx context.Context, o *stand.Options) (*report.Page, error) {
	var f figures
	for _, size := range o.Sizes {
		o.Logf("%d files", size)
		r := row{files: size, rounds: o.Rounds}
		if size > manyFiles {
			r.rounds = 1
		}
		took, err := measure(o, r.rounds, func(w *workspace) error { return w.round(ctx, o) }, func(dir string) (*workspace, error) { return fill(ctx, dir, size) })
		if err != nil {
			return nil, fmt.Errorf("%d files: %w", size, err)
		}
		r.took = took[0]
		f.rows = append(f.rows, r)
	}
	scope, all := 500, 100_000
	if o.Quick {
		scope, all = 10, 200
	}
	o.Logf("a scope of %d files in %d", scope, all)
	took, err := measure(o, o.Rounds, func(w *workspace) error { return w.scopeRound(ctx, o) },
		func(dir string) (*workspace, error) { return fillScope(ctx, filepath.Join(dir, "alone"), scope, 0) },
		func(dir string) (*workspace, error) {
			return fillScope(ctx, filepath.Join(dir, "within"), scope, all-scope)
		})
	if err != nil {
		return nil, fmt.Errorf("a scope: %w", err)
	}
	return &report.Page{
		Name: "first-access", Title: "First access", Intro: "Written by `make bench-first-access`; [the drivers](../explanation/drivers.md).",
		Text:  f.text() + scopeText(scope, all, o.Rounds, took[0], took[1]),
		Chart: report.Chart{Title: "Time by number of files", Subtitle: "each plot has a scale of its own; shorter is better", Plots: f.plots()},
	}, nil
}

// measure makes workspaces, calls do with each of them in each round, and returns the medians of each.
func measure(o *stand.Options, rounds int, do func(*workspace) error, fills ...func(dir string) (*workspace, error)) (took []map[string]time.Duration, err error) {
	err = o.Scratch(func(dir string) error {
		var all []*workspace
		for _, fill := range fills {
			w, err := fill(dir)
			if err != nil {
				return err
			}
			all = append(all, w)
		}
		for range rounds {
			for _, w := range all {
				if err := do(w); err != nil {
					return err
				}
			}
		}
		for _, w := range all {
			took = append(took, w.took.Medians())
		}
		return nil
	})
	return took, err
}

// workspace is a workspace with what was measured of it. tree has the same files.
type workspace struct {
	dir, path, tree string
	n               int
	took            report.Samples
}

// fill makes the tree, and the workspace: a repository of the same files, and twice as many that are excluded.
func fill(ctx context.Context, dir string, files int) (*workspace, error) {
	w := &workspace{dir: dir, path: filepath.Join(dir, "w"), tree: filepath.Join(dir, "tree"), took: report.Samples{}}
	app := filepath.Join(w.path, "app")
	return w, errors.Join(write(w.tree, files), write(app, files), write(filepath.Join(app, "node_modules"), 2*min(files, manyFiles)), stand.Git(ctx, app, "init", "-q"))
}

// fillScope makes the workspace: a repository with the scope and half of the others, committed, and one with the other half.
func fillScope(ctx context.Context, dir string, scope, others int) (*workspace, error) {
	w := &workspace{dir: dir, path: filepath.Join(dir, "w"), took: report.Samples{}}
	app, other := filepath.Join(w.path, "app"), filepath.Join(w.path, "other")
	return w, errors.Join(write(filepath.Join(app, "scope"), scope), write(filepath.Join(app, "rest"), others/2), write(other, max(1, others-others/2)),
		stand.Repository(ctx, app), stand.Repository(ctx, other))
}

// write makes files of 1 KiB.
func write(dir string, files int) error {
	content := make([]byte, 1<<10)
	return stand.Fill(dir, files, func(i int) []byte {
		copy(content, fmt.Sprintf("file %d of %s", i, dir))
		return content
	})
}

// name returns a path that is free. Nothing is removed before the end: ext4 looks for inodes beside those that were freed a moment ago, and
// passes over each of them.
func (w *workspace) name(kind string) string {
	w.n++
	return filepath.Join(w.dir, fmt.Sprint(kind, w.n))
}

// round measures everything once, beside cp -a and otiai10/copy, which the copy driver uses where it has no openat2.
func (w *workspace) round(ctx context.Context, o *stand.Options) error {
	err := w.took.Add(plainCopy, func() error { return exec.CommandContext(ctx, "cp", "-a", w.tree, w.name("cp")).Run() })
	if err == nil {
		err = w.took.Add(goCopy, func() error { return otiai.Copy(w.tree, w.name("copy"), otiai.Options{PreserveTimes: true}) })
	}
	if err != nil {
		return err
	}
	return o.Drivers(ctx, func(driver string) error {
		dir := w.name("contexts")
		err := w.serve(ctx, driver, dir, 0, func(s stand.Server) error {
			return errors.Join(w.contexts(ctx, s, driver, dir, "."), w.walk(ctx, dir))
		})
		if err != nil || driver != server.DriverCopy {
			return err
		}
		return w.serve(ctx, driver, dir, 1, func(s stand.Server) error {
			if _, err := s.EnsureContext(ctx, "ctx_fills_the_pool", nil); err != nil {
				return err
			}
			if err := appears(ctx, dir, ".ctxfs", "pool", "*-*"); err != nil {
				return err
			}
			return w.first(ctx, s, driver+pooled, "ctx_pooled", ".")
		})
	})
}

// scopeRound makes contexts of the scope.
func (w *workspace) scopeRound(ctx context.Context, o *stand.Options) error {
	return o.Drivers(ctx, func(driver string) error {
		dir := w.name("contexts")
		return w.serve(ctx, driver, dir, 0, func(s stand.Server) error { return w.contexts(ctx, s, driver, dir, "scope", "app/scope") })
	})
}

// contexts makes a first context, which builds the layer, and then one from the layer.
func (w *workspace) contexts(ctx context.Context, s stand.Server, driver, dir, in string, from ...string) error {
	for _, of := range []struct{ id, kind string }{{"ctx_cold", cold}, {"ctx_layered", layered}} {
		if err := w.first(ctx, s, driver+of.kind, of.id, in, from...); err != nil {
			return err
		}
		if err := appears(ctx, dir, ".ctxfs", "layers", "*", "tree"); err != nil {
			return err
		}
	}
	return nil
}

// first is the time until a context is ready and its folder shows a file, which is in a folder of app. It is seeded from these folders.
func (w *workspace) first(ctx context.Context, s stand.Server, what, id, in string, from ...string) error {
	return w.took.Add(what, func() error {
		ready, err := s.EnsureContext(ctx, id, nil, from...)
		if err == nil {
			_, err = os.Stat(filepath.Join(ready.GetContext().GetFolder(), "app", in, stand.Name(0)))
		}
		return err
	})
}

// walk is the server's look at the workspace, which is part of every first access.
func (w *workspace) walk(ctx context.Context, dir string) error {
	layout, err := contexts.NewLayout(w.path, dir)
	if err != nil {
		return err
	}
	root, err := rootfs.Open(layout.Workspace, rootfs.Options{FollowMounts: true})
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return w.took.Add(statWalk, func() error {
		_, err := seed.Walk(ctx, layout.Source(root), seed.Options{}.WithDefaults(), nil)
		return err
	})
}

// appears waits until a file of the pattern exists.
func appears(ctx context.Context, pattern ...string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if found, err := filepath.Glob(filepath.Join(pattern...)); err != nil || len(found) > 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *workspace) serve(ctx context.Context, driver, dir string, pool int, do func(stand.Server) error) error {
	return stand.Serve(ctx, func(cfg *server.Config) {
		cfg.Workspace, cfg.ContextsDir, cfg.Driver, cfg.Pool = w.path, dir, driver, pool
	}, do)
}
