package driver

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// CopyTree makes dst, which does not exist, a copy of the directory src by descriptor: with owners,
// modes, ns times, hard links, xattrs and holes, and without the files that the service has under construction.
// Extents are shared where the file system can. opts.Progress is replaced by progress. changed are the
// files that kept changing while they were read.
func CopyTree(ctx context.Context, src, dst string, opts tree.CopyOptions, progress func(Progress)) (changed []string, err error) {
	from, err := rootfs.Open(src, rootfs.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := rootfs.Open(filepath.Dir(dst), rootfs.Options{AllowChown: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	opts.PreserveTimestamps, opts.PreserveLinks, opts.PreserveXattrs, opts.PreserveOwner = true, true, true, true
	if progress != nil {
		opts.Progress = func(p tree.CopyProgress) { progress(Progress(p)) }
	}
	report, err := tree.Copy(ctx, from, "/", to, filepath.Base(dst), opts)
	return report.Unstable, err
}
