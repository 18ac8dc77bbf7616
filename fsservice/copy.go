package fsservice

import (
	"cmp"
	"context"
	"errors"
	pathpkg "path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/sparse"
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
		want, wantErr := destConditionOf(req)
		if err := errors.Join(err, wantErr); err != nil {
			return nil, err
		}
		if exclusive && want.match != "" {
			return nil, fserr.Invalid("dest_if_match needs a dest that exists, and COPYFILE_EXCL one that does not")
		}
		n, tag, err := c.copyFile(fileCopy{condition{match: req.GetIfMatch()}, want, exclusive || want.none})
		if want.none && fserr.CodeOf(err) == fserr.EEXIST {
			st, missing := c.root.Lstat(c.dest)
			err = errors.Join(want.check(c.generation, st, missing), err)
		}
		return &ctxfsv1.CopyFileResponse{BytesCopied: n, Etag: tag}, err
	})
}

// fileCopy is what a CopyFile requires.
type fileCopy struct {
	source, dest condition
	exclusive    bool
}

// copyFile copies c.path to c.dest, and returns how many bytes, and the etag of c.dest.
func (c *call) copyFile(f fileCopy) (n int64, etag string, err error) {
	err = fserr.EEXIST
	if f.dest.match == "" {
		n, etag, err = c.copyNew(f.source)
	}
	// tree.Copy returns EINVAL for a file over itself, where copyFile does nothing.
	if code := fserr.CodeOf(err); !f.exclusive && !isCondition(err) && (code == fserr.EEXIST || code == fserr.EINVAL) {
		err = reopening(func() error {
			n, etag, err = c.copyOver(f)
			return err
		})
		return n, etag, err
	}
	if f.exclusive {
		err = c.existsAlready(err)
	}
	return n, etag, err
}

// copyNew copies c.path to c.dest, which must not exist. No writeFile writes the source meanwhile. The etag is that of the file that it
// made, whatever c.dest leads to by now.
func (c *call) copyNew(source condition) (n int64, etag string, err error) {
	unlock, err := c.lockSource(source)
	if err != nil {
		return 0, "", err
	}
	defer unlock()
	report, err := tree.Copy(c, c.root, c.path, c.root, c.dest, tree.CopyOptions{
		ErrorOnExist: true, Dereference: true, NonRecursive: true, Admit: c.admit,
		Made: func(m tree.Made) error {
			etag = etagOf(c.generation, m.Stat)
			return nil
		},
	})
	return report.Bytes, etag, err
}

// lockSource keeps writers from the file that is copied. If it has a condition, the condition holds until unlock, and the path leads to the
// file.
func (c *call) lockSource(source condition) (unlock func(), err error) {
	if !source.empty() {
		return c.guard(target{path: c.path, follow: true, want: source})
	}
	st, err := c.root.Stat(c.path)
	if err != nil {
		return func() {}, nil // the copy reports it
	}
	lock, err := c.locks.lock(c, c.id.Context, st, reads)
	return lock.unlock, err
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
func (c *call) copyOver(f fileCopy) (n int64, etag string, err error) {
	src, st, err := c.root.OpenStat(c.path, rootfs.O_RDONLY)
	if err != nil {
		return 0, "", f.source.missing(c.generation, err)
	}
	defer func() { _ = src.Close() }()
	flags, more := rootfs.O_WRONLY, allocated(st)
	if f.dest.match == "" { // copyNew charged it
		flags, more = flags|rootfs.O_CREAT, 0
	}
	err = isDirectory(st)
	if err == nil {
		err = c.access.Charge(more, 0)
	}
	if err != nil {
		return 0, "", err
	}
	dst, err := c.root.OpenFile(c.dest, flags, st.Perm())
	if err != nil {
		return 0, "", f.dest.missing(c.generation, err)
	}
	defer func() { _ = dst.Close() }()
	return c.copyBetween(f, src, st, dst)
}

// copyBetween copies src over dst, if the conditions hold. A file over itself is left alone.
func (c *call) copyBetween(f fileCopy, src rootfs.File, from rootfs.Stat, dst rootfs.File) (n int64, etag string, err error) {
	opened, err := dst.Stat()
	if err != nil {
		return 0, "", err
	}
	unlock, err := c.locks.lockBoth(c, c.id.Context, from, opened)
	if err != nil {
		return 0, "", err
	}
	defer unlock()
	from, err = c.stillThere(c.path, src, from, f.source)
	if err != nil {
		return 0, "", err
	}
	to, err := c.stillThere(c.dest, dst, opened, f.dest)
	if err != nil || to.ID() == from.ID() {
		return from.Size, etagOf(c.generation, to), err
	}
	if n, err = c.copyContent(src, from, dst); err != nil {
		return n, "", err
	}
	st, err := dst.Stat()
	return n, etagOf(c.generation, advance(dst, to, st)), err
}

// copyContent makes dst's content and mode those of src. It keeps the holes of src where dst has no data.
func (c *call) copyContent(src rootfs.File, from rootfs.Stat, dst rootfs.File) (n int64, err error) {
	over, err := sparse.Over(dst)
	if err != nil {
		return 0, err
	}
	if n, err = sparse.Copy(c, over, src); err != nil {
		return n, written(cmp.Or(fserrpb.FromContext(c), err), n)
	}
	if st, err := dst.Stat(); err != nil || st.Size != n {
		if err = errors.Join(err, over.Finish()); err != nil {
			return n, err
		}
	}
	return n, dst.Chmod(from.Perm())
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
