package services

import (
	"context"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// againstOf returns what a context is compared with, if the caller may read it. reviewer is what readTarget said of that context.
func (s *Reviews) againstOf(ctx context.Context, reviewer bool, a *ctxfsv1.Against) (out review.Against, err error) {
	switch what := a.GetWhat().(type) {
	case nil:
		return out, nil
	case *ctxfsv1.Against_Workspace:
		if !reviewer {
			return out, &fserr.Error{Code: fserr.EACCES, Detail: "a panel cannot read the workspace", Hint: "compare as a reviewer"}
		}
		out.Workspace = what.Workspace
	case *ctxfsv1.Against_Revision:
		out.Revision = what.Revision
	case *ctxfsv1.Against_Snapshot:
		out.Snapshot = what.Snapshot
	case *ctxfsv1.Against_ContextId:
		id, err := parseID(what.ContextId)
		if err == nil {
			id, _, err = s.readTarget(ctx, string(id))
		}
		if err != nil {
			return out, err
		}
		out.Context = string(id)
	}
	if out == (review.Against{}) {
		return out, &fserr.Error{Code: fserr.EINVAL, Detail: "against is empty", Hint: "leave it out to compare with the base, or name what to compare with"}
	}
	return out, nil
}
