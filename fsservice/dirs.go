package fsservice

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// listStep is how many entries are listed between two looks at the caller's patience.
	listStep = 256
	// defaultBatch is buffer_size when it is 0.
	defaultBatch = 256
	// maxBatch bounds a message of Opendir, in bytes, but for its last entry; leastBatch does where there is no memory for more.
	maxBatch, leastBatch = 1 << 20, 16 << 10
	// entrySize is what an entry of a message of Opendir may take on average, in bytes: a message is sent before it has as many
	// as were asked for when they take more.
	entrySize = 512
)

// listing is what a caller wants to know of a directory.
type listing struct {
	recursive, types, stats bool
}

// listed is one entry and the directory it stands in.
type listed struct {
	dir string
	rootfs.Entry
}

// list gives the entries of c.path to each, parents before children.
func (c *call) list(l listing, each func(listed) error) error {
	base := absolute(c.path)
	if l.recursive {
		return c.listTree(base, l, each)
	}
	d, err := c.root.OpenDir(c.path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	for {
		if err := fserrpb.FromContext(c); err != nil {
			return err
		}
		entries, err := d.Next(listStep, l.stats)
		for _, e := range entries {
			if err := each(listed{base, e}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *call) listTree(base string, l listing, each func(listed) error) error {
	reserve, done := budget.Names(c)
	defer done()
	return c.root.Walk(c, c.path, tree.WalkOptions{Stats: l.stats, Reserve: reserve}, func(rel string, e rootfs.Entry, err error) error {
		full := under(base, rel)
		if err != nil {
			return at(err, "scandir", full)
		}
		dir := full[:len(full)-len(e.Name)]
		if dir != "/" {
			dir = dir[:len(dir)-1]
		}
		return each(listed{dir, e})
	})
}

// Readdir implements FsService.
func (s *Service) Readdir(ctx context.Context, req *ctxfsv1.ReaddirRequest) (*ctxfsv1.ReaddirResponse, error) {
	return inBudget(ctx, "scandir", func() (*ctxfsv1.ReaddirResponse, error) {
		return onPath(ctx, s, "scandir", reads, req, func(c *call) (*ctxfsv1.ReaddirResponse, error) {
			l := entryList{listing: listing{req.GetRecursive(), req.GetWithFileTypes(), req.GetWithStats()}}
			err := c.list(l.listing, func(e listed) error {
				if l.add(e); len(l.encoded) > maxReply {
					return errTooManyEntries
				}
				return l.reserve(c)
			})
			if err != nil {
				return nil, err
			}
			return l.response(), nil
		})
	})
}

// reserve counts what the list has grown to. Where there is no room for that, the reply waits for as much as it may ever need.
func (l *entryList) reserve(ctx context.Context) error {
	n := int64(cap(l.encoded))
	if n == l.reserved || budget.Of(ctx).Try(n) {
		l.reserved = n
		return nil
	}
	return reserve(ctx, max(n, 2*maxReply))
}

// errTooManyEntries refuses a Readdir. The entries were not counted to the end.
var errTooManyEntries = &fserr.Error{Code: fserr.EFBIG, Detail: "reply of more than 3.5 MiB", Hint: "use FsService/Opendir"}

// Opendir implements FsService.
func (s *Service) Opendir(req *ctxfsv1.OpendirRequest, stream grpc.ServerStreamingServer[ctxfsv1.OpendirResponse]) error {
	return streamPath(s, "opendir", req, stream, func(c *call, send func(*ctxfsv1.OpendirResponse) error) error {
		size := int(req.GetBufferSize())
		if size < 0 || size > 10_000 {
			return invalid("a buffer_size of %d is none of 1 to 10,000", size)
		}
		limit := size
		if size == 0 {
			limit = defaultBatch
		}
		most := min(maxBatch, limit*entrySize)
		held := budget.Of(stream.Context()).More()
		defer held.Release()
		// One message is being filled, one waits and one is being sent. A listing never waits for memory, as ReadStream.
		if !held.Try(3 * int64(most)) {
			most = leastBatch
		}
		l := entryList{listing: listing{req.GetRecursive(), true, req.GetWithStats()}}
		err := c.list(l.listing, func(e listed) error {
			if l.add(e); l.count < limit && len(l.encoded) < most {
				return nil
			}
			return send(l.batch())
		})
		if err != nil || l.count == 0 {
			return err
		}
		return send(l.batch())
	})
}
