package tree

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/sparse"
	ourxattr "github.com/ctxfs/ctxfs/internal/xattr"
)

// copyStep bounds one copy_file_range, in bytes, so that a copy can be cancelled.
const copyStep = 16 << 20

// smallFile is the size in bytes up to which to read and write a file takes less time than copy_file_range.
const smallFile = 16 << 10

// dataCopier copies content in the cheapest way that the file systems support. It does not repeat for each file what failed once
// between two trees.
type dataCopier struct{ noClone, noRange atomic.Bool }

// withRawFD calls fn with a file's descriptor. It fails with EOPNOTSUPP if there is none.
func withRawFD(f node.File, fn func(fd int) error) error {
	if held, ok := f.(interface {
		WithFD(fn func(fd int) error) error
	}); ok {
		return held.WithFD(fn)
	}
	return fserr.EOPNOTSUPP
}

func withRawFDs(a, b node.File, fn func(a, b int) error) error {
	return withRawFD(a, func(fa int) error {
		return withRawFD(b, func(fb int) error { return fn(fa, fb) })
	})
}

// copy copies the content of in, whose attributes are st, to the empty out. It shares extents where it can, else it keeps holes.
func (d *dataCopier) copy(ctx context.Context, in, out node.File, st node.Stat, report func(int64)) error {
	if st.Size == 0 {
		return nil
	}
	if d.clone(in, out) {
		report(st.Size)
		return nil
	}
	if st.Blocks*512 >= st.Size {
		if st.Size <= smallFile {
			return copyBytes(ctx, in, out, 0, st.Size, report)
		}
		return d.copyRange(ctx, in, out, 0, st.Size, report)
	}
	if err := d.copySparse(ctx, in, out, st.Size, report); err != nil {
		return err
	}
	return out.Truncate(st.Size)
}

func (d *dataCopier) clone(in, out node.File) bool {
	if d.noClone.Load() {
		return false
	}
	err := withRawFDs(in, out, func(src, dst int) error { return unix.IoctlFileClone(dst, src) })
	switch fserr.CodeOf(err) {
	case fserr.EOPNOTSUPP, fserr.EXDEV, fserr.ENOTTY, fserr.ENOSYS, fserr.EPERM:
		d.noClone.Store(true)
	}
	return err == nil
}

// copySparse copies the parts that hold data.
func (d *dataCopier) copySparse(ctx context.Context, in, out node.File, size int64, report func(int64)) error {
	for at := int64(0); at < size; {
		start, end, err := sparse.Next(in, at, size)
		if err != nil {
			return err
		}
		report(start - at) // a hole counts as copied
		if err := d.copyRange(ctx, in, out, start, end, report); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// copyRange copies [from, to) in the kernel, or where it cannot, by reading and writing.
func (d *dataCopier) copyRange(ctx context.Context, in, out node.File, from, to int64, report func(int64)) error {
	for from < to && !d.noRange.Load() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := copyFileRange(in, out, from, min(copyStep, to-from))
		switch fserr.CodeOf(err) {
		case fserr.EXDEV, fserr.ENOSYS, fserr.EOPNOTSUPP, fserr.EINVAL, fserr.EPERM:
			d.noRange.Store(true)
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			break // the end, or a file system that only reads what it makes up
		}
		from += n
		report(n)
	}
	return copyBytes(ctx, in, out, from, to, report)
}

func copyFileRange(in, out node.File, at, length int64) (n int64, err error) {
	err = withRawFDs(in, out, func(src, dst int) error {
		return node.Uninterrupted(func() error {
			r, w := at, at
			got, err := unix.CopyFileRange(src, &r, dst, &w, int(length), 0)
			n = int64(got)
			return err
		})
	})
	return n, err
}

// copyFileXattrs copies the extended attributes of the namespace "user" and those that begin with more, if both file systems support
// them, and returns them. It copies the notes of overlayfs only if more is not empty: they must not get from a workspace into what will
// be mounted.
func copyFileXattrs(in, out node.File, more string) (copied map[string][]byte, err error) {
	err = withRawFDs(in, out, func(a, b int) error {
		copied, err = copyXattrsFD(a, b, more)
		return err
	})
	return copied, Ignoring(err, fserr.EOPNOTSUPP)
}

func copyXattrsFD(src, dst int, more string) (copied map[string][]byte, err error) {
	xattrs, err := xattrsOf(src, more)
	if err != nil {
		return nil, err
	}
	return xattrs, setXattrs(dst, xattrs)
}

// fileXattrs returns the extended attributes of a file that copyFileXattrs copies with no more.
func fileXattrs(f node.File) (xattrs map[string][]byte, err error) {
	err = withRawFD(f, func(fd int) error {
		xattrs, err = xattrsOf(fd, "")
		return err
	})
	return xattrs, Ignoring(err, fserr.EOPNOTSUPP)
}

// setFileXattrs sets extended attributes, if the file system supports them.
func setFileXattrs(f node.File, xattrs map[string][]byte) error {
	return Ignoring(withRawFD(f, func(fd int) error { return setXattrs(fd, xattrs) }), fserr.EOPNOTSUPP)
}

func xattrsOf(fd int, more string) (map[string][]byte, error) {
	names, err := keptXattrs(fd, more)
	if err != nil || len(names) == 0 {
		return nil, Ignoring(err, fserr.EOPNOTSUPP, fserr.ENOSYS)
	}
	xattrs := make(map[string][]byte, len(names))
	for _, name := range names {
		value, err := xattr(func(b []byte) (int, error) { return unix.Fgetxattr(fd, name, b) })
		if err == nil {
			xattrs[name] = value
		} else if !errors.Is(err, unix.ENODATA) && fserr.CodeOf(err) != fserr.EOPNOTSUPP {
			return nil, err
		}
	}
	return xattrs, nil
}

// setXattrs sets extended attributes, and deletes those from the map that the file system does not support.
func setXattrs(fd int, xattrs map[string][]byte) error {
	for name, value := range xattrs {
		err := unix.Fsetxattr(fd, name, value, 0)
		if fserr.CodeOf(err) == fserr.EOPNOTSUPP {
			delete(xattrs, name)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func keptXattrs(fd int, more string) ([]string, error) {
	list, err := xattr(func(b []byte) (int, error) { return unix.Flistxattr(fd, b) })
	var names []string
	for name := range strings.SplitSeq(string(list), "\x00") {
		notes := more != "" && (strings.HasPrefix(name, more) || strings.HasPrefix(name, ourxattr.Overlay))
		if notes || (strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, ourxattr.Overlay)) {
			names = append(names, name)
		}
	}
	return names, err
}

// xattr reads a value whose size may change between asking and reading.
func xattr(read func([]byte) (int, error)) ([]byte, error) {
	for {
		size, err := read(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		buf := make([]byte, size)
		size, err = read(buf)
		if !errors.Is(err, unix.ERANGE) {
			return buf[:max(size, 0)], err
		}
	}
}

// copyDirXattrs is copyFileXattrs for directories.
func copyDirXattrs(src, dst node.Node, more string) (copied map[string][]byte, err error) {
	err = src.WithFD(func(a int) error {
		return dst.WithFD(func(b int) error {
			copied, err = copyXattrsFD(a, b, more)
			return err
		})
	})
	return copied, Ignoring(err, fserr.EOPNOTSUPP)
}

// clearDirXattrs removes the extended attributes that copyDirXattrs copies.
func clearDirXattrs(dir node.Node, more string) error {
	return Ignoring(dir.WithFD(func(fd int) error {
		names, err := keptXattrs(fd, more)
		if err != nil {
			return Ignoring(err, fserr.EOPNOTSUPP, fserr.ENOSYS)
		}
		for _, name := range names {
			if err := unix.Fremovexattr(fd, name); err != nil && !errors.Is(err, unix.ENODATA) {
				return err
			}
		}
		return nil
	}), fserr.EOPNOTSUPP)
}

// syncBelow flushes the directory of a descriptor and all that is below it.
func syncBelow(fd int) error { return durable.Below(fd) }

// syncFD flushes the content of a file or the names in a directory, with the attributes, where the file system can do that.
func syncFD(fd int) error {
	return Ignoring(node.Uninterrupted(func() error { return unix.Fsync(fd) }), fserr.EINVAL)
}

// syncFile flushes a file, and not its name.
func syncFile(f node.File) error { return withRawFD(f, syncFD) }
