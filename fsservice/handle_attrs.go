package fsservice

import (
	"context"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Fstat implements FsService.
func (s *Service) Fstat(ctx context.Context, req *ctxfsv1.FstatRequest) (*ctxfsv1.FstatResponse, error) {
	return onHandle(ctx, s, "fstat", reads, req, func(c *handleCall) (*ctxfsv1.FstatResponse, error) {
		st, err := c.handle.File.Stat()
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FstatResponse{Stat: wireStat(st)}, nil
	})
}

// Ftruncate implements FsService.
func (s *Service) Ftruncate(ctx context.Context, req *ctxfsv1.FtruncateRequest) (*ctxfsv1.FtruncateResponse, error) {
	return onHandle(ctx, s, "ftruncate", writes, req, func(c *handleCall) (*ctxfsv1.FtruncateResponse, error) {
		if err := wantLength(req.GetLen()); err != nil {
			return nil, err
		}
		return &ctxfsv1.FtruncateResponse{}, c.handle.File.Truncate(req.GetLen())
	})
}

// Fchmod implements FsService.
func (s *Service) Fchmod(ctx context.Context, req *ctxfsv1.FchmodRequest) (*ctxfsv1.FchmodResponse, error) {
	return onHandle(ctx, s, "fchmod", writes, req, func(c *handleCall) (*ctxfsv1.FchmodResponse, error) {
		mode, err := wantMode(fchmodForm(req))
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FchmodResponse{}, c.handle.File.Chmod(mode)
	})
}

func fchmodForm(req *ctxfsv1.FchmodRequest) (number *uint32, octal *string) {
	switch f := req.GetModeForm().(type) {
	case *ctxfsv1.FchmodRequest_Mode:
		return &f.Mode, nil
	case *ctxfsv1.FchmodRequest_ModeOctal:
		return nil, &f.ModeOctal
	}
	return nil, nil
}

// Fchown implements FsService.
func (s *Service) Fchown(ctx context.Context, req *ctxfsv1.FchownRequest) (*ctxfsv1.FchownResponse, error) {
	return onHandle(ctx, s, "fchown", writes, req, func(c *handleCall) (*ctxfsv1.FchownResponse, error) {
		uid, gid, err := wantOwner(req.Uid, req.Gid)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FchownResponse{}, c.handle.File.Chown(uid, gid)
	})
}

// Futimes implements FsService.
func (s *Service) Futimes(ctx context.Context, req *ctxfsv1.FutimesRequest) (*ctxfsv1.FutimesResponse, error) {
	return onHandle(ctx, s, "futime", writes, req, func(c *handleCall) (*ctxfsv1.FutimesResponse, error) {
		atime, mtime, err := wantTimes(req.AtimeNs, req.MtimeNs)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.FutimesResponse{}, c.handle.File.Utimes(atime, mtime)
	})
}

// Fsync implements FsService.
func (s *Service) Fsync(ctx context.Context, req *ctxfsv1.FsyncRequest) (*ctxfsv1.FsyncResponse, error) {
	return onHandle(ctx, s, "fsync", reads, req, func(c *handleCall) (*ctxfsv1.FsyncResponse, error) {
		return &ctxfsv1.FsyncResponse{}, c.handle.File.Sync(false)
	})
}

// Fdatasync implements FsService.
func (s *Service) Fdatasync(ctx context.Context, req *ctxfsv1.FdatasyncRequest) (*ctxfsv1.FdatasyncResponse, error) {
	return onHandle(ctx, s, "fdatasync", reads, req, func(c *handleCall) (*ctxfsv1.FdatasyncResponse, error) {
		return &ctxfsv1.FdatasyncResponse{}, c.handle.File.Sync(true)
	})
}
