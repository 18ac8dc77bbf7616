package codec

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// cursor walks over bytes that lie in pieces.
type cursor struct {
	// rest is what is left of the piece it stands in, and pieces are those that follow.
	rest   []byte
	pieces mem.BufferSlice
	off    int // from the beginning
}

// skip goes n bytes on; false when that is beyond end, which must not be beyond the pieces' own.
func (c *cursor) skip(n, end int) bool {
	if n > end-c.off {
		return false
	}
	c.off += n
	for n > len(c.rest) {
		n -= len(c.rest)
		c.advance()
	}
	c.rest = c.rest[n:]
	return true
}

// advance goes to the beginning of the next piece.
func (c *cursor) advance() { c.rest, c.pieces = c.pieces[0].ReadOnlyData(), c.pieces[1:] }

// varint reads one that ends before end; false when there is none.
func (c *cursor) varint(end int) (v uint64, ok bool) {
	for shift := 0; shift < 64; shift += 7 {
		b, ok := c.next(end)
		if !ok || shift == 63 && b > 1 {
			return 0, false
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, true
		}
	}
	return 0, false
}

func (c *cursor) next(end int) (byte, bool) {
	if c.off >= end {
		return 0, false
	}
	for len(c.rest) == 0 {
		c.advance()
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	c.off++
	return b, true
}

// length reads the length of a field that ends before end.
func (c *cursor) length(end int) (int, bool) {
	v, ok := c.varint(end)
	if !ok || v > uint64(end-c.off) {
		return 0, false
	}
	return int(v), true
}

// value walks over a field's value.
func (c *cursor) value(typ protowire.Type, end int) (ok bool) {
	switch typ {
	case protowire.VarintType:
		_, ok = c.varint(end)
		return ok
	case protowire.Fixed32Type:
		return c.skip(4, end)
	case protowire.Fixed64Type:
		return c.skip(8, end)
	case protowire.BytesType:
		size, ok := c.length(end)
		return ok && c.skip(size, end)
	}
	return false
}

// appendRange appends the bytes from one offset to another.
func appendRange(b []byte, pieces mem.BufferSlice, from, to int) []byte {
	each(pieces, from, to, func(p mem.Buffer, from, to int) {
		b = append(b, p.ReadOnlyData()[from:to]...)
	})
	return b
}

// slice returns references of its own to the bytes from one offset to another.
func slice(pieces mem.BufferSlice, from, to int) mem.BufferSlice {
	out := make(mem.BufferSlice, 0, len(pieces))
	each(pieces, from, to, func(p mem.Buffer, from, to int) {
		out = append(out, p.Slice(from, to))
	})
	return out
}

// each calls f for the pieces, and the parts of them, that lie between two offsets.
func each(pieces mem.BufferSlice, from, to int, f func(p mem.Buffer, from, to int)) {
	for _, p := range pieces {
		if to <= 0 {
			return
		}
		if n := p.Len(); from < n {
			if lo, hi := max(from, 0), min(to, n); lo < hi {
				f(p, lo, hi)
			}
		}
		from -= p.Len()
		to -= p.Len()
	}
}
