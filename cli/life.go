package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) forkCommand() *cobra.Command {
	var panel string
	cmd := &cobra.Command{
		Use: "fork NAME [NEW-ID]", Short: "Make a context with what another one holds now",
		Long: "Makes NEW-ID, or with --new-panel the context that a panel gets when it is opened, with what the context holds now.\n" +
			"NAME is a context's ID or a panel's name. Writers to the context wait until the copy is done.",
		Args: usage(cobra.RangeArgs(1, 2)),
	}
	cmd.Flags().StringVar(&panel, "new-panel", "", "fork to the context of this panel")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		if (len(args) == 2) == (panel != "") {
			return usagef("name the new context, or the panel that is to get it (--new-panel)")
		}
		from, err := a.contextNamed(ctx, c, args[0])
		if err != nil {
			return err
		}
		fork := func() (*ctxfsv1.Context, error) { return c.ForkForPanel(ctx, from, panel) }
		if panel == "" {
			fork = func() (*ctxfsv1.Context, error) { return c.Fork(ctx, from, args[1]) }
		}
		made, err := fork()
		if err != nil {
			return err
		}
		return a.printContext(made)
	})
	return cmd
}

func (a *app) snapshotCommand() *cobra.Command {
	return parent("snapshot", "Keep what contexts hold under names, and put it back",
		&cobra.Command{Use: "create NAME SNAPSHOT", Short: "Keep what a context holds now", Args: usage(cobra.ExactArgs(2)), RunE: a.withContext(a.snapshotCreate)},
		&cobra.Command{Use: "list NAME", Short: "List the snapshots of a context", Args: usage(cobra.ExactArgs(1)), RunE: a.withContext(a.snapshotList)},
		&cobra.Command{
			Use: "restore NAME SNAPSHOT", Short: "Put a snapshot in place of what a context holds, which is lost", Args: usage(cobra.ExactArgs(2)), RunE: a.withContext(a.snapshotRestore),
		},
		&cobra.Command{Use: "delete NAME SNAPSHOT", Short: "Remove a snapshot for good", Args: usage(cobra.ExactArgs(2)), RunE: a.withContext(a.snapshotDelete)},
	)
}

// withContext makes a RunE of a function whose first argument names a context; the function gets the ID.
func (a *app) withContext(do action) func(*cobra.Command, []string) error {
	return a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := a.contextNamed(ctx, c, args[0])
		if err != nil {
			return err
		}
		return do(ctx, c, append([]string{id}, args[1:]...))
	})
}

func (a *app) snapshotCreate(ctx context.Context, c *client.Client, args []string) error {
	s, err := c.Snapshot(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	if a.json {
		return a.printProto(s)
	}
	return a.printf("%s kept as %s, %s\n", args[0], s.GetName(), size(s.GetBytes()))
}

func (a *app) snapshotList(ctx context.Context, c *client.Client, args []string) error {
	list, err := c.ListSnapshots(ctx, args[0])
	if err != nil {
		return err
	}
	if a.json {
		return printProtos(a, list)
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = []string{s.GetName(), clock(s.GetCreatedNs()), size(s.GetBytes())}
	}
	return a.table([]string{"SNAPSHOT", "CREATED", "ON DISK"}, rows)
}

func (a *app) snapshotRestore(ctx context.Context, c *client.Client, args []string) error {
	x, err := c.Restore(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	if a.json {
		return a.printProto(x)
	}
	return a.printf("Restored %s from snapshot %q.\n", args[0], args[1])
}

func (a *app) snapshotDelete(ctx context.Context, c *client.Client, args []string) error {
	if err := c.DeleteSnapshot(ctx, args[0], args[1]); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(object{{"contextId", args[0]}, {"name", args[1]}})
	}
	return a.printf("%s of %s deleted\n", args[1], args[0])
}

func (a *app) gcCommand() *cobra.Command {
	var age, idle time.Duration
	req := &ctxfsv1.CollectGarbageRequest{}
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove what nothing refers to any more",
		Long: "Removes layers that no context stands on, ready copies, what a crash left half made, and mounts and snapshots of contexts that are\n" +
			"gone. Contexts themselves are removed only with --older-than or --idle; one used within the last 10 minutes never is.\n" +
			"--older-than alone spares the contexts of panels that are open; name an --idle time to remove those too.\n\n" +
			"What cannot be removed is named at the end, and the exit code is 1; the rest is removed all the same.",
		Args: usage(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "only say what would be removed")
	cmd.Flags().DurationVar(&age, "older-than", 0, "remove contexts made longer ago than this, such as 720h, unless a panel that is open has them")
	cmd.Flags().DurationVar(&idle, "idle", 0, "remove contexts not used for longer than this, such as 168h, also those of open panels")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
		req.ContextAgeSeconds, req.ContextIdleSeconds = roundUp(age), roundUp(idle)
		list, err := c.CollectGarbage(ctx, req)
		if err != nil && len(list) == 0 {
			return err
		}
		return errors.Join(a.printGarbage(list, req.GetDryRun()), err)
	})
	return cmd
}

// roundUp is d in seconds, so that less than one does not become "not asked for".
func roundUp(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func (a *app) printGarbage(list []*ctxfsv1.Garbage, dry bool) error {
	if a.json {
		return printProtos(a, list)
	}
	var total int64
	rows := make([][]string, len(list))
	for i, g := range list {
		kind := strings.ToLower(strings.TrimPrefix(g.GetKind().String(), "GARBAGE_KIND_"))
		rows[i] = []string{kind, show(g.GetName()), size(g.GetBytes())}
		total += g.GetBytes()
	}
	if err := a.section([]string{"KIND", "NAME", "ON DISK"}, rows); err != nil {
		return err
	}
	done := "removed"
	if dry {
		done = "would be removed"
	}
	return a.printf("%s: %s, %s\n", done, number(int64(len(list))), size(total))
}
