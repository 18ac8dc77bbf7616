package fsservice

import (
	"context"
	"errors"
	"io"
	pathpkg "path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The bits of copyFile's mode, by libuv's numbers (uv.h, UV_FS_COPYFILE_*).
const (
	copyExclusive  = 1
	copyClone      = 2
	copyCloneForce = 4
)

// wantCopyMode checks copyFile's mode. Extents are cloned whenever the file system can, as COPYFILE_FICLONE asks.
// COPYFILE_FICLONE_FORCE would have to fail where it cannot.
func wantCopyMode(mode int32) (exclusive bool, err error) {
	if mode&^(copyExclusive|copyClone|copyCloneForce) != 0 {
		return false, fserr.Invalid("copy mode %d is no union of 1, 2 and 4", mode)
	}
	if mode&copyCloneForce != 0 {
		return false, &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "COPYFILE_FICLONE_FORCE is not supported", Hint: "use COPYFILE_FICLONE, which copies where it cannot clone"}
	}
	return mode&copyExclusive != 0, nil
}

// CopyFile implements FsService.
func (s *paths) CopyFile(ctx context.Context, req *ctxfsv1.CopyFileRequest) (*ctxfsv1.CopyFileResponse, error) {
	return onTwoPaths(ctx, s.opener, "copyfile", req, func(c *call) (*ctxfsv1.CopyFileResponse, error) {
		exclusive, err := wantCopyMode(req.GetMode())
		if err != nil {
			return nil, err
		}
		report, err := s.copyNew(c)
		n := report.Bytes
		// tree.Copy returns EINVAL for a file over itself, where copyFile does nothing.
		if code := fserr.CodeOf(err); !exclusive && (code == fserr.EEXIST || code == fserr.EINVAL) {
			n, err = s.copyOver(c)
		}
		if exclusive {
			err = c.existsAlready(err)
		}
		return &ctxfsv1.CopyFileResponse{BytesCopied: n}, err
	})
}

// copyNew copies c.path to c.dest, which must not exist. No writeFile writes the source meanwhile.
func (s *paths) copyNew(c *call) (tree.CopyReport, error) {
	if st, err := c.root.Stat(c.path); err == nil {
		lock, err := s.locks.lock(c, c.id.Context, st, reads)
		if err != nil {
			return tree.CopyReport{}, err
		}
		defer lock.unlock()
	}
	return tree.Copy(c, c.root, c.path, c.root, c.dest, tree.CopyOptions{
		ErrorOnExist: true, Dereference: true, NonRecursive: true, Admit: c.admit,
	})
}

// existsAlready replaces the error of a copy that must be new with EEXIST if the destination exists: open(2) with O_EXCL does not
// look at its type.
func (c *call) existsAlready(err error) error {
	switch fserr.CodeOf(err) {
	case fserr.EISDIR, fserr.ENOTDIR, fserr.EINVAL:
		_, srcErr := c.root.Stat(c.path)
		_, destErr := c.root.Lstat(c.dest)
		if srcErr == nil && destErr == nil {
			return fserr.EEXIST
		}
	}
	return err
}

// copyOver copies c.path over the existing file c.dest, in place.
func (s *paths) copyOver(c *call) (int64, error) {
	src, err := c.root.OpenFile(c.path, rootfs.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = src.Close() }()
	st, err := src.Stat()
	if err == nil {
		err = isDirectory(st)
	}
	if err == nil { // holes are not kept; copyNew charged the rest
		err = c.access.Charge(st.Size-allocated(st), 0)
	}
	if err != nil {
		return 0, err
	}
	dst, err := c.root.OpenFile(c.dest, rootfs.O_WRONLY|rootfs.O_CREAT, st.Perm())
	if err != nil {
		return 0, err
	}
	defer func() { _ = dst.Close() }()
	return s.copyContent(c, src, st, dst)
}

// copyContent makes dst's content and mode those of src; a file over itself is left alone.
func (s *paths) copyContent(c *call, src rootfs.File, from rootfs.Stat, dst rootfs.File) (int64, error) {
	to, err := dst.Stat()
	if err != nil || to.Dev == from.Dev && to.Ino == from.Ino {
		return from.Size, err
	}
	unlock, err := s.locks.lockBoth(c, c.id.Context, from, to)
	if err != nil {
		return 0, err
	}
	defer unlock()
	var n int64
	buf := make([]byte, writeStep)
	for {
		if err := fserrpb.FromContext(c); err != nil {
			return n, written(err, n)
		}
		got, readErr := src.Read(buf)
		put, err := dst.Write(buf[:got])
		n += int64(put)
		if err == nil && !errors.Is(readErr, io.EOF) {
			err = readErr
		}
		if err != nil {
			return n, written(err, n)
		}
		if readErr != nil {
			return n, errors.Join(cut(dst, n), dst.Chmod(from.Perm()))
		}
	}
}

// Cp implements FsService.
func (s *paths) Cp(ctx context.Context, req *ctxfsv1.CpRequest) (*ctxfsv1.CpResponse, error) {
	return onTwoPaths(ctx, s.opener, "cp", req, func(c *call) (*ctxfsv1.CpResponse, error) {
		opts, err := cpOptions(c, req)
		if err != nil {
			return nil, err
		}
		var done func()
		opts.Reserve, done = budget.Names(c)
		defer done()
		report, err := tree.Copy(c, c.root, c.path, c.root, c.dest, opts)
		if err != nil {
			return nil, cpError(err, report)
		}
		resp := &ctxfsv1.CpResponse{FilesCopied: report.Files, BytesCopied: report.Bytes, SpecialSkipped: report.Special}
		for _, rel := range report.Unstable {
			resp.Unstable = append(resp.Unstable, fserrpb.Printable(rel))
		}
		return resp, nil
	})
}

func cpOptions(c *call, req *ctxfsv1.CpRequest) (tree.CopyOptions, error) {
	exclusive, err := wantCopyMode(req.GetMode())
	force := (req.Force == nil || req.GetForce()) && !exclusive
	opts := tree.CopyOptions{
		Overwrite: force, ErrorOnExist: !force && (req.GetErrorOnExist() || exclusive),
		Dereference: req.GetDereference(), PreserveTimestamps: req.GetPreserveTimestamps(), Admit: c.admit,
		NonRecursive: !req.GetRecursive(),
	}
	if !req.GetVerbatimSymlinks() {
		opts.RewriteLink = func(rel, target string) string { return absoluteTarget(c.path, rel, target) }
	}
	return opts, err
}

// absoluteTarget resolves a relative link target from the link's directory, as Node's cp does (path.resolve(dirname(src), target)).
func absoluteTarget(src, rel, target string) string {
	if strings.HasPrefix(target, "/") {
		return target
	}
	link := pathpkg.Join("/", src, rel)
	return pathpkg.Join(pathpkg.Dir(link), target)
}

// cpError adds to an error how much was copied.
func cpError(err error, report tree.CopyReport) error {
	e := &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	var inner *fserr.Error
	if errors.As(err, &inner) {
		*e = *inner
	}
	e.Written = max(e.Written, report.Bytes)
	return e
}
