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
}

func (c *committing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.commit, "commit", false, "also commit the changes, and nothing else, to what each repository has checked out")
	f.StringVar(&c.branch, "branch", "", "only commit the changes to this branch; the working tree stays as it is")
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
		if c.message != "" || c.author != "" || len(c.trailers) > 0 {
			return usagef("--message, --author and --trailer need --commit or --branch")
		}
		return nil
	case strings.TrimSpace(c.message) == "":
		return usagef("a commit needs a message: -m MESSAGE")
	}
	req.Target, req.Commit = ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT, &ctxfsv1.CommitOptions{Message: c.message, Trailers: c.trailers, Branch: c.branch}
	if c.branch != "" {
		req.Target = ctxfsv1.ApplyTarget_APPLY_TARGET_BRANCH
	}
	if c.author == "" {
		return nil
	}
	name, email, ok := strings.Cut(strings.TrimSuffix(c.author, ">"), "<")
	if !ok || !strings.HasSuffix(c.author, ">") {
		return usagef("--author %q is not 'Name <email>'", c.author)
	}
	req.Commit.AuthorName, req.Commit.AuthorEmail = strings.TrimSpace(name), email
	return nil
}

// printCommits names the commits of an apply; without their IDs they are those of a dry run.
func (a *app) printCommits(commits []*ctxfsv1.Commit) error {
	for _, c := range commits {
		text := "would be committed to " + shortRef(c)
		if c.GetCommitId() != "" {
			text = fmt.Sprintf("commit %.12s on %s", c.GetCommitId(), shortRef(c))
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
