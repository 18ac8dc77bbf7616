package fsservice

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Rename implements FsService.
func (s *Service) Rename(ctx context.Context, req *ctxfsv1.RenameRequest) (*ctxfsv1.RenameResponse, error) {
	return onTwoPaths(ctx, s, "rename", req, func(c *call) (*ctxfsv1.RenameResponse, error) {
		return &ctxfsv1.RenameResponse{}, c.root.Rename(c.path, c.dest)
	})
}

// Link implements FsService.
func (s *Service) Link(ctx context.Context, req *ctxfsv1.LinkRequest) (*ctxfsv1.LinkResponse, error) {
	return onTwoPaths(ctx, s, "link", req, func(c *call) (*ctxfsv1.LinkResponse, error) {
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		return &ctxfsv1.LinkResponse{}, c.root.Link(c.path, c.dest)
	})
}

// symlinkRequest names the fields as Node's errors do: path is the target, dest the link.
type symlinkRequest struct{ *ctxfsv1.SymlinkRequest }

func (r symlinkRequest) GetPath() string    { return r.GetTarget() }
func (r symlinkRequest) GetRawPath() []byte { return r.GetRawTarget() }
func (r symlinkRequest) GetDest() string    { return r.SymlinkRequest.GetPath() }
func (r symlinkRequest) GetRawDest() []byte { return r.SymlinkRequest.GetRawPath() }

// Symlink implements FsService.
func (s *Service) Symlink(ctx context.Context, req *ctxfsv1.SymlinkRequest) (*ctxfsv1.SymlinkResponse, error) {
	_, targetErr := oneOf("target", req.GetTarget(), req.GetRawTarget())
	_, pathErr := oneOf("path", req.GetPath(), req.GetRawPath())
	if err := errors.Join(targetErr, pathErr); err != nil {
		return nil, fail(err, "symlink", "", "")
	}
	return onTwoPaths(ctx, s, "symlink", symlinkRequest{req}, func(c *call) (*ctxfsv1.SymlinkResponse, error) {
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		return &ctxfsv1.SymlinkResponse{}, c.root.Symlink(c.path, c.dest)
	})
}

// Unlink implements FsService.
func (s *Service) Unlink(ctx context.Context, req *ctxfsv1.UnlinkRequest) (*ctxfsv1.UnlinkResponse, error) {
	return onPath(ctx, s, "unlink", writes, req, func(c *call) (*ctxfsv1.UnlinkResponse, error) {
		return &ctxfsv1.UnlinkResponse{}, c.root.Unlink(c.path)
	})
}

// Rmdir implements FsService.
func (s *Service) Rmdir(ctx context.Context, req *ctxfsv1.RmdirRequest) (*ctxfsv1.RmdirResponse, error) {
	return onPath(ctx, s, "rmdir", writes, req, func(c *call) (*ctxfsv1.RmdirResponse, error) {
		return &ctxfsv1.RmdirResponse{}, c.root.Rmdir(c.path)
	})
}

// Rm implements FsService.
func (s *Service) Rm(ctx context.Context, req *ctxfsv1.RmRequest) (*ctxfsv1.RmResponse, error) {
	return onPath(ctx, s, "rm", writes, req, func(c *call) (*ctxfsv1.RmResponse, error) {
		removed, err := c.remove(req.GetRecursive())
		if req.GetForce() && fserr.CodeOf(err) == fserr.ENOENT {
			err = nil
		}
		return &ctxfsv1.RmResponse{Removed: removed}, err
	})
}

func (c *call) remove(recursive bool) (removed int64, err error) {
	if recursive {
		return c.root.RemoveAll(c, c.path)
	}
	err = c.root.Unlink(c.path)
	if fserr.CodeOf(err) == fserr.EISDIR {
		return 0, &fserr.Error{Code: fserr.EISDIR, Hint: "set recursive to remove a directory", Err: err}
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// Mkdir implements FsService.
func (s *Service) Mkdir(ctx context.Context, req *ctxfsv1.MkdirRequest) (*ctxfsv1.MkdirResponse, error) {
	return onPath(ctx, s, "mkdir", writes, req, func(c *call) (*ctxfsv1.MkdirResponse, error) {
		number, octal := mkdirForm(req)
		mode, err := newMode(number, octal, 0o777)
		if err == nil {
			err = c.access.Charge(0, c.missing(req.GetRecursive()))
		}
		if err != nil {
			return nil, err
		}
		if !req.GetRecursive() {
			return &ctxfsv1.MkdirResponse{}, c.root.Mkdir(c.path, mode)
		}
		first, err := c.root.MkdirAll(c.path, mode)
		if err != nil || first == "" {
			return &ctxfsv1.MkdirResponse{}, err
		}
		text, raw := wirePath(first)
		return &ctxfsv1.MkdirResponse{Path: &text, RawPath: raw}, nil
	})
}

// missing is how many directories a mkdir of the call's path makes, about; 0 if it will be refused for the path's length.
func (c *call) missing(recursive bool) (n int64) {
	if !recursive {
		return 1
	}
	if len(c.path) > rootfs.MaxPath {
		return 0
	}
	for path := strings.TrimRight(c.path, "/"); path != ""; n++ {
		if st, err := c.root.Stat(path); err == nil && st.IsDir() {
			break
		}
		path = strings.TrimRight(path[:strings.LastIndexByte(path, '/')+1], "/")
	}
	return n
}

func mkdirForm(req *ctxfsv1.MkdirRequest) (number *uint32, octal *string) {
	switch f := req.GetModeForm().(type) {
	case *ctxfsv1.MkdirRequest_Mode:
		return &f.Mode, nil
	case *ctxfsv1.MkdirRequest_ModeOctal:
		return nil, &f.ModeOctal
	}
	return nil, nil
}

// prefixRequest names Mkdtemp's prefix path.
type prefixRequest struct{ *ctxfsv1.MkdtempRequest }

func (r prefixRequest) GetPath() string    { return r.GetPrefix() }
func (r prefixRequest) GetRawPath() []byte { return r.GetRawPrefix() }

// Mkdtemp implements FsService.
func (s *Service) Mkdtemp(ctx context.Context, req *ctxfsv1.MkdtempRequest) (*ctxfsv1.MkdtempResponse, error) {
	if _, err := oneOf("prefix", req.GetPrefix(), req.GetRawPrefix()); err != nil {
		return nil, fail(err, "mkdtemp", "", "")
	}
	return onPath(ctx, s, "mkdtemp", writes, prefixRequest{req}, func(c *call) (*ctxfsv1.MkdtempResponse, error) {
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		made, err := c.makeTemp()
		if err != nil {
			return nil, at(err, "mkdtemp", c.path+"XXXXXX")
		}
		text, raw := wirePath(made)
		return &ctxfsv1.MkdtempResponse{Path: text, RawPath: raw}, nil
	})
}

// makeTemp makes a directory under a name that is free.
func (c *call) makeTemp() (string, error) {
	const tries = 100
	var err error
	for range tries {
		name := c.path + rand.Text()[:6]
		if err = c.root.Mkdir(name, 0o700); err == nil {
			return name, nil
		}
		if fserr.CodeOf(err) != fserr.EEXIST {
			break
		}
	}
	return "", err
}
