package tree

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// copyBuffer is the size of a read and a write, in bytes.
const copyBuffer = 256 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}

// copyBytes copies [from, to) by reading and writing. Where the source ends it ends too, without an error: the caller compares sizes.
func copyBytes(ctx context.Context, in, out node.File, from, to int64, report func(int64)) error {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for from < to {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := in.ReadAt((*buf)[:min(copyBuffer, to-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil
		}
		if _, err := out.WriteAt((*buf)[:n], from); err != nil {
			return err
		}
		from += int64(n)
		report(int64(n))
	}
	return nil
}
