package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// onConflicts are the values of --on-conflict.
var onConflicts = map[string]ctxfsv1.OnConflict{
	"refuse": ctxfsv1.OnConflict_ON_CONFLICT_UNSPECIFIED, "record": ctxfsv1.OnConflict_ON_CONFLICT_RECORD, "markers": ctxfsv1.OnConflict_ON_CONFLICT_MARKERS,
	"context": ctxfsv1.OnConflict_ON_CONFLICT_KEEP_CONTEXT, "workspace": ctxfsv1.OnConflict_ON_CONFLICT_TAKE_WORKSPACE,
}

func (a *app) rebaseCommand() *cobra.Command {
	var how string
	req := &ctxfsv1.RebaseRequest{}
	cmd := &cobra.Command{
		Use: "rebase CONTEXT [PATH...]", Short: "Bring into a context what the workspace changed since", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Brings into a context what the workspace changed since the context was seeded: all of it, or what is at and below each PATH. Files that both changed are\n" +
			"merged line by line. --on-conflict says what happens to files that cannot be merged:\n\n" +
			"  refuse     nothing is done, and each conflict is named\n" +
			"  record     the context keeps its file; 'ctxfs conflicts' lists it until 'ctxfs resolve'\n" +
			"  markers    like record, with conflict markers in the context's file\n" +
			"  context    the context's lines win\n" +
			"  workspace  the workspace's lines win\n\n" +
			"'ctxfs undo' takes it back.",
	}
	cmd.Flags().StringVar(&how, "on-conflict", "refuse", "refuse, record, markers, context or workspace")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "only say what would be done")
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) (err error) {
		var ok bool
		if req.OnConflict, ok = onConflicts[how]; !ok {
			return usagef("--on-conflict %q is none of refuse, record, markers, context and workspace", how)
		}
		req.Paths = args
		done, err := r.Rebase(ctx, req)
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(done)
		}
		return a.printRebased(done, req.GetDryRun())
	})
	return cmd
}

func (a *app) printRebased(done *ctxfsv1.RebaseResponse, dry bool) error {
	for _, s := range done.GetStale() {
		if err := a.printf("%s  decide on it again\n", showPath(s.GetPath(), s.GetRawPath())); err != nil {
			return err
		}
	}
	if err := a.printConflicts(done.GetConflicts()); err != nil {
		return err
	}
	if done.GetJournalId() == 0 && !dry {
		return a.printf("nothing was done: the context has what the workspace changed\n")
	}
	return a.printApplied("rebased", done.GetFiles(), done.GetJournalId())
}

func (a *app) printConflicts(list []*ctxfsv1.RecordedConflict) error {
	for _, c := range list {
		text := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(c.GetKind().String(), "CONFLICT_KIND_")), "_", " ")
		if c.GetMarkers() {
			text += ", with markers in the file"
		}
		if err := a.printf("conflict  %s: %s\n", showPath(c.GetPath(), c.GetRawPath()), text); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) conflictsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "conflicts CONTEXT", Short: "List the conflicts that rebase recorded", Args: usage(cobra.ExactArgs(1)),
		RunE: a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, _ []string) error {
			list, err := r.Conflicts(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return printProtos(a, list)
			}
			if len(list) == 0 {
				return a.printf("no conflicts\n")
			}
			return a.printConflicts(list)
		}),
	}
}

func (a *app) resolveCommand() *cobra.Command {
	var with string
	sides := map[string]ctxfsv1.Resolution{
		"context": ctxfsv1.Resolution_RESOLUTION_CONTEXT, "workspace": ctxfsv1.Resolution_RESOLUTION_WORKSPACE, "base": ctxfsv1.Resolution_RESOLUTION_BASE,
	}
	cmd := &cobra.Command{
		Use: "resolve CONTEXT PATH...", Short: "Resolve conflicts that rebase recorded", Args: usage(cobra.MinimumNArgs(2)),
		Long: "Resolves the conflicts of these files, one after the other. --with says what the context's file becomes:\n\n" +
			"  context    what it is now: it was edited by hand, or the context's version wins\n" +
			"  workspace  the workspace's version\n" +
			"  base       the version that both sides began with\n\n" +
			"'ctxfs undo' brings a conflict back.",
	}
	cmd.Flags().StringVar(&with, "with", "context", "context, workspace or base")
	cmd.RunE = a.onReview(func(ctx context.Context, _ *client.Client, r *client.Review, args []string) error {
		side, ok := sides[with]
		if !ok {
			return usagef("--with %q is none of context, workspace and base", with)
		}
		var all []*ctxfsv1.ResolveConflictResponse
		for _, p := range args {
			done, err := r.Resolve(ctx, p, side)
			if err != nil {
				return err
			}
			all = append(all, done)
			if a.json {
				continue
			}
			if err := a.printApplied("resolved", []*ctxfsv1.AppliedFile{done.GetFile()}, done.GetJournalId()); err != nil {
				return err
			}
		}
		if a.json {
			return printProtos(a, all)
		}
		return nil
	})
	return cmd
}
