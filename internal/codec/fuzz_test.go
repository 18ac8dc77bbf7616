package codec

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ctxfs/ctxfs/internal/codec/codectest"
)

// FuzzUnmarshal holds Unmarshal to proto.Unmarshal: the same is accepted, with the same result.
func FuzzUnmarshal(f *testing.F) {
	long := make([]byte, 300)
	chunk := wire(1, "n", 100, long, 102, "x")
	group := protowire.AppendTag(protowire.AppendTag(nil, 100, protowire.StartGroupType), 100, protowire.EndGroupType)
	for _, raw := range [][]byte{
		nil, chunk, wire(100, long, 1, "n"), wire(100, "a", 100, "b"), wire(100, "a", 101, "b"), wire(101, "a", 100, long),
		wire(2, chunk), append(wire(2, chunk), wire(3, wire(100, long))...), append(wire(2, chunk), wire(2, wire(1, "m"))...),
		wire(5, wire(5, wire(5, wire(2, chunk)))), wire(2, chunk)[:50], wire(2, chunk[:50]), wire(1, "\xff", 100, long),
		append(chunk, group...), append(group, chunk...), append([]byte{0}, chunk...), append([]byte{0xa2, 0x86, 0x00, 3}, "abc"...),
		{0xa2, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, {0xa2, 0x06, 0x83, 0x80, 0x00, 'a', 'b', 'c'},
		{0xa2, 0x06, 0x83, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 'a', 'b', 'c'},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, {0x21, 1, 2, 3}, {0x2d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		for kind := range uint8(4) {
			f.Add(raw, kind, uint16(3), uint16(40))
		}
	}
	d := types()
	f.Fuzz(func(t *testing.T, raw []byte, kind uint8, first, second uint16) {
		typ := d.Get(int(kind) % d.Len())
		want := dynamicpb.NewMessage(typ)
		wantErr := proto.Unmarshal(raw, want)
		pool := codectest.NewPool()
		k := eager(pool)
		in := &Incoming{Message: dynamicpb.NewMessage(typ)}
		data := pieces(raw, pool, int(first), 0, int(second))
		err := k.Unmarshal(data, in)
		data.Free()
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%x as %s: %v, proto says %v", raw, typ.Name(), err, wantErr)
		}
		if err == nil {
			restore(t, k, in)
			sameMessage(t, in.Message, want)
		}
		if in.Free(); pool.Outstanding() != 0 {
			t.Fatalf("%d buffers are out", pool.Outstanding())
		}
	})
}

func FuzzMarshal(f *testing.F) {
	for _, raw := range [][]byte{
		nil, wire(1, "n", 100, ""), wire(1, "n", 101, "text"), wire(2, wire(100, "")), append(wire(2, wire(1, "m")), wire(3, wire(100, "x"))...), wire(5, wire(5, wire(2, wire(100, "")))),
	} {
		for kind := range uint8(4) {
			f.Add(raw, kind, []byte("abc"))
			f.Add(raw, kind, make([]byte, 300))
		}
	}
	d := types()
	f.Fuzz(func(t *testing.T, raw []byte, kind uint8, content []byte) {
		m := dynamicpb.NewMessage(d.Get(int(kind) % d.Len()))
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		k := eager(NewPool())
		s, err := k.Marshal(&Outgoing{Message: m, Content: mem.BufferSlice{mem.SliceBuffer(content)}})
		if err != nil || len(content) == 0 {
			return
		}
		want := proto.Clone(m)
		restore(t, k, &Incoming{Message: want, Content: mem.BufferSlice{mem.SliceBuffer(content)}})
		got := dynamicpb.NewMessage(m.Descriptor())
		if err := proto.Unmarshal(s.Materialize(), got); err != nil {
			t.Fatal(err)
		}
		sameMessage(t, got, want)
	})
}
