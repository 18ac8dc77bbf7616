package codec

import (
	"google.golang.org/grpc/mem"
)

// cursor walks over bytes that lie in pieces.
type cursor struct {
	pieces mem.BufferSlice
	at     int // within the first piece
	off    int // from the beginning
}

// skip goes n bytes on; false when that is beyond end, which must not be beyond the pieces' own.
func (c *cursor) skip(n, end int) bool {
	if n > end-c.off {
		return false
	}
	c.off += n
	for c.at += n; len(c.pieces) > 0 && c.at >= c.pieces[0].Len(); c.pieces = c.pieces[1:] {
		c.at -= c.pieces[0].Len()
	}
	return true
}

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
	for c.at >= c.pieces[0].Len() { // an empty piece
		c.at -= c.pieces[0].Len()
		c.pieces = c.pieces[1:]
	}
	b := c.pieces[0].ReadOnlyData()[c.at]
	return b, c.skip(1, end)
}

// length reads the length of a field that ends before end.
func (c *cursor) length(end int) (int, bool) {
	v, ok := c.varint(end)
	if !ok || v > uint64(end-c.off) {
		return 0, false
	}
	return int(v), true
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
