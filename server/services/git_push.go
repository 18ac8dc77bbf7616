package services

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/repos"
)

// Push implements GitService.
func (s *Git) Push(req *ctxfsv1.PushRequest, stream grpc.ServerStreamingServer[ctxfsv1.PushResponse]) error {
	ctx := stream.Context()
	st, err := s.pushable(ctx, req)
	if err != nil {
		return gitStatus(err, "")
	}
	caller := panels.IdentityFrom(ctx)
	var unsent error
	push := repos.PushRequest{
		ID: st.ID, Expected: req.GetExpectedCommit(), Remote: req.GetRemote(), Branch: req.GetBranch(), Create: req.GetCreateBranch(),
		Merge: req.GetOnMoved() == ctxfsv1.PushMoved_PUSH_MOVED_MERGE, DryRun: req.GetDryRun(), Actor: actor(caller), Panel: caller.Panel != "",
		Progress: func(p repos.Phase) {
			if unsent == nil { // the push continues without a listener
				unsent = stream.Send(&ctxfsv1.PushResponse{Part: &ctxfsv1.PushResponse_Phase{Phase: ctxfsv1.PushPhase(p)}})
			}
		},
	}
	for name, target := range pushTargets {
		if target == req.GetTarget() {
			push.Target = name
		}
	}
	if push.Target == "" || ctxfsv1.PushMoved_name[int32(req.GetOnMoved())] == "" {
		return gitStatus(&fserr.Error{Code: fserr.EINVAL, Detail: "unknown target, or treatment of a branch that moved", Hint: "use a value of PushTarget and PushMoved"}, "")
	}
	done, err := s.Repos.Push(ctx, push)
	if err != nil {
		return gitStatus(err, st.Into)
	}
	result := pushedToPB(done)
	if req.GetDryRun() {
		result.PushedNs = 0
	}
	return stream.Send(&ctxfsv1.PushResponse{Part: &ctxfsv1.PushResponse_Result{Result: result}})
}

// pushable returns the record of a staged commit that the caller may push. A panel, or a host that acts for one, pushes what that panel staged.
func (s *Git) pushable(ctx context.Context, req *ctxfsv1.PushRequest) (*repos.Staged, error) {
	st, err := s.staged(ctx, "push", req.GetId())
	if err != nil {
		return nil, err
	}
	caller := panels.IdentityFrom(ctx)
	if caller.Panel == "" {
		return st, nil
	}
	if caller.ReadOnly {
		return nil, &fserr.Error{Code: fserr.EROFS, Hint: "this panel was opened read-only"}
	}
	own, err := s.isOwn(ctx, caller, st)
	if err == nil && (!own || st.Panel != caller.Panel) {
		err = &fserr.Error{Code: fserr.EACCES, Detail: "the panel did not stage this commit", Hint: "a host pushes it"}
	}
	return st, err
}
