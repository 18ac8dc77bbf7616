package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (a *app) gitCommand() *cobra.Command {
	cmd := parent("git", "Pull into a context, stage commits of what it changed, and push them",
		a.gitRepositoriesCommand(), a.gitBranchesCommand(), a.gitStatusCommand(), a.gitDiffCommand(), a.gitPullCommand(),
		a.gitStageCommand(), a.gitStagedCommand(), a.gitShowCommand(), a.gitPushCommand(), a.gitDiscardCommand(),
	)
	cmd.Long = "Takes what lasts out of a context. -c names the context by its ID or a panel's name; with --panel the commands act for that panel.\n" +
		"A staged commit is a real commit, of which no branch of the workspace knows yet. Later changes of the context do not alter it.\n\n" +
		"No program that a repository names runs: no hook, no filter, no monitor."
	return cmd
}

// withGit makes a RunE of a function that works on the git of the context that -c or --panel names.
func (a *app) withGit(do func(ctx context.Context, g *client.Git, args []string) error) func(*cobra.Command, []string) error {
	return a.onGit(true, do)
}

// onGit is withGit. If needed is false, a host need not name a context.
func (a *app) onGit(needed bool, do func(ctx context.Context, g *client.Git, args []string) error) func(*cobra.Command, []string) error {
	return a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if needed && a.contextID() == "" && a.panelID() == "" && a.token == "" && a.env.Getenv("CTXFS_TOKEN") == "" {
			return usagef("which context? name it with -c ID, or a panel with --panel NAME (or CTXFS_CONTEXT, CTXFS_PANEL, CTXFS_TOKEN)")
		}
		id, err := a.contextNamed(ctx, c, a.contextID())
		if err != nil {
			return err
		}
		return do(ctx, c.Git(id), args)
	})
}

func (a *app) gitRepositoriesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "repositories", Short: "List the repositories that a context was seeded with", Args: usage(cobra.NoArgs),
		RunE: a.withGit(func(ctx context.Context, g *client.Git, _ []string) error {
			list, err := g.Repositories(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return printProtos(a, list)
			}
			rows := make([][]string, len(list))
			for i, r := range list {
				rows[i] = []string{show(r.GetPath()), orDash(show(r.GetBranch())), orDash(short(r.GetBaseCommit())), repositoryState(r), show(strings.Join(r.GetRemotes(), ", "))}
			}
			return a.table([]string{"REPOSITORY", "BRANCH", "SEEDED AT", "STATE", "REMOTES"}, rows)
		}),
	}
}

func repositoryState(r *ctxfsv1.GitRepository) string {
	var out []string
	if r.GetUnusable() != "" {
		out = append(out, "unusable: "+r.GetUnusable())
	}
	if r.GetDirtyWhenSeeded() {
		out = append(out, "had uncommitted changes")
	}
	if n := r.GetBehind(); n > 0 {
		out = append(out, fmt.Sprintf("%d commits behind", n))
	}
	return orDash(strings.Join(out, ", "))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// short cuts a commit's ID.
func short(commit string) string { return commit[:min(len(commit), 12)] }

func (a *app) gitBranchesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "branches [REPOSITORY]", Short: "List the branches of a repository", Args: usage(cobra.MaximumNArgs(1)),
		Long: "Lists the branches of a repository of the workspace. Those that a working tree has checked out have a star.\nREPOSITORY is a path in the context (default: the only one).",
		RunE: a.withGit(func(ctx context.Context, g *client.Git, args []string) error {
			repo, err := onlyRepository(ctx, g, args)
			if err != nil {
				return err
			}
			list, err := g.Branches(ctx, repo)
			if err != nil {
				return err
			}
			if a.json {
				return printProtos(a, list)
			}
			for _, b := range list {
				mark := " "
				if b.GetCheckedOut() {
					mark = "*"
				}
				if err := a.printf("%s %s  %s\n", mark, short(b.GetCommit()), show(b.GetName())); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// onlyRepository returns the repository that is named, or the only one of the context.
func onlyRepository(ctx context.Context, g *client.Git, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	list, err := g.Repositories(ctx)
	if err == nil && len(list) != 1 {
		err = usagef("the context has %d repositories: name one of those that 'ctxfs git repositories' lists", len(list))
	}
	if err != nil {
		return "", err
	}
	return list[0].GetPath(), nil
}

func (a *app) gitStatusCommand() *cobra.Command {
	var repo string
	cmd := &cobra.Command{
		Use: "status [PATH...]", Short: "List what a context changed in its repositories",
		Long: "Lists what a context changed since it was seeded, or since it was pushed, by repository.\n\n" +
			"The first column is A for a file that is new, M for one that differs, D for one that is removed, and ! for ignored files, which 'ctxfs git stage' takes\nonly if they are named.",
	}
	cmd.Flags().StringVar(&repo, "repo", "", "only this repository, by its path in the context")
	cmd.RunE = a.withGit(func(ctx context.Context, g *client.Git, args []string) error {
		files, summaries, err := g.Status(ctx, repo, args...)
		if err != nil {
			return err
		}
		if a.json {
			return printProtos(a, files)
		}
		for _, s := range summaries {
			if err := a.printf("%s: %d created, %d updated, %d deleted\n", show(s.GetRepo()), s.GetCreated(), s.GetUpdated(), s.GetDeleted()); err != nil {
				return err
			}
			if err := a.printGitFiles(files, s.GetRepo()); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// printGitFiles prints a line for each file of a repository.
func (a *app) printGitFiles(files []*ctxfsv1.GitFile, repo string) error {
	var rows [][]string
	for _, f := range files {
		if f.GetRepo() != repo {
			continue
		}
		letter := gitLetters[f.GetOperation()]
		if f.GetIgnored() {
			letter = "!"
		}
		rows = append(rows, []string{" " + letter, showPath(f.GetPath(), f.GetRawPath()), gitCounts(f), gitRemarks(f)})
	}
	return a.section(nil, rows)
}

var gitLetters = map[ctxfsv1.GitOperation]string{
	ctxfsv1.GitOperation_GIT_OPERATION_CREATE: "A", ctxfsv1.GitOperation_GIT_OPERATION_UPDATE: "M", ctxfsv1.GitOperation_GIT_OPERATION_DELETE: "D",
}

func gitCounts(f *ctxfsv1.GitFile) string {
	if f.GetBinary() {
		return "binary"
	}
	return lineCounts(&ctxfsv1.Change{AddedLines: f.GetAdditions(), RemovedLines: f.GetDeletions()})
}

func gitRemarks(f *ctxfsv1.GitFile) string {
	var out []string
	if f.GetBarred() != "" {
		out = append(out, "cannot be staged: "+f.GetBarred())
	}
	if f.GetRenameFrom() != "" {
		out = append(out, "was "+show(strings.TrimPrefix(f.GetRenameFrom(), "/")))
	}
	if o, n := f.GetOldMode(), f.GetNewMode(); o != 0 && n != 0 && o != n {
		out = append(out, fmt.Sprintf("mode %06o, was %06o", n, o))
	}
	return strings.Join(out, ", ")
}

func (a *app) gitDiffCommand() *cobra.Command {
	var lines int32
	req := &ctxfsv1.GitDiffRequest{}
	cmd := &cobra.Command{
		Use: "diff [PATH...]", Short: "Show what a context changed in its repositories, as git diff does",
		Long: "Writes what a context changed as text that git apply accepts in the workspace's folder or, with --repo, in that repository.",
	}
	cmd.Flags().StringVar(&req.Repo, "repo", "", "only this repository, by its path in the context")
	cmd.Flags().Int32VarP(&lines, "unified", "U", 3, "lines of context around a change")
	cmd.RunE = a.withGit(func(ctx context.Context, g *client.Git, args []string) error {
		req.Paths, req.ContextLines = args, &lines
		return g.Diff(ctx, a.patchWriter(), req)
	})
	return cmd
}

func (a *app) gitStageCommand() *cobra.Command {
	req := &ctxfsv1.StageRequest{}
	cmd := &cobra.Command{
		Use: "stage -m MESSAGE [PATH...]", Short: "Make a commit of changes, for a person to look at",
		Long: "Makes a commit of what the context changed at and below each PATH, or of all changes of a repository that the ignore files do not exclude. The commit goes\n" +
			"on top of a branch, without what the user changed and did not commit. No branch moves, and the workspace does not change.\n\n" +
			"'ctxfs git show ID' shows it.",
		Example: "  ctxfs git stage -c panels/editor -m 'Fix the parser' app/src/parse.go",
	}
	f := cmd.Flags()
	f.StringVarP(&req.Message, "message", "m", "", "the message of the commit")
	f.StringVar(&req.Repo, "repo", "", "the repository, by its path in the context (default: the one of the files, or the only one)")
	f.StringVar(&req.Branch, "branch", "", "the branch that the commit goes on top of; a new one begins at what is checked out (default: a new branch ctxfs/PANEL/MESSAGE)")
	f.StringVar(&req.Author, "author", "", "the author, as 'Name <email>' (default: user.name and user.email of the repository)")
	cmd.RunE = a.withGit(func(ctx context.Context, g *client.Git, args []string) error {
		if strings.TrimSpace(req.GetMessage()) == "" {
			return usagef("a commit needs a message: -m MESSAGE")
		}
		req.Files = args
		s, err := g.Stage(ctx, req)
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(s)
		}
		return a.printf("%s  %s on %s of %s, %s\nlook at it with 'ctxfs git show %s'\n", s.GetId(), short(s.GetCommit()), show(s.GetBranch()), show(s.GetRepo()), files(int64(s.GetFileCount())), s.GetId())
	})
	return cmd
}

func (a *app) gitStagedCommand() *cobra.Command {
	var pushed bool
	cmd := &cobra.Command{
		Use: "staged", Short: "List staged commits, the newest first", Args: usage(cobra.NoArgs),
		Long: "Lists the staged commits of a context, or of all contexts, the newest first. They stay until they are pushed or discarded, also if their context is deleted. " +
			"The records of pushed ones stay for 30 days, up to 100 of a context.",
	}
	cmd.Flags().BoolVar(&pushed, "pushed", false, "list those that were pushed too")
	cmd.RunE = a.onGit(false, func(ctx context.Context, g *client.Git, _ []string) error {
		list, err := g.Staged(ctx, pushed)
		if err != nil {
			return err
		}
		if a.json {
			return printProtos(a, list)
		}
		rows := make([][]string, len(list))
		for i, s := range list {
			rows[i] = []string{s.GetId(), show(s.GetContextId()), show(s.GetRepo()), show(s.GetBranch()), short(s.GetCommit()), files(int64(s.GetFileCount())), stagedState(s), subject(s)}
		}
		return a.table([]string{"ID", "CONTEXT", "REPOSITORY", "BRANCH", "COMMIT", "FILES", "STATE", "MESSAGE"}, rows)
	})
	return cmd
}

func stagedState(s *ctxfsv1.StagedCommit) string {
	p := s.GetPushed()
	switch {
	case s.GetDamaged() != "":
		return "damaged"
	case p == nil:
		return "staged"
	case p.GetRemote() != "":
		return "pushed to " + show(p.GetRemote()+"/"+p.GetBranch())
	}
	return "pushed to " + show(p.GetBranch())
}

func subject(s *ctxfsv1.StagedCommit) string {
	line, _, _ := strings.Cut(s.GetMessage(), "\n")
	return show(line)
}

func (a *app) gitShowCommand() *cobra.Command {
	var stat bool
	cmd := &cobra.Command{
		Use: "show ID [PATH...]", Short: "Show a staged commit", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Shows a staged commit as git show does. The text from the first line 'diff --git' on is what git apply accepts in the repository.",
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "only list the files")
	cmd.RunE = a.onGit(false, func(ctx context.Context, g *client.Git, args []string) error {
		s, err := g.Show(ctx, args[0])
		if err != nil {
			return err
		}
		if a.json {
			return a.printProto(s)
		}
		if err := a.printStaged(s); err != nil || stat {
			if err == nil {
				err = a.printGitFiles(s.GetFiles(), s.GetRepo())
			}
			return err
		}
		return g.Diff(ctx, a.patchWriter(), &ctxfsv1.GitDiffRequest{StagedId: s.GetId(), Paths: args[1:]})
	})
	return cmd
}

// printStaged prints the head of a staged commit.
func (a *app) printStaged(s *ctxfsv1.StagedCommit) error {
	head := [][]string{
		{"commit", s.GetCommit()}, {"Staged:", s.GetId() + ", " + stagedState(s)}, {"Branch:", show(s.GetBranch()) + " of " + show(s.GetRepo())},
		{"Author:", show(s.GetAuthor())}, {"Date:", time.Unix(0, s.GetCreatedNs()).Format(time.RFC1123Z)},
	}
	for _, line := range head {
		if err := a.printf("%-8s%s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	for line := range strings.Lines("\n" + s.GetMessage() + "\n") {
		if text := printable(strings.TrimSuffix(line, "\n")); text != "" {
			line = "    " + text + "\n"
		}
		if err := a.printf("%s", line); err != nil {
			return err
		}
	}
	return a.printf("\n")
}

func (a *app) gitDiscardCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "discard ID...", Short: "Forget staged commits; the context keeps its changes", Args: usage(cobra.MinimumNArgs(1)),
		Long: "Forgets staged commits. The context keeps its changes.\n\nIf the connection to a remote was lost during a push, it may not be known whether the remote has the commit. Such a commit is " +
			"discarded only with --force, and the output says where it may have been pushed to.",
	}
	cmd.Flags().BoolVar(&force, "force", false, "discard also what may have been pushed")
	cmd.RunE = a.onGit(false, func(ctx context.Context, g *client.Git, args []string) error {
		var gone []any
		for _, id := range args {
			one, err := a.gitDiscard(ctx, g, id, force)
			if err != nil {
				return err
			}
			gone = append(gone, one)
		}
		if a.json {
			return a.printJSON(gone)
		}
		return nil
	})
	return cmd
}

// gitDiscard discards a staged commit, and returns the JSON about it.
func (a *app) gitDiscard(ctx context.Context, g *client.Git, id string, force bool) (map[string]string, error) {
	one := map[string]string{"id": id, "maybePushedTo": ""}
	if !force {
		if err := g.Discard(ctx, id); err != nil || a.json {
			return one, err
		}
		return one, a.printf("discarded %s\n", id)
	}
	unsettled, err := g.ForceDiscard(ctx, id)
	if err != nil {
		return nil, err
	}
	note := ""
	if unsettled != nil {
		one["maybePushedTo"] = unsettled.GetBranch() + " of " + unsettled.GetUrl()
		note = "; it is not known whether it was pushed to " + show(one["maybePushedTo"])
	}
	if a.json {
		return one, nil
	}
	return one, a.printf("discarded %s%s\n", id, note)
}

// stagedIDs lists the staged commits for the shell.
func (a *app) stagedIDs(ctx context.Context, c *client.Client, _ []string, _ string) ([]string, error) {
	list, err := c.Git("").Staged(ctx, false)
	ids := make([]string, len(list))
	for i, s := range list {
		ids[i] = s.GetId()
	}
	return ids, err
}
