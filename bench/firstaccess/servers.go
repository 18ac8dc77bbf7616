package firstaccess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/server"
)

// round measures everything once. A driver that does not work here is left out.
func (s *stand) round(ctx context.Context, took map[string][]time.Duration, log io.Writer) error {
	if err := s.copyTree(ctx, took); err != nil {
		return err
	}
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		if driver == server.DriverOverlay {
			if why := server.OverlayRefusal(ctx, s.dir); why != "" {
				_, _ = fmt.Fprintln(log, "overlay is left out:", why)
				continue
			}
		}
		if err := s.contexts(ctx, driver, took); err != nil {
			return fmt.Errorf("%s: %w", driver, err)
		}
	}
	return nil
}

// contexts makes a first context, which builds the layer; then one from the layer; then, of copy, one of the pool.
func (s *stand) contexts(ctx context.Context, driver string, took map[string][]time.Duration) error {
	dir := s.name("contexts")
	add := func(kind string, d time.Duration) {
		took[driver+kind] = append(took[driver+kind], d)
	}
	err := s.serve(ctx, driver, dir, 0, func(c *client.Client) error {
		for _, of := range []struct{ id, kind string }{{"ctx_cold", cold}, {"ctx_layered", layered}} {
			d, err := first(ctx, c, of.id)
			if err != nil {
				return err
			}
			add(of.kind, d)
			if err := appears(ctx, dir, ".ctxfs", "layers", "*", "tree"); err != nil {
				return err
			}
		}
		d, err := s.walk(ctx, dir)
		took[statWalk] = append(took[statWalk], d)
		return err
	})
	if err != nil || driver != server.DriverCopy {
		return err
	}
	return s.serve(ctx, driver, dir, 1, func(c *client.Client) error {
		if _, err := first(ctx, c, "ctx_fills_the_pool"); err != nil {
			return err
		}
		if err := appears(ctx, dir, ".ctxfs", "pool", "*-*"); err != nil {
			return err
		}
		d, err := first(ctx, c, "ctx_pooled")
		add(pooled, d)
		return err
	})
}

// walk is how long the server's look at the workspace takes, which is part of every first access.
func (s *stand) walk(ctx context.Context, dir string) (time.Duration, error) {
	layout, err := contexts.NewLayout(s.workspace, dir)
	if err != nil {
		return 0, err
	}
	root, err := rootfs.Open(layout.Workspace, rootfs.Options{FollowMounts: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }()
	start := time.Now()
	_, err = seed.Walk(ctx, layout.Source(root), seed.Options{}.WithDefaults(), nil)
	return time.Since(start), err
}

// appears waits until a file of the pattern exists.
func appears(ctx context.Context, pattern ...string) error {
	for {
		if found, err := filepath.Glob(filepath.Join(pattern...)); err != nil || len(found) > 0 {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serve runs a server of the workspace while do is at work.
func (s *stand) serve(ctx context.Context, driver, dir string, pool int, do func(*client.Client) error) (err error) {
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.ContextsDir, cfg.Driver, cfg.Pool = s.workspace, dir, driver, pool
	cfg.LogLevel, cfg.DiskReserve = "error", 0
	cfg.SeedMaxFiles = 1 << 20
	srv, err := server.New(ctx, cfg, server.Deps{Version: "0.0.0-bench"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	c, err := client.Dial(ctx, client.WithAddress(srv.Info().Addresses.Target()))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return do(c)
}

// first is firstOf a context of the whole workspace.
func first(ctx context.Context, c *client.Client, id string) (time.Duration, error) {
	return firstOf(ctx, c, id, ".")
}

// firstOf is the time until a context is ready and its folder shows a file, which is in a folder of app. It is seeded from these folders.
func firstOf(ctx context.Context, c *client.Client, id, in string, from ...string) (time.Duration, error) {
	start := time.Now()
	ready, err := c.EnsureContext(ctx, id, nil, from...)
	if err != nil {
		return 0, err
	}
	_, err = os.Stat(filepath.Join(ready.GetContext().GetFolder(), "app", in, "d0", "f0"))
	return time.Since(start), err
}
