package client

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Pull brings files of a ref into the context: all of them, or none. It returns what was done to each path, by path. req's context is set.
func (g *Git) Pull(ctx context.Context, req *ctxfsv1.PullRequest) (files []*ctxfsv1.PulledFile, summary *ctxfsv1.PullSummary, err error) {
	req.ContextId = g.id
	moveTwins(&req.Paths, &req.RawPaths)
	if dest, raw := twin(req.GetDest()); len(raw) > 0 {
		req.Dest, req.RawDest = dest, raw
	}
	stream, err := g.c.git().Pull(ctx, req)
	if err != nil {
		return nil, nil, gitError("pull", err)
	}
	err = each(stream, func(m *ctxfsv1.PullResponse) error {
		if f := m.GetFile(); f != nil {
			files = append(files, f)
		}
		if s := m.GetSummary(); s != nil {
			summary = s
		}
		return nil
	})
	return files, summary, gitError("pull", err)
}
