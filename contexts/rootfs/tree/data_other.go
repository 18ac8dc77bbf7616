//go:build !linux

package tree

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// dataCopier copies content by reading and writing.
type dataCopier struct{}

func (*dataCopier) copy(ctx context.Context, in, out node.File, st node.Stat, report func(int64)) error {
	return copyBytes(ctx, in, out, 0, st.Size, report)
}

// copyFileXattrs copies nothing: extended attributes have no portable form.
func copyFileXattrs(_, _ node.File, _ string) (map[string][]byte, error) { return nil, nil }

// fileXattrs returns nothing, and setFileXattrs sets nothing.
func fileXattrs(node.File) (map[string][]byte, error) { return nil, nil }

func setFileXattrs(node.File, map[string][]byte) error { return nil }

func copyDirXattrs(_, _ node.Node, _ string) (map[string][]byte, error) { return nil, nil }

func clearDirXattrs(node.Node, string) error { return nil }

func syncBelow(int) error { return nil }

func syncFD(int) error { return nil }

func syncFile(f node.File) error { return f.Sync(false) }
