package fsservice

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// listStep is how many entries are listed between two looks at the caller's patience.
	listStep = 1024
	// defaultBatch is buffer_size when it is 0.
	defaultBatch = 256
	// maxBatch bounds a message of Opendir, in bytes, but for its last entry.
	maxBatch = 1 << 20
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
	return c.root.Walk(c, c.path, rootfs.WalkOptions{Stats: l.stats}, func(rel string, e rootfs.Entry, err error) error {
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
	return onPath(ctx, s, "scandir", reads, req, func(c *call) (*ctxfsv1.ReaddirResponse, error) {
		l := entryList{listing: listing{req.GetRecursive(), req.GetWithFileTypes(), req.GetWithStats()}}
		names := 0
		err := c.list(l.listing, func(e listed) error {
			l.add(e)
			if names += len(e.Name) + len(e.dir); names > MaxReply {
				return tooManyEntries(0)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if size := len(l.encoded); size > MaxReply {
			return nil, tooManyEntries(int64(size))
		}
		return l.response(), nil
	})
}

// tooManyEntries refuses a Readdir; size 0 means that nobody counted to the end.
func tooManyEntries(size int64) error {
	if size > 0 {
		return tooBig(size, "Opendir")
	}
	return &fserr.Error{Code: fserr.EFBIG, Detail: "reply of more than 3.5 MiB", Hint: "use FsService/Opendir"}
}

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
		l := entryList{listing: listing{req.GetRecursive(), true, req.GetWithStats()}}
		err := c.list(l.listing, func(e listed) error {
			if l.add(e); l.count < limit && len(l.encoded) < maxBatch {
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
