package services

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/repos"
	"github.com/ctxfs/ctxfs/review"
)

// Pull implements GitService.
func (s *Git) Pull(req *ctxfsv1.PullRequest, stream grpc.ServerStreamingServer[ctxfsv1.PullResponse]) error {
	ctx := stream.Context()
	pull, into, err := s.pullOf(ctx, req)
	if err != nil {
		return gitStatus(err, into)
	}
	done, err := s.Repos.Pull(ctx, pull)
	if err != nil {
		return gitStatus(err, into)
	}
	summary := &ctxfsv1.PullSummary{Commit: done.Commit, Entry: done.ID, Outcomes: map[int32]int32{}}
	for _, p := range done.Paths {
		summary.Outcomes[int32(p.Outcome)]++
		file := &ctxfsv1.PulledFile{Outcome: ctxfsv1.PullOutcome(p.Outcome)}
		file.Path, file.RawPath = twin(zonedPath(into, string(p.Path)))
		if err := stream.Send(&ctxfsv1.PullResponse{Part: &ctxfsv1.PullResponse_File{File: file}}); err != nil {
			return err
		}
	}
	return stream.Send(&ctxfsv1.PullResponse{Part: &ctxfsv1.PullResponse_Summary{Summary: summary}})
}

// pullOf converts a request. into is the zone that the context was seeded into, "" for none.
func (s *Git) pullOf(ctx context.Context, req *ctxfsv1.PullRequest) (pull repos.PullRequest, into string, err error) {
	caller := panels.IdentityFrom(ctx)
	if _, err := changeTarget(caller, req.GetContextId()); err != nil {
		return pull, "", err
	}
	t, err := s.target(ctx, req.GetContextId())
	if err != nil {
		return pull, "", err
	}
	switch {
	case req.GetRepo() == "":
		return pull, t.into, &fserr.Error{Code: fserr.EINVAL, Detail: "no repository", Hint: "set repo to one that ListRepositories lists"}
	case ctxfsv1.PullConflict_name[int32(req.GetOnConflict())] == "":
		return pull, t.into, &fserr.Error{Code: fserr.EINVAL, Detail: "unknown treatment of conflicts", Hint: "use a value of PullConflict"}
	}
	dest := req.GetDest() + string(req.GetRawDest())
	pull = repos.PullRequest{
		Context: string(t.context), Actor: actor(caller), Panel: caller.Panel != "", Paths: withRaw(req.GetPaths(), req.GetRawPaths()), Ref: req.GetRef(), Remote: req.GetRemote(), Elsewhere: dest != "",
		OnConflict: review.OnPullConflict(req.GetOnConflict()), DryRun: req.GetDryRun(),
	}
	if pull.Repo, err = t.path(req.GetRepo()); err == nil && pull.Elsewhere {
		pull.Dest, err = t.path(dest)
	}
	return pull, t.into, err
}
