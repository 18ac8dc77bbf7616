package services

import (
	"context"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/repos"
	"github.com/ctxfs/ctxfs/review"
)

// gitTarget is what a call is about.
type gitTarget struct {
	// context is "" for all contexts.
	context contexts.ID
	// into is the zone that the context was seeded into, "" for none.
	into string
	// host reports whether the caller may learn what the workspace has.
	host bool
}

// target returns the context that a caller names.
func (s *Git) target(ctx context.Context, named string) (t gitTarget, err error) {
	caller := panels.IdentityFrom(ctx)
	if t.context, err = infoTarget(caller, named); err != nil {
		return t, err
	}
	t.host = caller.Role == panels.RoleHost
	t.into, err = s.into(ctx, t.context)
	return t, err
}

// into returns the zone that a context was seeded into, "" for none.
func (s *Git) into(ctx context.Context, id contexts.ID) (string, error) {
	if s.Into == nil {
		return "", nil
	}
	return s.Into(ctx, id)
}

// path returns a virtual path relative to the workspace.
func (t gitTarget) path(p string) (review.Path, error) {
	q := reviewPath(p, nil)
	switch {
	case t.into == "":
		return q, nil
	case !q.Within(review.Path(t.into)):
		return "", &fserr.Error{Code: fserr.EINVAL, Path: "/" + string(q), Detail: "the file belongs to no repository", Hint: "repositories are in /" + t.into}
	}
	return review.Path(strings.TrimPrefix(strings.TrimPrefix(string(q), t.into), "/")), nil
}

// paths returns virtual paths, those in raw need not be UTF-8, relative to the workspace.
func (t gitTarget) paths(list []string, raw [][]byte) (out []review.Path, err error) {
	for _, p := range withRaw(list, raw) {
		q, err := t.path(p)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// repo returns the repository that a call names, nil for none.
func (t gitTarget) repo(name string) (*review.Path, error) {
	if name == "" {
		return nil, nil
	}
	p, err := t.path(name)
	return &p, err
}

func (t gitTarget) query(repo string, paths []string, raw [][]byte) (q repos.Query, err error) {
	q.Context = string(t.context)
	if q.Repo, err = t.repo(repo); err == nil {
		q.Paths, err = t.paths(paths, raw)
	}
	return q, err
}

// staged returns the record of a staged commit that the caller may use. A panel has those of its context alone, since the context was made:
// an earlier context of the same ID was another one.
func (s *Git) staged(ctx context.Context, operation, id string) (*repos.Staged, error) {
	st, err := s.Repos.Staged(ctx, operation, id)
	if err != nil {
		return nil, err
	}
	caller := panels.IdentityFrom(ctx)
	if caller.Role == panels.RoleHost {
		return st, nil
	}
	ok, err := s.isOwn(ctx, caller, st)
	if err == nil && !ok {
		err = &repos.Error{Reason: repos.NoStaged, Operation: operation, Detail: "there is no staged commit \"" + id + "\"", Hint: "it was discarded, or never staged here"}
	}
	return st, err
}

func (s *Git) isOwn(ctx context.Context, caller panels.Identity, st *repos.Staged) (bool, error) {
	if string(caller.Context) != st.Context {
		return false, nil
	}
	info, err := s.Contexts.Get(ctx, caller.Context)
	return err == nil && !info.CreatedAt.After(st.At), err
}

// ListRepositories implements GitService.
func (s *Git) ListRepositories(ctx context.Context, req *ctxfsv1.ListRepositoriesRequest) (*ctxfsv1.ListRepositoriesResponse, error) {
	t, err := s.target(ctx, req.GetContextId())
	if err != nil {
		return nil, gitStatus(err, t.into)
	}
	all, err := s.Repos.List(ctx, string(t.context), t.host)
	if err != nil {
		return nil, gitStatus(err, t.into)
	}
	out := &ctxfsv1.ListRepositoriesResponse{}
	for _, r := range all {
		out.Repositories = append(out.Repositories, &ctxfsv1.GitRepository{
			Path: zonedRepo(t.into, r.Path), BaseCommit: r.Repository.Head, Branch: fserrpb.Printable(r.Branch), DirtyWhenSeeded: r.Dirty,
			Head: r.Head, Behind: int32(r.Behind), Remotes: r.Remotes, Unusable: r.Unusable,
		})
	}
	return out, nil
}

// ListBranches implements GitService.
func (s *Git) ListBranches(ctx context.Context, req *ctxfsv1.ListBranchesRequest) (*ctxfsv1.ListBranchesResponse, error) {
	t, err := s.target(ctx, req.GetContextId())
	var repo review.Path
	if err == nil {
		repo, err = t.path(req.GetRepo())
	}
	if err != nil {
		return nil, gitStatus(err, t.into)
	}
	branches, err := s.Repos.Branches(ctx, string(t.context), repo)
	if err != nil {
		return nil, gitStatus(err, t.into)
	}
	out := &ctxfsv1.ListBranchesResponse{}
	for _, b := range branches {
		out.Branches = append(out.Branches, &ctxfsv1.GitBranch{Name: fserrpb.Printable(b.Name), Commit: b.Commit, CheckedOut: b.CheckedOut})
	}
	return out, nil
}

// GitStatus implements GitService.
func (s *Git) GitStatus(req *ctxfsv1.GitStatusRequest, stream grpc.ServerStreamingServer[ctxfsv1.GitStatusResponse]) error {
	t, err := s.target(stream.Context(), req.GetContextId())
	if err != nil {
		return gitStatus(err, t.into)
	}
	q, err := t.query(req.GetRepo(), req.GetPaths(), req.GetRawPaths())
	if err != nil {
		return gitStatus(err, t.into)
	}
	all, err := s.Repos.Status(stream.Context(), q)
	if err != nil {
		return gitStatus(err, t.into)
	}
	for _, r := range all {
		sum := &ctxfsv1.GitSummary{Repo: zonedRepo(t.into, r.Repo)}
		for i := range r.Files {
			file := gitFileToPB(t.into, r.Repo, &r.Files[i])
			switch file.GetOperation() {
			case ctxfsv1.GitOperation_GIT_OPERATION_CREATE:
				sum.Created++
			case ctxfsv1.GitOperation_GIT_OPERATION_UPDATE:
				sum.Updated++
			case ctxfsv1.GitOperation_GIT_OPERATION_DELETE:
				sum.Deleted++
			}
			if err := stream.Send(&ctxfsv1.GitStatusResponse{Part: &ctxfsv1.GitStatusResponse_File{File: file}}); err != nil {
				return err
			}
		}
		if err := stream.Send(&ctxfsv1.GitStatusResponse{Part: &ctxfsv1.GitStatusResponse_Summary{Summary: sum}}); err != nil {
			return err
		}
	}
	return nil
}

// GitDiff implements GitService.
func (s *Git) GitDiff(req *ctxfsv1.GitDiffRequest, stream grpc.ServerStreamingServer[ctxfsv1.GitDiffResponse]) error {
	lines := 3
	if req.ContextLines != nil {
		if lines = int(req.GetContextLines()); lines < 0 || lines > maxLines {
			return gitStatus(&fserr.Error{Code: fserr.EINVAL, Detail: "the lines of context are not between 0 and 1000"}, "")
		}
	}
	out := chunks(func(p []byte) error { return stream.Send(&ctxfsv1.GitDiffResponse{Data: p}) })
	if req.GetStagedId() != "" {
		return s.diffStaged(stream.Context(), req, lines, out)
	}
	t, err := s.target(stream.Context(), req.GetContextId())
	if err != nil {
		return gitStatus(err, t.into)
	}
	q, err := t.query(req.GetRepo(), req.GetPaths(), req.GetRawPaths())
	if err == nil {
		err = s.Repos.Diff(stream.Context(), q, lines, out)
	}
	return gitStatus(err, t.into)
}

// maxDiffPaths bounds the paths of a diff of a staged commit, which go to git's command line.
const maxDiffPaths = 500

func (s *Git) diffStaged(ctx context.Context, req *ctxfsv1.GitDiffRequest, lines int, out chunks) error {
	st, err := s.staged(ctx, "diff", req.GetStagedId())
	if err != nil {
		return gitStatus(err, "")
	}
	t := gitTarget{into: st.Into}
	paths, err := t.paths(req.GetPaths(), req.GetRawPaths())
	switch {
	case err != nil:
	case len(paths) > maxDiffPaths:
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "too many paths for the diff of a staged commit", Hint: "name at most 500, or directories"}
	case req.GetContextId() != "" && req.GetContextId() != st.Context:
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "the staged commit is of another context", Hint: "leave context_id empty"}
	default:
		err = s.Repos.DiffStaged(ctx, st, paths, lines, out)
	}
	return gitStatus(err, st.Into)
}

// Stage implements GitService.
func (s *Git) Stage(ctx context.Context, req *ctxfsv1.StageRequest) (*ctxfsv1.StageResponse, error) {
	caller := panels.IdentityFrom(ctx)
	if _, err := changeTarget(caller, req.GetContextId()); err != nil {
		return nil, gitStatus(err, "")
	}
	t, err := s.target(ctx, req.GetContextId())
	if err != nil {
		return nil, gitStatus(err, t.into)
	}
	stage := repos.StageRequest{
		Context: string(t.context), Panel: caller.Panel, Into: t.into, Branch: req.GetBranch(), Message: req.GetMessage(), Author: req.GetAuthor(),
	}
	if stage.Repo, err = t.repo(req.GetRepo()); err == nil {
		stage.Files, err = t.paths(req.GetFiles(), req.GetRawFiles())
	}
	if err != nil {
		return nil, gitStatus(err, t.into)
	}
	st, err := s.Repos.Stage(ctx, stage)
	if err != nil {
		return nil, gitStatus(err, t.into)
	}
	return &ctxfsv1.StageResponse{Staged: stagedToPB(st, maxStagedFiles)}, nil
}

// ListStaged implements GitService.
func (s *Git) ListStaged(ctx context.Context, req *ctxfsv1.ListStagedRequest) (*ctxfsv1.ListStagedResponse, error) {
	caller := panels.IdentityFrom(ctx)
	var id contexts.ID
	if caller.Role != panels.RoleHost || req.GetContextId() != "" || caller.Context != "" {
		target, err := infoTarget(caller, req.GetContextId())
		if err != nil {
			return nil, gitStatus(err, "")
		}
		id = target
	}
	all, err := s.Repos.ListStaged(ctx, string(id), req.GetWithPushed())
	if err != nil {
		return nil, gitStatus(err, "")
	}
	out := &ctxfsv1.ListStagedResponse{}
	room := maxStagedFiles
	for _, st := range all {
		if caller.Role != panels.RoleHost {
			if ok, err := s.isOwn(ctx, caller, st); err != nil {
				return nil, gitStatus(err, "")
			} else if !ok {
				continue
			}
		}
		pb := stagedToPB(st, room)
		room -= len(pb.GetFiles())
		out.Staged = append(out.Staged, pb)
	}
	return out, nil
}

// GetStaged implements GitService.
func (s *Git) GetStaged(ctx context.Context, req *ctxfsv1.GetStagedRequest) (*ctxfsv1.GetStagedResponse, error) {
	st, err := s.staged(ctx, "show", req.GetId())
	if err == nil {
		st, err = s.Repos.Get(ctx, st.ID)
	}
	if err != nil {
		return nil, gitStatus(err, "")
	}
	return &ctxfsv1.GetStagedResponse{Staged: stagedToPB(st, maxStagedFiles)}, nil
}

// DiscardStaged implements GitService.
func (s *Git) DiscardStaged(ctx context.Context, req *ctxfsv1.DiscardStagedRequest) (*ctxfsv1.DiscardStagedResponse, error) {
	if caller := panels.IdentityFrom(ctx); caller.ReadOnly {
		return nil, gitStatus(&fserr.Error{Code: fserr.EROFS, Hint: "this panel was opened read-only"}, "")
	}
	if panels.IdentityFrom(ctx).Role != panels.RoleHost { // a host may discard what cannot be read
		if req.GetForce() {
			return nil, gitStatus(&fserr.Error{Code: fserr.EACCES, Detail: "a panel does not force", Hint: "a host does"}, "")
		}
		if _, err := s.staged(ctx, "discard", req.GetId()); err != nil {
			return nil, gitStatus(err, "")
		}
	}
	unsettled, err := s.Repos.Discard(ctx, req.GetId(), req.GetForce())
	if err != nil {
		return nil, gitStatus(err, "")
	}
	return &ctxfsv1.DiscardStagedResponse{Unsettled: pushedToPB(unsettled)}, nil
}

// maxStagedFiles bounds the files of an answer.
const maxStagedFiles = 10_000

// stagedToPB converts a staged commit with so many of its files.
func stagedToPB(st *repos.Staged, files int) *ctxfsv1.StagedCommit {
	out := &ctxfsv1.StagedCommit{
		Id: st.ID, Commit: st.Commit, Parent: st.Parent, Repo: zonedRepo(st.Into, st.Repo), Branch: st.Branch, Message: strings.ToValidUTF8(st.Message, "\uFFFD"),
		Author: fserrpb.Valid(st.Author.String()), CreatedNs: ns(st.At), ContextId: st.Context, PanelId: st.Panel, FileCount: int32(len(st.Files)), Pushed: pushedToPB(st.Pushed),
		Damaged: st.Damaged,
	}
	for i := range st.Files[:min(len(st.Files), files)] {
		out.Files = append(out.Files, gitFileToPB(st.Into, st.Repo, &st.Files[i]))
	}
	return out
}

var pushTargets = map[string]ctxfsv1.PushTarget{
	"branch": ctxfsv1.PushTarget_PUSH_TARGET_UNSPECIFIED, "worktree": ctxfsv1.PushTarget_PUSH_TARGET_WORKTREE, "remote": ctxfsv1.PushTarget_PUSH_TARGET_REMOTE,
}

func pushedToPB(p *repos.Pushed) *ctxfsv1.PushResult {
	if p == nil {
		return nil
	}
	return &ctxfsv1.PushResult{
		Commit: p.Commit, Branch: p.Branch, Previous: p.Previous, Target: pushTargets[p.Target], Remote: p.Remote, Url: p.URL, PushedNs: ns(p.At),
	}
}

var gitOperations = map[repos.Operation]ctxfsv1.GitOperation{
	repos.Create: ctxfsv1.GitOperation_GIT_OPERATION_CREATE, repos.Update: ctxfsv1.GitOperation_GIT_OPERATION_UPDATE, repos.Delete: ctxfsv1.GitOperation_GIT_OPERATION_DELETE,
}

func gitFileToPB(into string, repo review.Path, f *repos.File) *ctxfsv1.GitFile {
	out := &ctxfsv1.GitFile{
		Operation: gitOperations[f.Operation()], Repo: zonedRepo(into, repo), Additions: int32(f.Added), Deletions: int32(f.Removed), Binary: f.Binary,
		OldMode: f.OldMode, NewMode: f.NewMode, DiffTruncated: f.Truncated, Barred: f.Barred, Ignored: f.Ignored,
	}
	out.Path, out.RawPath = twin(zonedPath(into, string(f.Path)))
	if f.RenamedFrom != "" {
		out.RenameFrom = printable(review.Path(zonedPath(into, string(f.RenamedFrom))))
	}
	if out.Diff = f.Diff; !utf8.ValidString(f.Diff) {
		out.Diff, out.DiffTruncated = "", true // GitDiff has the bytes
	}
	return out
}
