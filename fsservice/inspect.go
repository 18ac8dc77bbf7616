package fsservice

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Stat implements FsService.
func (s *Service) Stat(ctx context.Context, req *ctxfsv1.StatRequest) (*ctxfsv1.StatResponse, error) {
	return onPath(ctx, s, "stat", reads, req, func(c *call) (*ctxfsv1.StatResponse, error) {
		st, err := c.attributes(true)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.StatResponse{Stat: wireStat(st)}, nil
	})
}

// Lstat implements FsService.
func (s *Service) Lstat(ctx context.Context, req *ctxfsv1.LstatRequest) (*ctxfsv1.LstatResponse, error) {
	return onPath(ctx, s, "lstat", reads, req, func(c *call) (*ctxfsv1.LstatResponse, error) {
		st, err := c.attributes(false)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.LstatResponse{Stat: wireStat(st)}, nil
	})
}

// Statfs implements FsService.
func (s *Service) Statfs(ctx context.Context, req *ctxfsv1.StatfsRequest) (*ctxfsv1.StatfsResponse, error) {
	return onPath(ctx, s, "statfs", reads, req, func(c *call) (*ctxfsv1.StatfsResponse, error) {
		st, err := c.root.Statfs(c.path)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.StatfsResponse{
			Type: st.Type, Bsize: st.Bsize, Blocks: st.Blocks, Bfree: st.Bfree, Bavail: st.Bavail, Files: st.Files, Ffree: st.Ffree,
		}, nil
	})
}

// Access implements FsService.
func (s *Service) Access(ctx context.Context, req *ctxfsv1.AccessRequest) (*ctxfsv1.AccessResponse, error) {
	const writeBit = 2
	return onPath(ctx, s, "access", reads, req, func(c *call) (*ctxfsv1.AccessResponse, error) {
		if req.GetMode() < 0 || req.GetMode() > 7 {
			return nil, invalid("access mode %d is none of 0 to 7", req.GetMode())
		}
		if err := c.root.Access(c.path, uint32(req.GetMode())); err != nil {
			return nil, err
		}
		if req.GetMode()&writeBit != 0 {
			if err := readOnly(c.id); err != nil {
				return nil, err
			}
		}
		return &ctxfsv1.AccessResponse{}, nil
	})
}

// Exists implements FsService.
func (s *Service) Exists(ctx context.Context, req *ctxfsv1.ExistsRequest) (*ctxfsv1.ExistsResponse, error) {
	return onPath(ctx, s, "access", reads, req, func(c *call) (*ctxfsv1.ExistsResponse, error) {
		_, err := c.root.Stat(c.path)
		return &ctxfsv1.ExistsResponse{Exists: err == nil}, nil
	})
}

// Realpath implements FsService.
func (s *Service) Realpath(ctx context.Context, req *ctxfsv1.RealpathRequest) (*ctxfsv1.RealpathResponse, error) {
	return onPath(ctx, s, "realpath", reads, req, func(c *call) (*ctxfsv1.RealpathResponse, error) {
		p, err := c.root.Realpath(c.path)
		if err != nil {
			return nil, err
		}
		text, raw := wirePath(p)
		return &ctxfsv1.RealpathResponse{Path: text, RawPath: raw}, nil
	})
}

// Readlink implements FsService.
func (s *Service) Readlink(ctx context.Context, req *ctxfsv1.ReadlinkRequest) (*ctxfsv1.ReadlinkResponse, error) {
	return onPath(ctx, s, "readlink", reads, req, func(c *call) (*ctxfsv1.ReadlinkResponse, error) {
		target, err := c.root.Readlink(c.path)
		if err != nil {
			return nil, err
		}
		text, raw := wirePath(target)
		return &ctxfsv1.ReadlinkResponse{Target: text, RawTarget: raw}, nil
	})
}

// isDirectory refuses what reads a directory as a file.
func isDirectory(st rootfs.Stat) error {
	if st.IsDir() {
		return fserr.EISDIR
	}
	return nil
}
