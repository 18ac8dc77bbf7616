package codec

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// path is the way to a content field, by field numbers from the outermost message in.
type path struct {
	fields [maxDepth]protowire.Number
	depth  int
}

// header returns everything of the message but its content, laid out so that the
// content can follow: at each level the field that holds it comes last.
func (c *Codec) header(o *Outgoing) (mem.Buffer, error) {
	var p path
	if n := c.tables.of(o.Message).places(o.Message.ProtoReflect(), &p, 0); n != 1 {
		return nil, fmt.Errorf("codec: %s has %d content fields set, want one that is set to nothing", o.Message.ProtoReflect().Descriptor().FullName(), n)
	}
	raw, err := proto.Marshal(o.Message)
	if err != nil {
		return nil, err
	}
	return c.layOut(raw, &p, o.Content.Len())
}

// places counts the content fields that are set in m, and puts the way to one into p.
func (n *node) places(m protoreflect.Message, p *path, depth int) int {
	if depth == maxDepth {
		return 0
	}
	count := 0
	if n.content != nil && (m.Has(n.content) || !n.content.HasPresence()) {
		p.fields[depth], p.depth = contentNumber, depth+1
		count++
	}
	for num, l := range n.leads {
		if !m.Has(l.field) {
			continue
		}
		if k := l.to.places(m.Get(l.field).Message(), p, depth+1); k > 0 {
			p.fields[depth] = num
			count += k
		}
	}
	return count
}

// holder returns the message within m that has the content, and the field that the content is.
func (p *path) holder(m protoreflect.Message) (protoreflect.Message, protoreflect.FieldDescriptor) {
	for i := range p.depth - 1 {
		m = m.Get(m.Descriptor().Fields().ByNumber(p.fields[i])).Message()
	}
	return m, m.Descriptor().Fields().ByNumber(p.fields[p.depth-1])
}

// level is a message's encoding without the field that holds the content.
type level struct {
	before, after []byte
	size          int // of the message, content included, in bytes
}

// layOut takes raw, the encoding with its content field empty, apart and puts it
// together around a content of the given length.
func (c *Codec) layOut(raw []byte, p *path, content int) (mem.Buffer, error) {
	var levels [maxDepth]level
	for i, num := range p.fields[:p.depth] {
		start, body, end := cut(raw, num)
		levels[i].before, levels[i].after = raw[:start], raw[end:]
		raw = raw[body:end]
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("codec: a content field holds %d bytes already, want none", len(raw))
	}
	size := content
	for i := p.depth - 1; i >= 0; i-- {
		l := &levels[i]
		l.size = len(l.before) + len(l.after) + protowire.SizeTag(p.fields[i]) + protowire.SizeBytes(size)
		size = l.size
	}
	buf := c.pool.Get(size - content)
	b := (*buf)[:0]
	for i := range p.depth {
		b = append(append(b, levels[i].before...), levels[i].after...)
		b = protowire.AppendTag(b, p.fields[i], protowire.BytesType)
		inner := content
		if i+1 < p.depth {
			inner = levels[i+1].size
		}
		b = protowire.AppendVarint(b, uint64(inner))
	}
	return mem.NewBuffer(buf, c.pool), nil
}

// cut finds the last field of a number in a message that proto.Marshal made: where it
// starts, where its value does, and where it ends; all at the message's end when it is not there.
func cut(raw []byte, num protowire.Number) (start, body, end int) {
	start, body, end = len(raw), len(raw), len(raw)
	for at := 0; at < len(raw); {
		n, typ, tag := protowire.ConsumeTag(raw[at:])
		value := protowire.ConsumeFieldValue(n, typ, raw[at+tag:])
		if n == num && typ == protowire.BytesType {
			_, size := protowire.ConsumeVarint(raw[at+tag:])
			start, body, end = at, at+tag+size, at+tag+value
		}
		at += tag + value
	}
	return start, body, end
}
