package codec

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// span is a length-delimited field of an encoding, by offsets in bytes from its beginning.
type span struct {
	length int // where the length stands
	body   int
	end    int
}

func (s span) size() int { return s.end - s.body }

// finding is the way to the content in an encoding; the last span is the content.
type finding struct {
	spans  [maxDepth]span
	fields [maxDepth]protoreflect.FieldDescriptor
	depth  int
	ok     bool
}

// content says that there is content to refer to.
func (f *finding) content() bool { return f.ok }

func (f *finding) last() span { return f.spans[f.depth-1] }

// find looks for content of at least threshold bytes. Whatever is out of the ordinary is
// not found, so that it is the stock codec which judges it: fields given twice, groups
// and all that is malformed.
func (c *Codec) find(data mem.BufferSlice, m proto.Message, threshold int) finding {
	n := c.tables.of(m)
	if n.empty() {
		return finding{}
	}
	s := scanner{cursor: cursor{pieces: data}, threshold: threshold}
	if !s.message(n, data.Len()) {
		return finding{}
	}
	return s.found
}

// scanner walks over an encoding and into the fields that lead to content.
type scanner struct {
	cursor
	threshold int
	found     finding
}

// message walks to end; false when the encoding is not an ordinary one.
func (s *scanner) message(n *node, end int) bool {
	seen := false
	for s.off < end {
		tag, ok := s.varint(end)
		num, typ := protowire.Number(tag>>3), protowire.Type(tag&7)
		if !ok || tag>>3 < uint64(protowire.MinValidNumber) || tag>>3 > uint64(protowire.MaxValidNumber) {
			return false
		}
		field, to := n.field(num)
		if field == nil || typ != protowire.BytesType {
			if !s.value(typ, end) {
				return false
			}
			continue
		}
		if seen || !s.ours(field, to, end) {
			return false
		}
		seen = true
	}
	return true
}

// field returns the content field or one that leads there, by its number.
func (n *node) field(num protowire.Number) (protoreflect.FieldDescriptor, *node) {
	if n.content != nil && num == contentNumber {
		return n.content, nil
	}
	l := n.leads[num]
	return l.field, l.to
}

// ours walks over a content field, where to is nil, or one that leads there.
func (s *scanner) ours(field protoreflect.FieldDescriptor, to *node, end int) bool {
	at := s.off
	size, ok := s.length(end)
	if !ok {
		return false
	}
	if size < s.threshold {
		return s.skip(size, end)
	}
	f := &s.found
	if f.depth == maxDepth {
		return false
	}
	f.spans[f.depth], f.fields[f.depth] = span{at, s.off, s.off + size}, field
	f.depth++
	if to != nil {
		return s.message(to, s.off+size)
	}
	f.ok = true
	return s.skip(size, end)
}

// split unmarshals what surrounds the content and refers to the content.
func (c *Codec) split(data mem.BufferSlice, f *finding, in *Incoming) error {
	total := data.Len()
	buf := c.pool.Get(total - f.last().size())
	defer c.pool.Put(buf)
	if err := proto.Unmarshal(f.surroundings((*buf)[:0], data, total), in.Message); err != nil {
		return err
	}
	// A later field of the same oneof takes the content's place.
	if f.standsIn(in.Message.ProtoReflect()) {
		in.Content = slice(data, f.last().body, f.last().end)
	}
	return nil
}

// surroundings appends the encoding without the content's bytes, the lengths around it made to fit.
func (f *finding) surroundings(b []byte, data mem.BufferSlice, total int) []byte {
	var sizes [maxDepth]int
	shrunk := 0
	for i := f.depth - 1; i >= 0; i-- {
		s := f.spans[i]
		if i == f.depth-1 {
			shrunk = s.size()
		}
		sizes[i] = s.size() - shrunk
		shrunk += s.body - s.length - protowire.SizeVarint(uint64(sizes[i]))
	}
	from := 0
	for i, s := range f.spans[:f.depth] {
		b = appendRange(b, data, from, s.length)
		b = protowire.AppendVarint(b, uint64(sizes[i]))
		from = s.body
	}
	return appendRange(b, data, f.last().end, total)
}

// standsIn says whether the content's field is set in m.
func (f *finding) standsIn(m protoreflect.Message) bool {
	for i, field := range f.fields[:f.depth] {
		if i == f.depth-1 {
			return m.Has(field) || !field.HasPresence()
		}
		if !m.Has(field) {
			return false
		}
		m = m.Get(field).Message()
	}
	return false
}
