package copyfs

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// Duplicate implements driver.Driver. Who lives in src may be at work there, which
// a copy by name does not survive: this one goes by descriptor.
func (d *Driver) Duplicate(ctx context.Context, src, dst string, progress func(driver.Progress)) (changed []string, err error) {
	return driver.CopyTree(ctx, src, dst, tree.CopyOptions{Workers: d.opts.Workers}, progress)
}
