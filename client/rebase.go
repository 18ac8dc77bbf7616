package client

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Rebase brings into the context what the workspace changed since the context was seeded. req's context is set.
func (r *Review) Rebase(ctx context.Context, req *ctxfsv1.RebaseRequest) (*ctxfsv1.RebaseResponse, error) {
	req.ContextId = r.id
	moveTwins(&req.Paths, &req.RawPaths)
	out, err := r.c.reviews().Rebase(ctx, req)
	return out, reviewError("rebase", err)
}

// Conflicts lists the conflicts that Rebase recorded and that are not resolved, by path.
func (r *Review) Conflicts(ctx context.Context) ([]*ctxfsv1.RecordedConflict, error) {
	out, err := r.c.reviews().ListConflicts(ctx, &ctxfsv1.ListConflictsRequest{ContextId: r.id})
	return out.GetConflicts(), reviewError("listconflicts", err)
}

// Resolve resolves the conflict of a path. What the path holds in the context becomes the chosen version.
func (r *Review) Resolve(ctx context.Context, path string, with ctxfsv1.Resolution) (*ctxfsv1.ResolveConflictResponse, error) {
	path, raw := twin(path)
	out, err := r.c.reviews().ResolveConflict(ctx, &ctxfsv1.ResolveConflictRequest{ContextId: r.id, Path: path, RawPath: raw, Resolution: with})
	return out, reviewError("resolveconflict", err)
}
