package codec

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/internal/codec/codectest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestMarshalPutsTheContentWhereItsFieldIsSet(t *testing.T) {
	for _, c := range []struct {
		name       string
		typ        protoreflect.Name
		have, want string
	}{
		{"in a oneof", "Chunk", `name:"n" data:""`, `name:"n" data:"abc"`},
		{"before another field", "Chunk", `data:"" after:"x"`, `data:"abc" after:"x"`},
		{"without presence", "Plain", `n:7`, `n:7 data:"abc"`},
		{"nothing else", "Plain", ``, `data:"abc"`},
		{"one message down", "Envelope", `id:1 chunk{data:""} trailer:"t"`, `id:1 chunk{data:"abc"} trailer:"t"`},
		{"one message down, without presence", "Envelope", `plain{}`, `plain{data:"abc"}`},
		{"three messages down", "Envelope", `id:1 envelope{id:2 envelope{chunk{name:"n" data:""}}}`, `id:1 envelope{id:2 envelope{chunk{name:"n" data:"abc"}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			content := mem.BufferSlice{mem.SliceBuffer("a"), mem.SliceBuffer(""), mem.SliceBuffer("bc")}
			raw := join(t, New(NewPool()), &Outgoing{Message: message(t, c.typ, c.have), Content: content})
			got := message(t, c.typ, "")
			if err := proto.Unmarshal(raw, got); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, got, message(t, c.typ, c.want))
		})
	}
}

func TestMarshalWithoutContentIsTheStockEncoding(t *testing.T) {
	pool := codectest.NewPool()
	m := &ctxfsv1.ReadResponse{BytesRead: 3, Content: &ctxfsv1.ReadResponse_Data{Data: []byte("abc")}}
	want, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"a plain message": m, "no content": &Outgoing{Message: m},
		"content of no bytes": &Outgoing{Message: m, Content: mem.BufferSlice{mem.SliceBuffer(nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := join(t, New(pool), v); !bytes.Equal(got, want) {
				t.Fatalf("got %x, want %x", got, want)
			}
		})
	}
}

func TestWrittenIsCalledOnceTheMessageIsFree(t *testing.T) {
	m := &ctxfsv1.WatchResponse{Notice: &ctxfsv1.WatchResponse_Event{Event: &ctxfsv1.WatchEvent{EventType: "change", Filename: "a"}}}
	want, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	data, err := New(NewPool()).Marshal(&Outgoing{Message: m, Written: func() { calls++ }})
	if err != nil || !bytes.Equal(data.Materialize(), want) {
		t.Fatalf("%x, %v, want %x", data.Materialize(), err, want)
	}
	data.Ref()
	data.Free()
	if calls != 0 {
		t.Error("called while the transport has the message")
	}
	data.Free()
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

func TestMarshalRefusesAnUnclearPlace(t *testing.T) {
	deep := strings.Repeat("envelope{", maxDepth) + `chunk{data:""}` + strings.Repeat("}", maxDepth)
	for _, c := range []struct {
		name string
		typ  protoreflect.Name
		text string
	}{
		{"none set", "Chunk", `name:"n"`},
		{"another of the oneof", "Chunk", `text:"x"`},
		{"none below", "Envelope", `stat{path:"p"}`},
		{"no such field in the type", "Stat", `data:"" buffers:""`},
		{"content there already", "Chunk", `data:"x"`},
		{"too deep", "Envelope", deep},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := codectest.NewPool()
			o := &Outgoing{Message: message(t, c.typ, c.text), Content: pieces(make([]byte, 4<<10), pool, 2<<10)}
			if s, err := New(pool).Marshal(o); err == nil {
				t.Fatalf("marshalled to %x", s.Materialize())
			}
			if o.Content != nil || pool.Outstanding() != 0 {
				t.Fatal("the content was not freed")
			}
		})
	}
}

// wire encodes length-delimited fields, in that order.
func wire(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		b = protowire.AppendTag(b, protowire.Number(fields[i].(int)), protowire.BytesType)
		switch v := fields[i+1].(type) {
		case string:
			b = protowire.AppendString(b, v)
		case []byte:
			b = protowire.AppendBytes(b, v)
		}
	}
	return b
}

func TestUnmarshalRefersToContent(t *testing.T) {
	chunk := func(fields ...any) []byte { return wire(2, wire(fields...)) }
	for _, c := range []struct {
		name    string
		typ     protoreflect.Name
		raw     []byte
		content string // "" when there is nothing to refer to
	}{
		{"last", "Chunk", wire(1, "n", 100, "abc"), "abc"},
		{"first", "Chunk", wire(100, "abc", 1, "n"), "abc"},
		{"in the middle", "Chunk", wire(1, "n", 100, "abc", 102, "x"), "abc"},
		{"alone", "Plain", wire(100, "abc"), "abc"},
		{"one message down", "Envelope", chunk(1, "n", 100, "abc"), "abc"},
		{"one message down, between others", "Envelope", append(append(wire(200, "t"), chunk(100, "abc", 1, "n")...), 8, 3), "abc"},
		{"without presence, one message down", "Envelope", wire(3, wire(100, "abc")), "abc"},
		{"with unknown fields around", "Chunk", wire(50, "u", 100, "abc", 51, "v"), "abc"},
		{"replaced by text", "Chunk", wire(100, "abc", 101, "t"), ""},
		{"replacing text", "Chunk", wire(101, "t", 100, "abc"), "abc"},
		{"replaced by another operation", "Envelope", append(chunk(100, "abc"), wire(4, wire(1, "p"))...), ""},
		{"given twice", "Chunk", wire(100, "abc", 100, "de"), ""},
		{"in a message given twice", "Envelope", append(chunk(100, "abc"), chunk(1, "n")...), ""},
		{"empty", "Chunk", wire(100, ""), ""},
		{"bytes that are none", "Stat", wire(99, "abc", 100, "def"), ""},
		{"as a number", "Chunk", []byte{0xa0, 0x06, 0x05}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := message(t, c.typ, "")
			if err := proto.Unmarshal(c.raw, want); err != nil {
				t.Fatal(err)
			}
			k := eager(NewPool())
			in := &Incoming{Message: message(t, c.typ, "")}
			if err := k.Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.raw)}, in); err != nil {
				t.Fatal(err)
			}
			if got := string(in.Content.Materialize()); got != c.content {
				t.Fatalf("content %q, want %q", got, c.content)
			}
			restore(t, k, in)
			sameMessage(t, in.Message, want)
		})
	}
}

func TestUnmarshalCopiesSmallContent(t *testing.T) {
	for size, refers := range map[int]bool{threshold - 1: false, threshold: true} {
		in := &Incoming{Message: message(t, "Plain", "")}
		raw := wire(100, make([]byte, size))
		if err := New(NewPool()).Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, in); err != nil {
			t.Fatal(err)
		}
		if (in.Content != nil) != refers || proto.Size(in.Message)+in.Content.Len() < size {
			t.Errorf("content of %d: referred to: %v; size %d", size, in.Content != nil, proto.Size(in.Message)+in.Content.Len())
		}
	}
}

func TestContentOutlivesTheMessageAndComesBack(t *testing.T) {
	pool := codectest.NewPool()
	k := New(pool)
	content := bytes.Repeat([]byte("content."), 8<<10)
	data := pieces(wire(1, "n", 100, content), pool, 3, 0, 5000, 16<<10, 16<<10)
	in := &Incoming{Message: message(t, "Chunk", "")}
	if err := k.Unmarshal(data, in); err != nil {
		t.Fatal(err)
	}
	data.Free() // as gRPC does
	if got := in.Content.Materialize(); !bytes.Equal(got, content) {
		t.Fatal("the content is another")
	}
	if err := k.Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire(1, "x"))}, in); err != nil {
		t.Fatal(err)
	}
	if in.Content != nil || pool.Outstanding() != 0 {
		t.Fatalf("the next message left %d buffers of the one before", pool.Outstanding())
	}
}

// envelopes generates messages of schema whose content is set to nothing, or is not there.
func envelopes(t *rapid.T, d protoreflect.MessageDescriptors, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d.ByName("Envelope"))
	set := func(m *dynamicpb.Message, name protoreflect.Name, v any) {
		m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOf(v))
	}
	short := rapid.StringN(0, 20, 40)
	set(m, "id", rapid.Uint64().Draw(t, "id"))
	set(m, "trailer", short.Draw(t, "trailer"))
	m.SetUnknown(wire(rapid.IntRange(300, 1000).Draw(t, "unknown"), short.Draw(t, "value")))
	kind := rapid.SampledFrom([]protoreflect.Name{"chunk", "plain", "envelope"}).Draw(t, "kind")
	if kind == "envelope" && depth < 3 {
		set(m, kind, envelopes(t, d, depth+1).ProtoReflect())
		return m
	}
	if kind == "plain" {
		p := dynamicpb.NewMessage(d.ByName("Plain"))
		set(p, "n", rapid.Int32().Draw(t, "n"))
		set(m, "plain", p.ProtoReflect())
		return m
	}
	c := dynamicpb.NewMessage(d.ByName("Chunk"))
	set(c, "name", strings.Repeat(short.Draw(t, "name"), rapid.IntRange(0, 50).Draw(t, "times")))
	set(c, "fixed", rapid.Uint64().Draw(t, "fixed"))
	set(c, "narrow", rapid.Uint32().Draw(t, "narrow"))
	set(c, "after", rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "after"))
	set(c, "data", []byte{})
	set(m, "chunk", c.ProtoReflect())
	return m
}

func TestWhatIsSentIsReceivedInAnyOrderAndPieces(t *testing.T) {
	d := types()
	rapid.Check(t, func(r *rapid.T) {
		pool := codectest.NewPool()
		k := eager(pool)
		m := envelopes(r, d, 0)
		content := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(r, "content"), rapid.IntRange(1, 100).Draw(r, "times"))
		sizes := rapid.SliceOfN(rapid.IntRange(0, 2000), 0, 20)
		raw := join(t, k, &Outgoing{Message: m, Content: pieces(content, pool, sizes.Draw(r, "sent")...)})
		raw = shuffled(r, raw, k.tables.of(m))
		want := dynamicpb.NewMessage(m.Descriptor())
		if err := proto.Unmarshal(raw, want); err != nil {
			r.Fatal(err)
		}
		in := &Incoming{Message: dynamicpb.NewMessage(m.Descriptor())}
		data := pieces(raw, pool, sizes.Draw(r, "received")...)
		if err := k.Unmarshal(data, in); err != nil {
			r.Fatal(err)
		}
		data.Free()
		if got := in.Content.Materialize(); !bytes.Equal(got, content) {
			r.Fatalf("content %x, want %x", got, content)
		}
		restore(t, k, in)
		sameMessage(r, in.Message, want)
		if n := pool.Outstanding(); n != 0 {
			r.Fatalf("%d buffers are out", n)
		}
	})
}
