package fsservice

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// listStep is how many entries are listed before the call's context is checked again.
	listStep = 256
	// defaultBatch is buffer_size when it is 0.
	defaultBatch = 256
	// maxBatch bounds a message of Opendir, in bytes, apart from its last entry; leastBatch does so where there is no more memory.
	maxBatch, leastBatch = 1 << 20, 16 << 10
	// entrySize is the average size of an entry in a message of Opendir, in bytes. A message whose entries are larger is sent with
	// fewer entries than were asked for.
	entrySize = 512
)

// listing is what a caller asks of a directory.
type listing struct {
	recursive, types, stats bool
}

// listed is an entry and its directory.
type listed struct {
	dir string
	rootfs.Entry
}

// list calls each for the entries of c.path, parents before children.
func (c *call) list(l listing, each func(listed) error) error {
	base := absolute(c.path)
	if l.recursive {
		return c.walk(tree.WalkOptions{Stats: l.stats}, each)
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

// walk calls each as list does, and counts the names that it holds.
func (c *call) walk(opts tree.WalkOptions, each func(listed) error) error {
	base := absolute(c.path)
	reserve, done := budget.Names(c)
	defer done()
	opts.Reserve = reserve
	return c.root.Walk(c, c.path, opts, func(rel string, e rootfs.Entry, err error) error {
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
func (s *paths) Readdir(ctx context.Context, req *ctxfsv1.ReaddirRequest) (*ctxfsv1.ReaddirResponse, error) {
	return inBudget(ctx, "scandir", func() (*ctxfsv1.ReaddirResponse, error) {
		return onPath(ctx, s.opener, "scandir", reads, req, func(c *call) (*ctxfsv1.ReaddirResponse, error) {
			l := entryList{listing: listing{req.GetRecursive(), req.GetWithFileTypes(), req.GetWithStats()}}
			opts := tree.WalkOptions{Stats: l.stats, Sorted: true}
			if !l.recursive {
				opts.MaxDepth = 1
			}
			err := c.walk(opts, func(e listed) error {
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

// reserve counts the memory of the list, which has grown. If there is no room, the reply waits for as much as it may ever need.
func (l *entryList) reserve(ctx context.Context) error {
	n := int64(cap(l.encoded))
	if n == l.reserved || budget.Of(ctx).Try(n) {
		l.reserved = n
		return nil
	}
	return reserve(ctx, max(n, 2*maxReply))
}

// errTooManyEntries has no size, since the entries were not all counted.
var errTooManyEntries = &fserr.Error{Code: fserr.EFBIG, Detail: "reply of more than 3.5 MiB", Hint: "use FsService/Opendir"}

// Opendir implements FsService.
func (s *paths) Opendir(req *ctxfsv1.OpendirRequest, stream grpc.ServerStreamingServer[ctxfsv1.OpendirResponse]) error {
	return streamPath(s.opener, "opendir", req, stream, func(c *call, send func(*ctxfsv1.OpendirResponse) error) error {
		size := int(req.GetBufferSize())
		if size < 0 || size > 10_000 {
			return fserr.Invalid("a buffer_size of %d is none of 1 to 10,000", size)
		}
		limit := size
		if size == 0 {
			limit = defaultBatch
		}
		most := min(maxBatch, limit*entrySize)
		held := budget.Of(stream.Context()).More()
		defer held.Release()
		// One message is being filled, one waits and one is being sent. Like ReadStream, a listing never waits for memory.
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

// The numbers of fields in fs_types.proto. Entries are the first field of both ReaddirResponse and DirEntryBatch.
const (
	entriesField = 1

	nameField, rawNameField     = 1, 2
	parentField, rawParentField = 3, 4
	typeField, statField        = 5, 6
)

// entryList has directory entries as they travel: the field "entries" of a message, encoded. Listings are long, and encoding a
// message for each entry and its attributes by reflection costs more than the system calls. So a reply carries them in its unknown
// fields: bytes that the protobuf library writes unchanged.
type entryList struct {
	listing
	encoded []byte
	count   int
	// reserved is how much of the list's memory is reserved, in bytes.
	reserved int64
	// stat and entry are scratch space for messages, whose length comes before them.
	stat, entry []byte
}

// add encodes one entry.
func (l *entryList) add(e listed) {
	b := appendPath(l.entry[:0], nameField, rawNameField, e.Name)
	b = appendPath(b, parentField, rawParentField, e.dir)
	if l.types || l.stats {
		b = appendNumber(b, typeField, uint64(fileType(e.Type)))
	}
	if l.stats && e.Stat != nil {
		l.stat = appendStat(l.stat[:0], e.Stat)
		b = protowire.AppendTag(b, statField, protowire.BytesType)
		b = protowire.AppendBytes(b, l.stat)
	}
	l.entry = b
	l.grow(len(b))
	l.encoded = protowire.AppendTag(l.encoded, entriesField, protowire.BytesType)
	l.encoded = protowire.AppendBytes(l.encoded, b)
	l.count++
}

// grow makes room for n bytes. Unlike append it always doubles.
func (l *entryList) grow(n int) {
	const least, framing = 4 << 10, 16
	if cap(l.encoded)-len(l.encoded) < n+framing {
		l.encoded = slices.Grow(l.encoded, max(n+framing, len(l.encoded), least))
	}
}

// response returns the reply to Readdir, which owns what is encoded.
func (l *entryList) response() *ctxfsv1.ReaddirResponse {
	r := &ctxfsv1.ReaddirResponse{}
	r.ProtoReflect().SetUnknown(l.encoded)
	return r
}

// batch returns a message of Opendir, and empties the list.
func (l *entryList) batch() *ctxfsv1.OpendirResponse {
	b := &ctxfsv1.DirEntryBatch{}
	b.ProtoReflect().SetUnknown(l.encoded)
	l.encoded, l.count = make([]byte, 0, len(l.encoded)), 0
	return &ctxfsv1.OpendirResponse{Event: &ctxfsv1.OpendirResponse_Entries{Entries: b}}
}

func appendPath(b []byte, text, raw protowire.Number, path string) []byte {
	field, s := text, path
	if valid, bytes := wirePath(path); bytes != nil {
		field, s = raw, string(bytes)
	} else if valid == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendNumber omits 0, as proto3 does.
func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendStat encodes the message of wireStat.
func appendStat(b []byte, st *rootfs.Stat) []byte {
	for field, n := range [...]uint64{
		1: uint64(fileType(st.Type())), st.Dev, st.Ino, uint64(st.Mode), st.Nlink,
		uint64(st.UID), uint64(st.GID), st.Rdev, uint64(st.Size), uint64(st.Blksize), uint64(st.Blocks),
		uint64(st.AtimeNs), uint64(st.MtimeNs), uint64(st.CtimeNs), uint64(st.BirthtimeNs),
	} {
		b = appendNumber(b, protowire.Number(field), n)
	}
	return b
}
