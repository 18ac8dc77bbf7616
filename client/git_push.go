package client

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Push moves a branch to a staged commit, as req says. progress, which may be nil, is called with each phase.
func (g *Git) Push(ctx context.Context, req *ctxfsv1.PushRequest, progress func(ctxfsv1.PushPhase)) (result *ctxfsv1.PushResult, err error) {
	stream, err := g.c.git().Push(ctx, req)
	if err != nil {
		return nil, gitError("push", err)
	}
	err = each(stream, func(m *ctxfsv1.PushResponse) error {
		switch part := m.GetPart().(type) {
		case *ctxfsv1.PushResponse_Phase:
			if progress != nil {
				progress(part.Phase)
			}
		case *ctxfsv1.PushResponse_Result:
			result = part.Result
		}
		return nil
	})
	return result, gitError("push", err)
}

// CanPush lets the panel push the commits that it staged. Opening the panel again without it ends its older tokens.
func CanPush() PanelOption {
	return func(r *ctxfsv1.OpenPanelRequest) {
		r.Rights = append(r.Rights, ctxfsv1.PanelRight_PANEL_RIGHT_GIT_PUSH)
	}
}
