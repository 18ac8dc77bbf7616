package gate

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Remote is what the process that keeps the gates does for an Access in another one.
type Remote interface {
	// Yield, HasQuota, Baseline and Usage are those of Access.
	Yield(p Pauser)
	HasQuota() bool
	Baseline(ctx context.Context) Usage
	Usage(ctx context.Context) Usage
}

// NewRemoteAccess is NewAccess in a process that got the context's folder from the process that keeps the gates. closing ends when that
// process asks for the context back. Charge and Touch do nothing.
func NewRemoteAccess(closing context.Context, root rootfs.Root, generation uint64, remote Remote, release func()) *Access {
	a := NewAccess(root, generation, release)
	a.closing, a.remote = closing, remote
	return a
}
