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
	var given []string
	cmd := &cobra.Command{
		Use: "fork NAME [NEW-ID]", Short: "Make a context with what another one holds now",
		Long: "Makes NEW-ID, or with --new-panel the context that a panel gets when it is opened, with what the context holds now.\n" +
			"NAME is a context's ID or a panel's name. Writers to the context wait until the copy is done. The copy has the labels of the original.",
		Args: usage(cobra.RangeArgs(1, 2)),
	}
	cmd.Flags().StringVar(&panel, "new-panel", "", "fork to the context of this panel")
	labelFlag(cmd, &given, "the copy")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		if (len(args) == 2) == (panel != "") {
			return usagef("name the new context, or the panel that is to get it (--new-panel)")
		}
		from, err := a.contextNamed(ctx, c, args[0])
		if err != nil {
			return err
		}
		req := &ctxfsv1.ForkRequest{ContextId: from, NewPanelId: panel}
		if panel == "" {
			req.NewContextId = args[1]
		}
		if req.Labels, err = pairs("label", "KEY=VALUE", given); err != nil {
			return err
		}
		made, err := c.ForkContext(ctx, req)
		if err != nil {
			return err
		}
		return a.printContext(made)
	})
	return cmd
}

func (a *app) snapshotCommand() *cobra.Command {
	var discard bool
	restore := &cobra.Command{
		Use: "restore NAME SNAPSHOT", Short: "Put a snapshot in place of what a context holds, which is lost", Args: usage(cobra.ExactArgs(2)),
		Long: "Puts a snapshot in place of what a context holds, which is lost: keep it as another snapshot first. A context with changes or approvals\n" +
			"that were not applied stays as it is, unless --discard-changes is given.",
	}
	discardFlag(restore, &discard)
	restore.RunE = a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
		return a.snapshotRestore(ctx, c, args, client.Discard(discard))
	})
	return parent("snapshot", "Keep what contexts hold under names, and put it back",
		&cobra.Command{Use: "create NAME SNAPSHOT", Short: "Keep what a context holds now", Args: usage(cobra.ExactArgs(2)), RunE: a.withContext(a.snapshotCreate)},
		&cobra.Command{Use: "list NAME", Short: "List the snapshots of a context", Args: usage(cobra.ExactArgs(1)), RunE: a.withContext(a.snapshotList)},
		restore,
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

func (a *app) snapshotRestore(ctx context.Context, c *client.Client, args []string, discard client.Discard) error {
	x, err := c.Restore(ctx, args[0], args[1], discard)
	if err != nil {
		return notApplied(args[0], false, err)
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
			"gone. Contexts themselves are removed only with --older-than, --idle or --server-rules; one used within the last 10 minutes never is.\n" +
			"--older-than alone spares the contexts of panels that are open; name an --idle time to remove those too.\n\n" +
			"A context stays while a client of its panel is connected, a file is open, a command runs, its changes wait for a review, a staged commit\n" +
			"was not pushed, or a site shows it; --force removes it all the same. A context with changes or approvals that were not applied, or\n" +
			"with snapshots of such changes, stays, also with --force: only --discard-changes removes it. --dry-run says of each context why it would stay.\n\n" +
			"What cannot be removed is named at the end, and the exit code is 1; the rest is removed all the same.",
		Example: "  ctxfs gc --dry-run --idle 168h --label '!keep'",
		Args:    usage(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "only say what would be removed")
	cmd.Flags().DurationVar(&age, "older-than", 0, "remove contexts made longer ago than this, such as 720h, unless a panel that is open has them")
	cmd.Flags().DurationVar(&idle, "idle", 0, "remove contexts not used for longer than this, such as 168h, also those of open panels")
	cmd.Flags().BoolVar(&req.ServerRules, "server-rules", false, "also remove contexts as the server does from time to time (--context-ttl, --context-idle-ttl, --contexts-max-bytes of 'ctxfs serve')")
	cmd.Flags().BoolVar(&req.Force, "force", false, "remove contexts although something keeps them, but for a use within the last 10 minutes")
	discardFlag(cmd, &req.DiscardChanges)
	selectFlag(cmd, &req.LabelSelectors, "contexts")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
		req.ContextAgeSeconds, req.ContextIdleSeconds = roundUp(age), roundUp(idle)
		if req.GetForce() && age == 0 && idle == 0 && !req.GetServerRules() {
			return usagef("--force needs a rule: --older-than, --idle or --server-rules")
		}
		done, err := c.Collect(ctx, req)
		if done == nil {
			return err
		}
		return errors.Join(a.printGarbage(done, req.GetDryRun()), err)
	})
	return cmd
}

// roundUp is d in seconds, so that less than one does not become "not asked for".
func roundUp(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func (a *app) printGarbage(done *ctxfsv1.CollectGarbageResponse, dry bool) error {
	if a.json {
		return a.printProto(done)
	}
	var total int64
	list := done.GetRemoved()
	rows := make([][]string, len(list))
	for i, g := range list {
		kind := strings.ToLower(strings.TrimPrefix(g.GetKind().String(), "GARBAGE_KIND_"))
		rows[i] = []string{kind, show(g.GetName()), size(g.GetBytes())}
		total += g.GetBytes()
	}
	if err := a.section([]string{"KIND", "NAME", "ON DISK"}, rows); err != nil {
		return err
	}
	if err := a.printKept(done.GetContexts()); err != nil {
		return err
	}
	word := "removed"
	if dry {
		word = "would be removed"
	}
	return a.printf("%s: %s, %s\n", word, number(int64(len(list))), size(total))
}

// printKept lists the contexts that stay, and why. It leaves out those that no rule was about.
func (a *app) printKept(verdicts []*ctxfsv1.ContextVerdict) error {
	var rows [][]string
	for _, v := range verdicts {
		texts := make([]string, len(v.GetKept()))
		for i, k := range v.GetKept() {
			texts[i] = printable(k.GetText())
		}
		if len(texts) > 0 && v.GetKept()[0].GetReason() != ctxfsv1.KeepReason_KEEP_REASON_NO_RULE {
			rows = append(rows, []string{v.GetContextId(), strings.Join(texts, "; ")})
		}
	}
	return a.section([]string{"KEPT", "WHY"}, rows)
}
