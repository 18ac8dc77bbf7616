package driver

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// settled is how long a copy may take after which another one, in which no writer writes, is short.
const settled = 500 * time.Millisecond

// maxCopies bounds the copies before that one.
const maxCopies = 4

// CopyTree makes dst, which does not exist, a copy of the directory src by descriptor: with owners,
// modes, ns times, hard links, xattrs and holes, and without the files that the service has under construction.
// Extents are shared where the file system can. changed are the files that kept changing while they were read.
//
// freeze is as for Driver.Duplicate. CopyTree copies while writers write, and again what they changed meanwhile, until little is left.
// It copies that within freeze, which costs some microseconds for each entry of src, and the time of what is left.
func CopyTree(ctx context.Context, src, dst string, opts tree.CopyOptions, freeze func(func(context.Context) error) error) (changed []string, err error) {
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
	copyOnce := func(ctx context.Context) error {
		report, err := tree.Copy(ctx, from, "/", to, filepath.Base(dst), opts)
		changed = report.Unstable
		return err
	}
	if freeze == nil {
		err = copyOnce(ctx)
		return changed, err
	}
	if runtime.GOOS == "linux" { // elsewhere a ctime does not say that a file is unchanged
		opts.Earlier = &tree.Earlier{}
		for range maxCopies {
			begun := time.Now()
			if err := copyOnce(ctx); err != nil {
				return nil, err
			}
			if time.Since(begun) < settled {
				break
			}
		}
	}
	err = freeze(copyOnce)
	return changed, err
}
