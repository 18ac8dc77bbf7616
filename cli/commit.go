package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// committing is what the flags of a command say about commits.
type committing struct {
	commit                  bool
	branch, message, author string
	trailers                []string
	hooks                   bool
}

func (c *committing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.commit, "commit", false, "also commit the changes, and nothing else, to what each repository has checked out")
	f.StringVar(&c.branch, "branch", "", "only commit the changes to this branch; the working tree stays as it is")
	c.optionFlags(cmd)
}

// optionFlags are those of how a commit is made.
func (c *committing) optionFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.hooks, "hooks", false, "with --commit, run the repository's hooks: programs that run as the server's user")
	f.StringVarP(&c.message, "message", "m", "", "the message of the commit")
	f.StringVar(&c.author, "author", "", "the author, as 'Name <email>' (default: user.name and user.email of the repository)")
	f.StringArrayVar(&c.trailers, "trailer", nil, "a line 'Key: value' at the end of the message, such as 'Reviewed-by: Name <email>'")
}

// set puts the flags into a request.
func (c *committing) set(req *ctxfsv1.ApplyRequest) error {
	switch {
	case c.commit && c.branch != "":
		return usagef("give --commit or --branch, not both")
	case !c.commit && c.branch == "":
		if c.hasOptions() {
			return usagef("--message, --author, --trailer and --hooks need --commit or --branch")
		}
		return nil
	case c.hooks && c.branch != "":
		return usagef("--hooks needs --commit: hooks look at the files of what is checked out")
	case strings.TrimSpace(c.message) == "":
		return usagef("a commit needs a message: -m MESSAGE")
	}
	req.Target = ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT
	if c.branch != "" {
		req.Target = ctxfsv1.ApplyTarget_APPLY_TARGET_BRANCH
	}
	var err error
	req.Commit, err = c.options()
	return err
}

func (c *committing) hasOptions() bool {
	return c.message != "" || c.author != "" || len(c.trailers) > 0 || c.hooks
}

// options returns how a commit is made.
func (c *committing) options() (*ctxfsv1.CommitOptions, error) {
	out := &ctxfsv1.CommitOptions{Message: c.message, Trailers: c.trailers, Branch: c.branch}
	if c.hooks {
		out.Hooks = ctxfsv1.CommitHooks_COMMIT_HOOKS_RUN
	}
	if c.author == "" {
		return out, nil
	}
	name, email, ok := strings.Cut(strings.TrimSuffix(c.author, ">"), "<")
	if !ok || !strings.HasSuffix(c.author, ">") {
		return nil, usagef("--author %q is not 'Name <email>'", c.author)
	}
	out.AuthorName, out.AuthorEmail = strings.TrimSpace(name), email
	return out, nil
}

// printCommits names the commits of an apply; without their IDs they are those of a dry run.
func (a *app) printCommits(commits []*ctxfsv1.Commit) error {
	for _, c := range commits {
		text := "would be committed to " + shortRef(c)
		if c.GetCommitId() != "" {
			text = fmt.Sprintf("commit %.12s on %s", c.GetCommitId(), shortRef(c))
		}
		if hooks := c.GetHooks(); len(hooks) > 0 {
			text += ", after its hooks " + show(strings.Join(hooks, ", "))
		}
		if err := a.printf("%s  %s, by %s\n", show(c.GetRepository()), text, show(c.GetAuthor())); err != nil {
			return err
		}
	}
	return nil
}

func shortRef(c *ctxfsv1.Commit) string { return show(strings.TrimPrefix(c.GetRef(), "refs/heads/")) }

// commitList is how the journal shows commits.
func commitList(commits []*ctxfsv1.Commit) string {
	var out []string
	for _, c := range commits {
		out = append(out, fmt.Sprintf("%s %.12s (%s)", show(c.GetRepository()), c.GetCommitId(), shortRef(c)))
	}
	return strings.Join(out, ", ")
}
