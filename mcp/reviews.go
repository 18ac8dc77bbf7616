package mcp

import (
	"context"
	"fmt"
	"io"
	"strings"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

type diffArgs struct {
	Paths []string `json:"paths,omitempty" jsonschema:"only these files and directories; all without it"`
}

type submitArgs struct {
	Title   string `json:"title" jsonschema:"what was done, in one line"`
	Message string `json:"message,omitempty" jsonschema:"what the reviewer should know"`
}

type stageArgs struct {
	Message string   `json:"message" jsonschema:"the message of the commit"`
	Files   []string `json:"files,omitempty" jsonschema:"the files and directories whose changes are staged; all of the repository without it"`
	Repo    string   `json:"repo,omitempty" jsonschema:"the path of the repository; files show it if they are given"`
	Branch  string   `json:"branch,omitempty" jsonschema:"the branch of the commit; a new name without it"`
}

func (s *Server) addDiff() {
	add(s, "diff", "Show changes", "Shows, as a diff, what was changed since the copy was made.", hints{reads: true}, s.diff)
}

func (s *Server) addReviews() {
	add(s, "submit_changes", "Submit changes", "Asks the user to review the changes. The user decides which of them reach the repositories.",
		hints{additive: true, repeatable: true}, s.submit)
	add(s, "stage", "Stage a commit", "Makes a commit of changes, which the user can push. Nothing is pushed.", hints{additive: true}, s.stage)
}

func (s *Server) diff(ctx context.Context, in diffArgs) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := s.review.GetDiff(ctx, &ctxfsv1.GetDiffRequest{ContextId: s.context, Paths: in.Paths, Form: ctxfsv1.DiffForm_DIFF_FORM_UNIFIED})
	var out strings.Builder
	more := false
	err = each(stream, err, func(r *ctxfsv1.GetDiffResponse) error {
		out.Write(r.GetText())
		if more = out.Len() > s.limit; more {
			return io.EOF
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if out.Len() == 0 {
		return "No changes", nil
	}
	return s.lines(strings.Split(strings.ToValidUTF8(out.String(), "\uFFFD"), "\n"), more, "name paths to see the others"), nil
}

func (s *Server) submit(ctx context.Context, in submitArgs) (string, error) {
	r, err := s.review.SubmitReview(ctx, &ctxfsv1.SubmitReviewRequest{ContextId: s.context, Title: in.Title, Message: in.Message})
	return "Submitted revision " + r.GetRevision() + " for review", err
}

func (s *Server) stage(ctx context.Context, in stageArgs) (string, error) {
	r, err := s.git.Stage(ctx, &ctxfsv1.StageRequest{ContextId: s.context, Repo: in.Repo, Files: in.Files, Branch: in.Branch, Message: in.Message})
	st := r.GetStaged()
	return fmt.Sprintf("Staged commit %s of %d files for branch %s; the user pushes it with: ctxfs git push %s", st.GetCommit(), st.GetFileCount(), st.GetBranch(), st.GetId()), err
}
