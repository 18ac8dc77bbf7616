package cli

import (
	"context"
	"strings"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const againstUsage = "what to compare with instead of the base: workspace, revision (the last one submitted), revision:ID, snapshot:NAME, or another context"

// against reads the value of --against; nil for "", which is the base.
func (a *app) against(ctx context.Context, c *client.Client, r *client.Review, value string) (*ctxfsv1.Against, error) {
	kind, name, named := strings.Cut(value, ":")
	switch {
	case value == "":
		return nil, nil
	case value == "workspace":
		return &ctxfsv1.Against{What: &ctxfsv1.Against_Workspace{Workspace: true}}, nil
	case value == "revision":
		state, err := r.Get(ctx)
		if err != nil {
			return nil, err
		}
		if name = state.GetSubmittedRevision(); name == "" {
			return nil, usagef("--against revision: nothing was submitted yet; 'ctxfs submit' does")
		}
		return &ctxfsv1.Against{What: &ctxfsv1.Against_Revision{Revision: name}}, nil
	case named && name == "":
		return nil, usagef("--against %s: it lacks a name", show(value))
	case kind == "revision":
		return &ctxfsv1.Against{What: &ctxfsv1.Against_Revision{Revision: name}}, nil
	case kind == "snapshot":
		return &ctxfsv1.Against{What: &ctxfsv1.Against_Snapshot{Snapshot: name}}, nil
	}
	id, err := a.contextNamed(ctx, c, value)
	return &ctxfsv1.Against{What: &ctxfsv1.Against_ContextId{ContextId: id}}, err
}
