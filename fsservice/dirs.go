package fsservice

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// listStep is how many entries are listed between two looks at the caller's patience.
	listStep = 256
	// maxBatch bounds a message of Opendir, in bytes, as entryCost counts them.
	maxBatch = 1 << 20
	// entryOverhead is more than an entry's framing, and statSize more than a Stat, on the wire.
	entryOverhead, statSize = 16, 128
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

func (l listing) wire(e listed) *ctxfsv1.DirEntry {
	w := &ctxfsv1.DirEntry{}
	w.Name, w.RawName = wirePath(e.Name)
	w.ParentPath, w.RawParentPath = wirePath(e.dir)
	if l.types || l.stats {
		w.Type = fileType(e.Type)
	}
	if l.stats && e.Stat != nil {
		w.Stat = wireStat(*e.Stat)
	}
	return w
}

// entryCost bounds an entry's size on the wire from above.
func entryCost(e listed) int {
	n := len(e.Name) + len(e.dir) + entryOverhead
	if e.Stat != nil {
		n += statSize
	}
	return n
}

// Readdir implements FsService.
func (s *Service) Readdir(ctx context.Context, req *ctxfsv1.ReaddirRequest) (*ctxfsv1.ReaddirResponse, error) {
	return onPath(ctx, s, "scandir", reads, req, func(c *call) (*ctxfsv1.ReaddirResponse, error) {
		l := listing{req.GetRecursive(), req.GetWithFileTypes(), req.GetWithStats()}
		resp := &ctxfsv1.ReaddirResponse{}
		names := 0
		err := c.list(l, func(e listed) error {
			resp.Entries = append(resp.Entries, l.wire(e))
			if names += len(e.Name) + len(e.dir); names > MaxReply {
				return tooManyEntries(0)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if size := proto.Size(resp); size > MaxReply {
			return nil, tooManyEntries(int64(size))
		}
		return resp, nil
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
		b := batch{out: send, limit: size}
		if size == 0 {
			b.limit = listStep
		}
		l := listing{req.GetRecursive(), true, req.GetWithStats()}
		if err := c.list(l, func(e listed) error { return b.add(l.wire(e), entryCost(e)) }); err != nil {
			return err
		}
		return b.send()
	})
}

// batch gathers entries into messages.
type batch struct {
	out     func(*ctxfsv1.OpendirResponse) error
	limit   int
	entries []*ctxfsv1.DirEntry
	cost    int
}

func (b *batch) add(e *ctxfsv1.DirEntry, cost int) error {
	b.entries = append(b.entries, e)
	b.cost += cost
	if len(b.entries) < b.limit && b.cost < maxBatch {
		return nil
	}
	return b.send()
}

func (b *batch) send() error {
	if len(b.entries) == 0 {
		return nil
	}
	msg := &ctxfsv1.OpendirResponse{Event: &ctxfsv1.OpendirResponse_Entries{Entries: &ctxfsv1.DirEntryBatch{Entries: b.entries}}}
	b.entries, b.cost = nil, 0
	return b.out(msg)
}
