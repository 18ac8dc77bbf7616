//go:build !linux

package tree

import (
	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// HasWriter fails with EOPNOTSUPP.
func HasWriter(node.File) (bool, error) { return false, fserr.EOPNOTSUPP }
