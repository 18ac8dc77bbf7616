package tree

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// MaxRemoveNames is how many bytes of names a removal holds.
const MaxRemoveNames = maxRemoveNames

// RemoveWatched removes e from top, and calls look with the bytes of names that it holds. It returns how many entries it removed
// and the bytes that it holds in the end.
func RemoveWatched(ctx context.Context, top node.Node, e node.Entry, look func(held int64)) (removed, held int64, err error) {
	m := &remover{trail: node.NewTrail(top, node.FileID{}), todo: []removeLevel{{names: []node.Entry{e}}}}
	m.ctx = lookingContext{ctx, func() { look(m.held) }}
	defer m.trail.Close()
	err = m.run()
	return m.removed, m.held, err
}

// lookingContext calls look whenever a removal asks whether it is cancelled.
type lookingContext struct {
	context.Context
	look func()
}

func (c lookingContext) Err() error {
	c.look()
	return c.Context.Err()
}

// OnOneFileSystem is onOneFileSystem.
var OnOneFileSystem = onOneFileSystem
