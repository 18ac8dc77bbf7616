package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// warn prints a message on standard error.
func (a *app) warn(text string) error {
	_, err := fmt.Fprintln(a.env.Stderr, "ctxfs: "+text)
	return err
}

// parent makes a command that only has others below it.
func parent(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

func (a *app) contextCommand() *cobra.Command {
	var sizes bool
	var selectors []string
	list := &cobra.Command{Use: "list", Short: "List all contexts", Args: usage(cobra.NoArgs)}
	list.RunE = a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
		return a.contextList(ctx, c, sizes, selectors)
	})
	selectFlag(list, &selectors, "contexts")
	info := &cobra.Command{Use: "info [NAME]", Short: "Describe a context", Args: usage(cobra.MaximumNArgs(1))}
	info.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return a.contextInfo(ctx, c, args, sizes)
	})
	for _, cmd := range []*cobra.Command{list, info} {
		cmd.Flags().BoolVar(&sizes, "sizes", false, "measure what they take on disk, which reads all their directories")
	}
	return parent("context", "List, describe, make, fork, export, import and delete contexts", list, info, a.forkCommand(), a.exportCommand(), a.importCommand(),
		a.contextCreateCommand(),
		a.contextDeleteCommand(),
	)
}

func stateName(s ctxfsv1.ContextState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "CONTEXT_STATE_"))
}

func (a *app) contextList(ctx context.Context, c *client.Client, sizes bool, selectors []string) error {
	get := c.ListContexts
	if sizes {
		get = c.MeasureContexts
	}
	list, err := get(ctx, selectors...)
	if err != nil {
		return err
	}
	if a.json {
		return errors.Join(printProtos(a, list), notMeasured(list))
	}
	head := []string{"CONTEXT", "STATE", "FILES", "SIZE", "CREATED", "PANELS"}
	if sizes {
		head = append(head, "OWN", "SHARED", "SNAPSHOTS")
	}
	rows := make([][]string, len(list))
	for i, x := range list {
		rows[i] = []string{x.GetContextId(), stateName(x.GetState()), number(x.GetFiles()), size(x.GetBytes()), clock(x.GetCreatedNs()), strings.Join(x.GetPanels(), ",")}
		if sizes {
			rows[i] = append(rows[i], sizesOf(x)...)
		}
	}
	head, rows = withLabels(head, rows, list)
	return errors.Join(a.table(head, rows), notMeasured(list))
}

// sizesOf are the last columns of a context's row.
func sizesOf(x *ctxfsv1.Context) []string {
	if x.GetSizesError() != "" {
		return []string{"?", "?", "?"}
	}
	return []string{size(x.GetOwnBytes()), size(x.GetSharedBytes()), size(x.GetSnapshotBytes())}
}

// notMeasured is the error of the contexts of a list that could not be measured.
func notMeasured(list []*ctxfsv1.Context) error {
	var errs []error
	for _, x := range list {
		if why := x.GetSizesError(); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s", x.GetContextId(), why))
		}
	}
	return errors.Join(errs...)
}

func (a *app) contextInfo(ctx context.Context, c *client.Client, args []string, sizes bool) error {
	name := a.contextID()
	if len(args) > 0 {
		name = args[0]
	}
	if name == "" {
		return a.ownInfo(ctx, c)
	}
	id, err := a.contextNamed(ctx, c, name)
	if err != nil {
		return err
	}
	get := c.GetContext
	if sizes {
		get = c.MeasureContext
	}
	x, err := get(ctx, id)
	if err != nil {
		return err
	}
	return a.printContext(x)
}

func (a *app) ownInfo(ctx context.Context, c *client.Client) error {
	info, err := c.Info(ctx, "")
	if err != nil {
		return err
	}
	if a.json {
		return a.printProto(info)
	}
	return a.table(nil, [][]string{
		{"context", info.GetContextId()}, {"partition", info.GetPartition()}, {"panel", info.GetPanelId()},
		{"folder", show(info.GetFolder())}, {"read-only", fmt.Sprint(info.GetReadOnly())}, {"rights", cmp.Or(rightNames(info.GetRights()), "-")}, {"server", info.GetServerVersion()},
	})
}

func (a *app) printContext(x *ctxfsv1.Context) error {
	if a.json {
		return a.printProto(x)
	}
	rows := [][]string{{"context", x.GetContextId()}, {"state", stateName(x.GetState())}}
	for _, r := range [][]string{
		{"error", printable(x.GetLastError())}, {"folder", show(x.GetFolder())}, {"driver", x.GetDriver()}, {"layer", x.GetLayer()},
		{"forked from", x.GetForkedFrom()}, {"created", clock(x.GetCreatedNs())}, {"used", clock(x.GetUsedNs())}, {"panels", strings.Join(x.GetPanels(), ", ")},
		{"labels", labelList(x.GetLabels())},
	} {
		if r[1] != "" {
			rows = append(rows, r)
		}
	}
	if x.GetOwnBytes() > 0 {
		rows = append(rows, []string{"on disk", fmt.Sprintf("%s own, %s shared, %s in snapshots",
			size(x.GetOwnBytes()), size(x.GetSharedBytes()), size(x.GetSnapshotBytes()))})
	}
	if x.GetState() == ctxfsv1.ContextState_CONTEXT_STATE_READY {
		rows = append(rows, []string{"seeded", fmt.Sprintf("%s files, %s, in %d ms", number(x.GetFiles()), size(x.GetBytes()), x.GetSeedMs())})
	}
	return a.table(nil, rows)
}

func (a *app) contextCreateCommand() *cobra.Command {
	var given []string
	cmd := &cobra.Command{Use: "create NAME", Short: "Make a context ready, by its ID or for a panel; seed it if it is missing", Args: usage(cobra.ExactArgs(1))}
	labelFlag(cmd, &given, "the context")
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		req := &ctxfsv1.EnsureContextRequest{ContextId: args[0]}
		if !isContextID(args[0]) {
			req = &ctxfsv1.EnsureContextRequest{PanelId: args[0]}
		}
		var err error
		if req.Labels, err = pairs("label", "KEY=VALUE", given); err != nil {
			return err
		}
		b := a.newBar(false)
		r, err := c.Ensure(ctx, req, b.seed)
		b.end()
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(r)
		}
		return a.printContext(r.GetContext())
	})
	return cmd
}

func (a *app) contextDeleteCommand() *cobra.Command {
	var discard bool
	cmd := &cobra.Command{
		Use: "delete NAME…", Short: "Remove contexts for good: folder, record and bindings", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Removes contexts for good: folder, snapshots, record and bindings. A context with changes or approvals that were not\n" +
			"applied, with commits of its own, or with snapshots that hold such changes, stays, unless --discard-changes is given.",
	}
	discardFlag(cmd, &discard)
	cmd.RunE = a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
		return a.contextDelete(ctx, c, args, client.Discard(discard))
	})
	return cmd
}

// discardFlag declares --discard-changes.
func discardFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "discard-changes", false, "also if changes are lost that were not applied")
}

// notApplied names the commands that resolve a refusal to lose changes: those of the context or, with snapshots, of its snapshots too.
func notApplied(context string, snapshots bool, err error) error {
	if refused := (*client.ReviewError)(nil); errors.As(err, &refused) && refused.Reason == client.ReasonNotApplied {
		of := ""
		if snapshots {
			of = " (--against snapshot:NAME for those of a snapshot, which 'ctxfs snapshot restore' brings back)"
		}
		refused.Hint = fmt.Sprintf("look at changes with 'ctxfs diff %s'%s, push commits or remove their .git, or give --discard-changes", context, of)
	}
	return err
}

func (a *app) contextDelete(ctx context.Context, c *client.Client, args []string, discard client.Discard) error {
	var ids []string // all names first: a deletion makes a panel's name unknown
	for _, name := range args {
		id, err := a.contextNamed(ctx, c, name)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	deleted := []object{}
	for _, id := range ids {
		n, err := c.DeleteContext(ctx, id, discard)
		if err != nil {
			return notApplied(id, true, err)
		}
		if deleted = append(deleted, object{{"contextId", id}, {"removed", n}}); a.json {
			continue
		}
		if err := a.printf("%s deleted, %s entries\n", id, number(n)); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(deleted)
	}
	return nil
}

func (a *app) seedCommand() *cobra.Command {
	var largest int
	var seedFrom []string
	plan := &cobra.Command{
		Use: "plan", Short: "Say what seeding a context now would copy, and copy nothing", Args: usage(cobra.NoArgs),
		Long: "Says what seeding a context now would copy, and copies nothing. Where no server runs, it looks at the working directory with the\n" +
			"settings that 'ctxfs serve' would have here.",
	}
	plan.RunE = func(cmd *cobra.Command, args []string) error {
		err := a.withHost(func(ctx context.Context, c *client.Client, _ []string) error {
			p, err := c.PlanSeed(ctx, largest, seedFrom...)
			if err != nil {
				return err
			}
			return a.printPlan(p)
		})(cmd, args)
		if !noServer(err) || a.env.PlanSeed == nil || a.address != "" || a.env.Getenv("CTXFS_ADDRESS") != "" {
			return err
		}
		ctx, cancel := a.deadline(cmd.Context())
		defer cancel()
		p, err := a.env.PlanSeed(ctx, largest, seedFrom...)
		if err != nil {
			return err
		}
		return a.printPlan(p)
	}
	plan.Flags().IntVar(&largest, "largest", 10, "how many of the largest directories to name")
	plan.Flags().StringArrayVar(&seedFrom, "seed-from", nil, seedFromUsage)
	return parent("seed", "Look at what contexts are filled with", plan)
}

func (a *app) printPlan(p *ctxfsv1.PlanSeedResponse) error {
	if a.json {
		return a.printProto(p)
	}
	if err := a.printf("%s, %s from %s\n\n", files(p.GetFiles()), size(p.GetBytes()), repositories(len(p.GetRepositories()))); err != nil {
		return err
	}
	var rows [][]string
	for _, r := range p.GetRepositories() {
		dirty := "clean"
		if r.GetDirty() {
			dirty = "dirty"
		}
		rows = append(rows, []string{show(r.GetPath()), r.GetBranch(), fmt.Sprintf("%.10s", r.GetHead()), dirty})
	}
	if err := a.section([]string{"REPOSITORY", "BRANCH", "HEAD", "STATE"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, d := range p.GetLargest() {
		rows = append(rows, []string{show(d.GetPath()), number(d.GetFiles()), size(d.GetBytes())})
	}
	if err := a.section([]string{"LARGEST", "FILES", "SIZE"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, s := range p.GetSkipped() {
		files := number(s.GetFiles())
		if s.GetFiles() < 0 {
			files = "not counted"
		}
		rows = append(rows, []string{show(s.GetReason()), number(s.GetEntries()), files})
	}
	if err := a.section([]string{"SKIPPED", "ENTRIES", "FILES"}, rows); err != nil {
		return err
	}
	if p.GetTooLarge() != "" {
		return a.printf("refused: %s\n", p.GetTooLarge())
	}
	return nil
}

// section is a table with a line after it, or nothing.
func (a *app) section(head []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if err := a.table(head, rows); err != nil {
		return err
	}
	return a.printf("\n")
}
