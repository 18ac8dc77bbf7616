package client

import (
	"context"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Git takes what lasts out of one context: it shows what the context changed in its repositories, and stages commits of that.
type Git struct {
	c  gitCaller
	id string
}

// gitCaller is the identity that calls: a host or a panel.
type gitCaller interface {
	git() ctxfsv1.GitServiceClient
}

// Git returns the git of a context. "" is the panel's own; for a host, ListStaged is then of all contexts.
func (c *Client) Git(contextID string) *Git { return &Git{c, contextID} }

func (c *Client) git() ctxfsv1.GitServiceClient { return ctxfsv1.NewGitServiceClient(c.conn) }

// Git returns the git of the panel's context, with the panel's rights.
func (p *Panel) Git() *Git { return &Git{p, ""} }

func (p *Panel) git() ctxfsv1.GitServiceClient {
	return ctxfsv1.NewGitServiceClient(identityConn{cc: p.client.cc, id: identity{token: p.bearer}})
}

// Reasons of a GitError.
const (
	ReasonGitConflict        = "GIT_CONFLICT"
	ReasonGitNonFastForward  = "GIT_NON_FAST_FORWARD"
	ReasonGitStaleBase       = "GIT_STALE_BASE"
	ReasonGitWorktreeDirty   = "GIT_WORKTREE_DIRTY"
	ReasonGitLocked          = "GIT_LOCKED"
	ReasonGitAuth            = "GIT_AUTH"
	ReasonGitRejected        = "GIT_REJECTED"
	ReasonGitUnreachable     = "GIT_UNREACHABLE"
	ReasonGitNothingToCommit = "GIT_NOTHING_TO_COMMIT"
	ReasonGitNoRepository    = "GIT_NO_REPOSITORY"
	ReasonGitNoRef           = "GIT_NO_REF"
	ReasonGitNoStaged        = "GIT_NO_STAGED"
	ReasonGitFilter          = "GIT_FILTER"
	ReasonGitSubmodule       = "GIT_SUBMODULE"
	ReasonGitTooLarge        = "GIT_TOO_LARGE"
)

// GitError is a refusal of GitService. Nothing was done, unless MayHaveHappened.
type GitError struct {
	// Reason is one of the constants above.
	Reason string
	// Operation is what was refused: "stage", "push". Repo is the repository's path in the context, Ref a full ref, Expected and Actual are
	// commits; "" where they do not apply.
	Operation, Repo, Ref, Expected, Actual string
	// Files are those that the refusal is about; nil if it is about none.
	Files *ctxfsv1.RefusedFiles
	// MayHaveHappened says that the connection to a remote was lost, and that it is not known whether the remote moved its branch.
	MayHaveHappened bool
	// Detail says what, Hint the remedy.
	Detail, Hint string
}

// Error returns the refusal in words, with the first files.
func (e *GitError) Error() string {
	if e.Hint == "" {
		return e.Detail
	}
	return e.Detail + "; " + e.Hint
}

// gitError converts the error of a call of GitService.
func gitError(op string, err error) error {
	st, ok := status.FromError(err)
	if !ok || err == nil {
		return convert(op, err)
	}
	for _, d := range st.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != fserrpb.Domain || info.GetMetadata()["kind"] != "git" {
			continue
		}
		m := info.GetMetadata()
		return &GitError{
			Reason: info.GetReason(), Operation: m["operation"], Repo: m["repo"], Ref: m["ref"], Expected: m["expected"], Actual: m["actual"],
			MayHaveHappened: m["may_have_happened"] == "true", Detail: m["detail"], Hint: m["hint"],
			Files: fserrpb.FilesOf(err),
		}
	}
	return reviewError(op, err)
}

// Repositories lists the repositories that the context was seeded with.
func (g *Git) Repositories(ctx context.Context) ([]*ctxfsv1.GitRepository, error) {
	out, err := g.c.git().ListRepositories(ctx, &ctxfsv1.ListRepositoriesRequest{ContextId: g.id})
	return out.GetRepositories(), gitError("listrepositories", err)
}

// Branches lists the branches of a repository of the workspace.
func (g *Git) Branches(ctx context.Context, repo string) ([]*ctxfsv1.GitBranch, error) {
	out, err := g.c.git().ListBranches(ctx, &ctxfsv1.ListBranchesRequest{ContextId: g.id, Repo: repo})
	return out.GetBranches(), gitError("listbranches", err)
}

// Status lists what the context changed, in one repository or, with "", in all, at these paths and below them; all if there are none.
func (g *Git) Status(ctx context.Context, repo string, paths ...string) (files []*ctxfsv1.GitFile, summaries []*ctxfsv1.GitSummary, err error) {
	text, raw := rawTwins(paths)
	stream, err := g.c.git().GitStatus(ctx, &ctxfsv1.GitStatusRequest{ContextId: g.id, Repo: repo, Paths: text, RawPaths: raw})
	if err != nil {
		return nil, nil, gitError("gitstatus", err)
	}
	err = each(stream, func(m *ctxfsv1.GitStatusResponse) error {
		if f := m.GetFile(); f != nil {
			files = append(files, f)
		}
		if s := m.GetSummary(); s != nil {
			summaries = append(summaries, s)
		}
		return nil
	})
	return files, summaries, gitError("gitstatus", err)
}

// Diff writes changes as text that git apply accepts: those of the context or, if req names a staged commit, that commit's. req's context is
// set, unless it names a staged commit.
func (g *Git) Diff(ctx context.Context, w io.Writer, req *ctxfsv1.GitDiffRequest) error {
	if req.GetStagedId() == "" {
		req.ContextId = g.id
	}
	moveTwins(&req.Paths, &req.RawPaths)
	stream, err := g.c.git().GitDiff(ctx, req)
	if err != nil {
		return gitError("gitdiff", err)
	}
	return gitError("gitdiff", each(stream, func(m *ctxfsv1.GitDiffResponse) error {
		_, err := w.Write(m.GetData())
		return err
	}))
}

// Stage makes a commit of changes. req's context is set.
func (g *Git) Stage(ctx context.Context, req *ctxfsv1.StageRequest) (*ctxfsv1.StagedCommit, error) {
	req.ContextId = g.id
	moveTwins(&req.Files, &req.RawFiles)
	out, err := g.c.git().Stage(ctx, req)
	return out.GetStaged(), gitError("stage", err)
}

// Staged lists staged commits, the newest first, without diffs. Those that were pushed come only with pushed.
func (g *Git) Staged(ctx context.Context, pushed bool) ([]*ctxfsv1.StagedCommit, error) {
	out, err := g.c.git().ListStaged(ctx, &ctxfsv1.ListStagedRequest{ContextId: g.id, WithPushed: pushed})
	return out.GetStaged(), gitError("liststaged", err)
}

// Show returns a staged commit with the diffs of its files.
func (g *Git) Show(ctx context.Context, id string) (*ctxfsv1.StagedCommit, error) {
	out, err := g.c.git().GetStaged(ctx, &ctxfsv1.GetStagedRequest{Id: id})
	return out.GetStaged(), gitError("getstaged", err)
}

// Discard forgets a staged commit. The context keeps its changes.
func (g *Git) Discard(ctx context.Context, id string) error {
	_, err := g.c.git().DiscardStaged(ctx, &ctxfsv1.DiscardStagedRequest{Id: id})
	return gitError("discardstaged", err)
}

// ForceDiscard is Discard, also if it is not known whether the commit was pushed. It returns that push, nil for none: its target may have the commit.
// It is for hosts.
func (g *Git) ForceDiscard(ctx context.Context, id string) (unsettled *ctxfsv1.PushResult, err error) {
	out, err := g.c.git().DiscardStaged(ctx, &ctxfsv1.DiscardStagedRequest{Id: id, Force: true})
	return out.GetUnsettled(), gitError("discardstaged", err)
}
