package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// defaultRemote is what --remote without a value means.
const defaultRemote = "origin"

func (a *app) gitPushCommand() *cobra.Command {
	req := &ctxfsv1.PushRequest{}
	var worktree, merge bool
	cmd := &cobra.Command{
		Use: "push ID --expected COMMIT", Short: "Move a branch to a staged commit", Args: usage(cobra.ExactArgs(1)),
		Long: "Moves a branch to a staged commit: a branch that is not checked out, with --worktree the one that is, with its files, or with --remote a branch of\n" +
			"a remote. --expected repeats the commit that you looked at; another one is refused. Then the context's changes that were staged are no changes any more.\n\n" +
			"With --worktree nothing is pushed if you have changed, or staged, one of the same files. Your other files and what you staged stay as they are.\n\n" +
			"Remotes are those that the repository's own configuration names with http, https or ssh, unless 'ctxfs serve --git-remote' says otherwise. The server's\n" +
			"user pushes, with that user's credentials; git asks for no password.",
		Example: "  ctxfs git show ID\n  ctxfs git push ID --expected 4f2c81d09a7be63155d08c29f3ab7e4410c9d5f2 --remote",
	}
	f := cmd.Flags()
	f.StringVar(&req.ExpectedCommit, "expected", "", "the commit that you looked at, in full ('ctxfs git show' prints it)")
	f.StringVar(&req.Branch, "branch", "", "the branch to move (default: the one that the commit was staged for)")
	f.BoolVar(&worktree, "worktree", false, "move the branch that is checked out, with its index and files")
	f.StringVar(&req.Remote, "remote", "", "push to this remote (--remote=NAME; without a name: "+defaultRemote+")")
	f.Lookup("remote").NoOptDefVal = defaultRemote
	f.BoolVar(&req.CreateBranch, "create", false, "create the branch if it does not exist")
	f.BoolVar(&merge, "merge", false, "if the branch got other commits since, merge")
	f.BoolVar(&req.DryRun, "dry-run", false, "check everything, and push nothing")
	cmd.MarkFlagsMutuallyExclusive("worktree", "remote")
	cmd.RunE = a.onGit(false, func(ctx context.Context, g *client.Git, args []string) error {
		if req.GetExpectedCommit() == "" {
			return usagef("which commit did you look at? --expected COMMIT; 'ctxfs git show %s' prints it", args[0])
		}
		req.Id = args[0]
		switch {
		case worktree:
			req.Target = ctxfsv1.PushTarget_PUSH_TARGET_WORKTREE
		case cmd.Flags().Changed("remote"):
			req.Target = ctxfsv1.PushTarget_PUSH_TARGET_REMOTE
		}
		if merge {
			req.OnMoved = ctxfsv1.PushMoved_PUSH_MOVED_MERGE
		}
		result, err := g.Push(ctx, req, nil)
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(result)
		}
		return a.printf("%s\n", pushed(result, req.GetDryRun()))
	})
	return cmd
}

// pushed says what a push did, or would do.
func pushed(r *ctxfsv1.PushResult, dry bool) string {
	verb, from := "pushed", "new branch"
	if dry {
		verb = "would push"
	}
	if r.GetPrevious() != "" {
		from = "was " + short(r.GetPrevious())
	}
	return fmt.Sprintf("%s %s to %s of %s (%s)", verb, short(r.GetCommit()), show(r.GetBranch()), show(r.GetUrl()), from)
}
