package fsservice

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The numbers of fields, by fs_types.proto. Both ReaddirResponse and DirEntryBatch have
// the entries as their first.
const (
	entriesField = 1

	nameField, rawNameField     = 1, 2
	parentField, rawParentField = 3, 4
	typeField, statField        = 5, 6
)

// entryList is directory entries as they travel: the field "entries" of a message, encoded.
// Listings are long, and a message for each entry and its attributes, encoded by
// reflection, costs more than to ask the kernel. So a reply carries them as what the
// protobuf library calls unknown: bytes that it writes as they are.
type entryList struct {
	listing
	encoded []byte
	count   int
	// reserved is what of the list's memory is reserved, in bytes.
	reserved int64
	// stat and entry are scratch space: a message's length comes before it.
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

// grow doubles, unlike append.
func (l *entryList) grow(n int) {
	const least, framing = 4 << 10, 16
	if cap(l.encoded)-len(l.encoded) < n+framing {
		l.encoded = slices.Grow(l.encoded, max(n+framing, len(l.encoded), least))
	}
}

// response is the reply to Readdir, which takes over what is encoded.
func (l *entryList) response() *ctxfsv1.ReaddirResponse {
	r := &ctxfsv1.ReaddirResponse{}
	r.ProtoReflect().SetUnknown(l.encoded)
	return r
}

// batch is a part of the reply to Opendir. The list begins anew.
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

// appendNumber leaves out 0, as proto3 does.
func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendStat encodes what wireStat would say.
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
