package gate

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// NewRemoteAccess is NewAccess in a process that got the context's folder from the process that keeps the gates. closing ends when that
// process asks for the context back. Charge charges nothing.
func NewRemoteAccess(closing context.Context, root rootfs.Root, generation uint64, release func()) *Access {
	a := NewAccess(root, generation, release)
	a.closing = closing
	return a
}
