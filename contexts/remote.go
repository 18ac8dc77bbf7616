package contexts

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// NewRemoteAccess is gate.NewRemoteAccess.
func NewRemoteAccess(closing context.Context, root rootfs.Root, generation uint64, remote Remote, release func()) *Access {
	return gate.NewRemoteAccess(closing, root, generation, remote, release)
}
