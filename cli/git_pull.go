package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// pullConflicts are the values of --conflict.
var pullConflicts = map[string]ctxfsv1.PullConflict{
	"fail": ctxfsv1.PullConflict_PULL_CONFLICT_UNSPECIFIED, "markers": ctxfsv1.PullConflict_PULL_CONFLICT_MARKERS,
	"ours": ctxfsv1.PullConflict_PULL_CONFLICT_OURS, "theirs": ctxfsv1.PullConflict_PULL_CONFLICT_THEIRS,
}

func (a *app) gitPullCommand() *cobra.Command {
	var how string
	req := &ctxfsv1.PullRequest{}
	cmd := &cobra.Command{
		Use: "pull REPOSITORY [PATH...]", Short: "Bring files of a branch, a tag or a commit into a context", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Brings files of a commit into a context, all of them or none. REPOSITORY is a path in the context, and each PATH a file or directory in the repository\n" +
			"(default: all). A file that both the context and the commit changed gets the merge of both. --conflict says what happens to files that cannot be merged:\n\n" +
			"  fail     nothing is done, and each file is named\n" +
			"  markers  the context's file gets conflict markers; fails for files that are no text\n" +
			"  ours     the context's lines win\n" +
			"  theirs   the commit's lines win\n\n" +
			"What was pulled becomes the base of these files: what the context changes after that is a change. With --dest the files are put into another directory, and\n" +
			"are changes themselves. Submodules, and what seeding leaves out, stay out. 'ctxfs undo' takes a pull back.",
		Example: "  ctxfs git pull -c panels/editor /app --ref main\n  ctxfs git pull -c panels/editor /app docs --remote origin --ref v2 --dest /app/old-docs",
	}
	f := cmd.Flags()
	f.StringVar(&req.Ref, "ref", "", "a branch, a tag or a commit (default: what is checked out, or the remote's HEAD)")
	f.StringVar(&req.Remote, "remote", "", "pull from this remote of the repository, by its name")
	f.StringVar(&req.Dest, "dest", "", "put the files into this directory of the context")
	f.StringVar(&how, "conflict", "fail", "fail, markers, ours or theirs")
	f.BoolVar(&req.DryRun, "dry-run", false, "only say what would be done")
	cmd.RunE = a.withGit(func(ctx context.Context, g *client.Git, args []string) (err error) {
		var ok bool
		if req.OnConflict, ok = pullConflicts[how]; !ok {
			return usagef("--conflict %q is none of fail, markers, ours and theirs", how)
		}
		req.Repo, req.Paths = args[0], args[1:]
		list, summary, err := g.Pull(ctx, req)
		if err != nil {
			return err
		}
		if a.json {
			return a.printPulledJSON(list, summary)
		}
		return a.printPulled(list, summary, req.GetDryRun())
	})
	return cmd
}

func (a *app) printPulledJSON(list []*ctxfsv1.PulledFile, summary *ctxfsv1.PullSummary) error {
	files := make([]any, len(list))
	for i, f := range list {
		files[i] = jsonOf(f.ProtoReflect())
	}
	return a.printJSON(object{{"commit", summary.GetCommit()}, {"entry", summary.GetEntry()}, {"files", files}})
}

// printPulled prints what was done to each file that was not left as it was.
func (a *app) printPulled(list []*ctxfsv1.PulledFile, summary *ctxfsv1.PullSummary, dry bool) error {
	done := int64(0)
	for _, f := range list {
		if f.GetOutcome() == ctxfsv1.PullOutcome_PULL_OUTCOME_UNCHANGED {
			continue
		}
		done++
		outcome := strings.ToLower(strings.TrimPrefix(f.GetOutcome().String(), "PULL_OUTCOME_"))
		if err := a.printf("%-8s  %s\n", outcome, showPath(f.GetPath(), f.GetRawPath())); err != nil {
			return err
		}
	}
	end := fmt.Sprintf("pulled %s of %s; to take it back: ctxfs undo %d", files(done), short(summary.GetCommit()), summary.GetEntry())
	switch {
	case dry:
		end = fmt.Sprintf("nothing was done: this is a dry run of %s of %s", files(done), short(summary.GetCommit()))
	case summary.GetEntry() == 0:
		end = "nothing was done: the context has the files of " + short(summary.GetCommit())
	}
	return a.printf("%s\n", end)
}
