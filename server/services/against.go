package services

import (
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// againstOf returns what a context is compared with, if the caller may read it.
func againstOf(caller panels.Identity, own contexts.ID, a *ctxfsv1.Against) (out review.Against, err error) {
	switch what := a.GetWhat().(type) {
	case nil:
		return out, nil
	case *ctxfsv1.Against_Workspace:
		if !isReviewer(caller) {
			return out, &fserr.Error{Code: fserr.EACCES, Detail: "a panel cannot read the workspace", Hint: "compare as the host"}
		}
		out.Workspace = what.Workspace
	case *ctxfsv1.Against_Revision:
		out.Revision = what.Revision
	case *ctxfsv1.Against_Snapshot:
		out.Snapshot = what.Snapshot
	case *ctxfsv1.Against_ContextId:
		if what.ContextId != "" && !isReviewer(caller) && what.ContextId != string(own) {
			return out, &fserr.Error{Code: fserr.EACCES, Kind: fserr.KindContext, Detail: "the context is another panel's", Hint: "compare as the host"}
		}
		id, err := parseID(what.ContextId)
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
