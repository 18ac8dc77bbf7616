package services

import (
	"context"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// ofWorkspace are the versions that reveal what the workspace holds.
var ofWorkspace = map[ctxfsv1.Version]bool{
	ctxfsv1.Version_VERSION_WORKSPACE: true, ctxfsv1.Version_VERSION_MERGED: true, ctxfsv1.Version_VERSION_CONFLICT_CONTEXT: true,
	ctxfsv1.Version_VERSION_CONFLICT_WORKSPACE: true,
}

// Rebase implements ReviewService.
func (s *Reviews) Rebase(ctx context.Context, req *ctxfsv1.RebaseRequest) (*ctxfsv1.RebaseResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := s.reviewTarget(ctx, req.GetContextId())
	if err == nil && ctxfsv1.OnConflict_name[int32(req.GetOnConflict())] == "" {
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "unknown treatment of conflicts", Hint: "use a value of OnConflict"}
	}
	if err != nil {
		return nil, reviewStatus(err)
	}
	rebase := review.RebaseRequest{Context: string(id), OnConflict: review.OnConflict(req.GetOnConflict()), DryRun: req.GetDryRun(), Actor: actor(caller)}
	for _, p := range withRaw(req.GetPaths(), req.GetRawPaths()) {
		rebase.Paths = append(rebase.Paths, reviewPath(p, nil))
	}
	done, err := s.Reviews.Rebase(ctx, rebase)
	if err != nil {
		return nil, reviewStatus(err)
	}
	out := &ctxfsv1.RebaseResponse{JournalId: done.ID, Conflicts: conflictsToPB(done.Conflicts)}
	for _, f := range done.Files() {
		out.Files = append(out.Files, fileToPB(f))
	}
	for _, d := range done.Stale {
		pb := &ctxfsv1.SelectedChange{HunkIds: d.Hunks}
		pb.Path, pb.RawPath = virtual(d.Path)
		out.Stale = append(out.Stale, pb)
	}
	return out, nil
}

// ListConflicts implements ReviewService.
func (s *Reviews) ListConflicts(ctx context.Context, req *ctxfsv1.ListConflictsRequest) (*ctxfsv1.ListConflictsResponse, error) {
	id, err := s.reviewTarget(ctx, req.GetContextId())
	if err != nil {
		return nil, reviewStatus(err)
	}
	list, err := s.Reviews.Conflicts(ctx, string(id))
	if err != nil {
		return nil, reviewStatus(err)
	}
	return &ctxfsv1.ListConflictsResponse{Conflicts: conflictsToPB(list)}, nil
}

// ResolveConflict implements ReviewService.
func (s *Reviews) ResolveConflict(ctx context.Context, req *ctxfsv1.ResolveConflictRequest) (*ctxfsv1.ResolveConflictResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := s.reviewTarget(ctx, req.GetContextId())
	if err == nil && (req.GetResolution() == 0 || ctxfsv1.Resolution_name[int32(req.GetResolution())] == "") {
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "no resolution", Hint: "set it to RESOLUTION_CONTEXT, RESOLUTION_WORKSPACE, RESOLUTION_BASE or RESOLUTION_CONTENT"}
	}
	if err != nil {
		return nil, reviewStatus(err)
	}
	to := review.Resolution{Side: review.Side(req.GetResolution()), Content: req.GetContent(), IfHash: req.GetIfSha256()}
	e, err := s.Reviews.Resolve(ctx, string(id), reviewPath(req.GetPath(), req.GetRawPath()), to, actor(caller))
	if err != nil {
		return nil, reviewStatus(err)
	}
	return &ctxfsv1.ResolveConflictResponse{JournalId: e.ID, File: fileToPB(e.Files()[0])}, nil
}

func conflictsToPB(list []review.RecordedConflict) []*ctxfsv1.RecordedConflict {
	var out []*ctxfsv1.RecordedConflict
	for _, c := range list {
		pb := &ctxfsv1.RecordedConflict{
			Kind: ctxfsv1.ConflictKind(c.Kind), Base: versionToPB(c.Base), Context: versionToPB(c.Context), Workspace: versionToPB(c.Workspace), Markers: c.Marked != "",
		}
		if !c.At.IsZero() {
			pb.RecordedNs = ns(c.At)
		}
		pb.Path, pb.RawPath = virtual(c.Path)
		out = append(out, pb)
	}
	return out
}
