// Package copyfs is the driver that makes a context by copying its layer's
// files: it works everywhere and leaves plain files that any tool may use. On a file system that
// shares extents (btrfs, XFS) a copy takes time, but next to no space.
//
// On Linux tree.Copy copies, by descriptor. On other systems, and on Linux without
// openat2, otiai10/copy copies the layer, by name. Contexts, which are live, are always
// duplicated by descriptor.
package copyfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/xattr"
)

// Name is what records say of contexts that this driver made.
const Name = "copy"

// Options of New.
type Options struct {
	// Workers bounds the files copied at once; 0 means 4.
	Workers int
	// Owner, when not nil, is given to everything copied.
	Owner *rootfs.Owner
	// ByName copies layers with otiai10/copy, also where the descriptor-based copier works.
	ByName bool
}

// Driver copies. It keeps no state.
type Driver struct{ opts Options }

var (
	_ driver.Linker = (*Driver)(nil)
	_ driver.Sparer = (*Driver)(nil)
)

// New returns a Driver.
func New(opts Options) *Driver {
	if opts.Workers <= 0 {
		opts.Workers = 4
	}
	return &Driver{opts: opts}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// TakesLinkedLayers implements driver.Linker: names outside of the layer are not followed.
func (d *Driver) TakesLinkedLayers() {}

// Prepare implements driver.Driver. By descriptor, it also shares extents where the file system can, and keeps holes.
func (d *Driver) Prepare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	return d.copy(ctx, src, dst, d.opts.Workers, progress)
}

// PrepareSpare implements driver.Sparer.
func (d *Driver) PrepareSpare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	return d.copy(ctx, src, dst, 1, progress)
}

func (d *Driver) copy(ctx context.Context, src, dst string, workers int, progress func(driver.Progress)) error {
	from, err := rootfs.Open(src, rootfs.Options{Implementation: "openat2"})
	byName := d.opts.ByName || fserr.CodeOf(err) == fserr.EOPNOTSUPP || fserr.CodeOf(err) == fserr.ENOSYS || fserr.CodeOf(err) == fserr.EPERM
	if err != nil && byName {
		from, err = rootfs.Open(src, rootfs.Options{})
	}
	if err != nil {
		return fmt.Errorf("open the layer: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := rootfs.Open(dst, rootfs.Options{AllowChown: d.opts.Owner != nil, Owner: d.opts.Owner})
	if err != nil {
		return fmt.Errorf("open the copy: %w", err)
	}
	defer func() { _ = to.Close() }()
	if byName {
		b := &byNameCopy{ctx: ctx, from: from, to: to, src: src, owner: d.opts.Owner, progress: progress, first: map[file]string{}}
		return failed(b.copy(dst))
	}
	report, err := tree.Copy(ctx, from, ".", to, ".", tree.CopyOptions{
		ErrorOnExist: true, PreserveTimestamps: true, PreserveLinks: true, PreserveXattrs: true,
		Workers: workers, Record: counter(progress),
	})
	if err != nil {
		return failed(err)
	}
	if len(report.Unstable) > 0 || report.Special > 0 {
		return errChanged
	}
	return d.top(from, to, src, dst)
}

var errChanged = &fserr.Error{Op: "copy", Code: fserr.EIO, Detail: "the layer changed while it was copied"}

func failed(err error) error {
	if err == nil || errors.Is(err, errChanged) {
		return err
	}
	return &fserr.Error{Op: "copy", Code: fserr.CodeOf(err), Err: err}
}

// counter reports each file that was copied to progress; the calls are serialised.
func counter(progress func(driver.Progress)) func(string, rootfs.Stat, string) {
	if progress == nil {
		return nil
	}
	var done driver.Progress
	return func(_ string, st rootfs.Stat, _ string) {
		if st.IsDir() {
			return
		}
		done.Files++
		if st.Type() == rootfs.TypeFile {
			done.Bytes += st.Size
		}
		progress(done)
	}
}

// top gives the context's folder, which was there before, what the copy of a directory gets.
func (d *Driver) top(from, to rootfs.Root, src, dst string) error {
	st, err := from.Stat("/")
	if err != nil {
		return fserr.Wrap(err, "stat", "/", "")
	}
	if err := xattr.CopyUser(src, dst); err != nil {
		return fserr.Wrap(err, "setxattr", "/", "")
	}
	if o := d.opts.Owner; o != nil {
		if err := to.Chown("/", int64(o.UID), int64(o.GID), false); err != nil {
			return fserr.Wrap(err, "chown", "/", "")
		}
	}
	return fserr.Wrap(to.Chmod("/", st.Perm()), "chmod", "/", "")
}

// Duplicate implements driver.Driver. Other programs may be at work in src, so it is always copied by descriptor.
func (d *Driver) Duplicate(ctx context.Context, src, dst string, freeze func(func(context.Context) error) error) (changed []string, err error) {
	return driver.CopyTree(ctx, src, dst, tree.CopyOptions{Workers: d.opts.Workers}, freeze)
}

// Check implements driver.Driver: it tries to make and remove a folder.
func (d *Driver) Check(_ context.Context, dir string) error {
	probe, err := os.MkdirTemp(dir, ".ctxfs-tmp-check-")
	if err != nil {
		return fmt.Errorf("copy driver: cannot write to the contexts directory: %w", fserr.CodeOf(err))
	}
	if err := os.Remove(probe); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy driver: cannot remove from the contexts directory: %w", fserr.CodeOf(err))
	}
	return nil
}
