// Package copyfs is the driver that makes a context by copying its layer's
// files: it works everywhere, costs time and space for each, and leaves plain
// files that any tool may use.
package copyfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/otiai10/copy"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Name is what records say of contexts that this driver made.
const Name = "copy"

// Options of New.
type Options struct {
	// Workers bounds the files copied at once; 0 means 4.
	Workers int
	// Owner, when not nil, is given to everything copied.
	Owner *rootfs.Owner
}

// Driver copies. It keeps no state.
type Driver struct{ opts Options }

var _ driver.Driver = (*Driver)(nil)

// New returns a Driver.
func New(opts Options) *Driver {
	if opts.Workers <= 0 {
		opts.Workers = 4
	}
	return &Driver{opts: opts}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// Prepare implements driver.Driver. The copying is otiai10/copy's; what it does
// not keep (ns times of links and directories, hard links, modes it rounds) is set
// right afterwards, by descriptor, from a comparison of both trees.
func (d *Driver) Prepare(ctx context.Context, src, dst string, progress func(driver.Progress)) error {
	c := &counter{ctx: ctx, report: progress}
	err := copy.Copy(src, dst, copy.Options{
		OnSymlink:     func(string) copy.SymlinkAction { return copy.Shallow },
		Skip:          c.next,
		PreserveTimes: true,
		NumOfWorkers:  int64(d.opts.Workers),
	})
	if err := ctx.Err(); err != nil {
		return &fserr.Error{Op: "copy", Code: fserr.CodeOf(err), Err: err}
	}
	if err != nil {
		return &fserr.Error{Op: "copy", Code: fserr.CodeOf(err), Err: err}
	}
	return d.settle(ctx, src, dst)
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

// counter counts what is copied, and ends the copy with its context.
type counter struct {
	ctx    context.Context //nolint:containedctx // a counter lives for one call
	report func(driver.Progress)
	mu     sync.Mutex
	done   driver.Progress
}

func (c *counter) next(info os.FileInfo, _, _ string) (bool, error) {
	if err := c.ctx.Err(); err != nil {
		return false, err
	}
	if info.IsDir() {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.Files++
	if info.Mode().IsRegular() {
		c.done.Bytes += info.Size()
	}
	if c.report != nil {
		c.report(c.done)
	}
	return false, nil
}
