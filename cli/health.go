package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
)

func (a *app) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Say whether the server serves; exit 1 when not", Args: usage(cobra.NoArgs),
		RunE: a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			start := time.Now()
			if err := c.Health(ctx); err != nil {
				return err
			}
			return a.healthy(c, time.Since(start))
		}),
	}
}

func (a *app) healthy(c *client.Client, took time.Duration) error {
	if a.json {
		return a.printJSON(map[string]any{"status": "SERVING", "address": c.Address(), "microseconds": took.Microseconds()})
	}
	if took == 0 {
		return a.printf("serving at %s\n", c.Address())
	}
	return a.printf("serving at %s, answered in %s\n", c.Address(), took.Round(10*time.Microsecond))
}

// waitStep is how long wait sleeps between two tries.
const waitStep = 200 * time.Millisecond

func (a *app) waitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "wait", Short: "Wait until a server serves, at most --timeout (60s)", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.timeout <= 0 {
				a.timeout = time.Minute
			}
			ctx, cancel := a.deadline(cmd.Context())
			defer cancel()
			return a.wait(ctx)
		},
	}
}

func (a *app) wait(ctx context.Context) error {
	ticker := time.NewTicker(waitStep)
	defer ticker.Stop()
	for {
		err := a.tryHealth(ctx)
		if err == nil {
			return nil
		}
		var usage interface{ ExitCode() int }
		if errors.As(err, &usage) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no server within %s: %w", a.timeout, err)
		case <-ticker.C:
		}
	}
}

func (a *app) tryHealth(ctx context.Context) error {
	c, err := a.dial(ctx, "")
	if err != nil {
		return err
	}
	err = c.Health(ctx)
	if err == nil {
		err = a.healthy(c, 0)
	}
	return errors.Join(err, c.Close())
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]string{"version": a.env.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			return a.printf("ctxfs %s %s/%s %s\n", a.env.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
		},
	}
}
