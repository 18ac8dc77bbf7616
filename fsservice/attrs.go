package fsservice

import (
	"context"
	"math"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Chmod implements FsService.
func (s *Service) Chmod(ctx context.Context, req *ctxfsv1.ChmodRequest) (*ctxfsv1.ChmodResponse, error) {
	return onPath(ctx, s, "chmod", writes, req, func(c *call) (*ctxfsv1.ChmodResponse, error) {
		mode, err := wantMode(chmodForm(req))
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.ChmodResponse{}, c.root.Chmod(c.path, mode)
	})
}

func chmodForm(req *ctxfsv1.ChmodRequest) (number *uint32, octal *string) {
	switch f := req.GetModeForm().(type) {
	case *ctxfsv1.ChmodRequest_Mode:
		return &f.Mode, nil
	case *ctxfsv1.ChmodRequest_ModeOctal:
		return nil, &f.ModeOctal
	}
	return nil, nil
}

func wantMode(number *uint32, octal *string) (uint32, error) {
	mode, given, err := modeOf(number, octal, 0)
	if err == nil && !given {
		err = invalid("mode or mode_octal is required")
	}
	return mode, err
}

// wantOwner checks the owner and group that a request must have: -1 to 2^32-2.
func wantOwner(uid, gid *int64) (int64, int64, error) {
	if uid == nil || gid == nil {
		return 0, 0, invalid("uid and gid are required; -1 leaves one as it is")
	}
	if outOfRange(*uid) || outOfRange(*gid) {
		return 0, 0, invalid("uid %d, gid %d: out of range", *uid, *gid)
	}
	return *uid, *gid, nil
}

func outOfRange(id int64) bool { return id < -1 || id >= math.MaxUint32 }

// Chown implements FsService.
func (s *Service) Chown(ctx context.Context, req *ctxfsv1.ChownRequest) (*ctxfsv1.ChownResponse, error) {
	return onPath(ctx, s, "chown", writes, req, func(c *call) (*ctxfsv1.ChownResponse, error) {
		uid, gid, err := wantOwner(req.Uid, req.Gid)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.ChownResponse{}, c.root.Chown(c.path, uid, gid, true)
	})
}

// Lchown implements FsService.
func (s *Service) Lchown(ctx context.Context, req *ctxfsv1.LchownRequest) (*ctxfsv1.LchownResponse, error) {
	return onPath(ctx, s, "lchown", writes, req, func(c *call) (*ctxfsv1.LchownResponse, error) {
		uid, gid, err := wantOwner(req.Uid, req.Gid)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.LchownResponse{}, c.root.Chown(c.path, uid, gid, false)
	})
}

// wantTimes checks the times that a request must have.
func wantTimes(atime, mtime *int64) (int64, int64, error) {
	if atime == nil || mtime == nil {
		return 0, 0, invalid("atime_ns and mtime_ns are required, in ns since the epoch")
	}
	return *atime, *mtime, nil
}

// Utimes implements FsService.
func (s *Service) Utimes(ctx context.Context, req *ctxfsv1.UtimesRequest) (*ctxfsv1.UtimesResponse, error) {
	return onPath(ctx, s, "utime", writes, req, func(c *call) (*ctxfsv1.UtimesResponse, error) {
		atime, mtime, err := wantTimes(req.AtimeNs, req.MtimeNs)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.UtimesResponse{}, c.root.Utimes(c.path, atime, mtime, true)
	})
}

// Lutimes implements FsService.
func (s *Service) Lutimes(ctx context.Context, req *ctxfsv1.LutimesRequest) (*ctxfsv1.LutimesResponse, error) {
	return onPath(ctx, s, "lutime", writes, req, func(c *call) (*ctxfsv1.LutimesResponse, error) {
		atime, mtime, err := wantTimes(req.AtimeNs, req.MtimeNs)
		if err != nil {
			return nil, err
		}
		return &ctxfsv1.LutimesResponse{}, c.root.Utimes(c.path, atime, mtime, false)
	})
}
