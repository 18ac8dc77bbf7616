package codec

import (
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schema has what the API has and may come to have: content in a oneof and without
// presence, in a message and below others, beside bytes that are none.
const schema = `
name: "t.proto" syntax: "proto3"
message_type { name: "Chunk"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "nums" number: 3 type: TYPE_INT32 label: LABEL_REPEATED }
  field { name: "fixed" number: 4 type: TYPE_FIXED64 label: LABEL_OPTIONAL }
  field { name: "narrow" number: 5 type: TYPE_FIXED32 label: LABEL_OPTIONAL }
  field { name: "data" number: 100 type: TYPE_BYTES label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "text" number: 101 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "after" number: 102 type: TYPE_BYTES label: LABEL_OPTIONAL }
  oneof_decl { name: "content" } }
message_type { name: "Plain"
  field { name: "n" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "data" number: 100 type: TYPE_BYTES label: LABEL_OPTIONAL } }
message_type { name: "Stat"
  field { name: "path" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "data" number: 99 type: TYPE_BYTES label: LABEL_OPTIONAL } 
  field { name: "buffers" number: 100 type: TYPE_BYTES label: LABEL_REPEATED } }
message_type { name: "Envelope"
  field { name: "id" number: 1 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "chunk" number: 2 type: TYPE_MESSAGE type_name: ".Chunk" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "plain" number: 3 type: TYPE_MESSAGE type_name: ".Plain" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "stat" number: 4 type: TYPE_MESSAGE type_name: ".Stat" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "envelope" number: 5 type: TYPE_MESSAGE type_name: ".Envelope" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "trailer" number: 200 type: TYPE_STRING label: LABEL_OPTIONAL }
  oneof_decl { name: "op" } }`

// types are the message types of schema.
var types = sync.OnceValue(func() protoreflect.MessageDescriptors {
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(schema), &file); err != nil {
		panic(err)
	}
	f, err := protodesc.NewFile(&file, nil)
	if err != nil {
		panic(err)
	}
	return f.Messages()
})

// message parses a message of schema from its text.
func message(t testing.TB, name protoreflect.Name, text string) *dynamicpb.Message {
	t.Helper()
	m := dynamicpb.NewMessage(types().ByName(name))
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// eager is a codec that refers to content of one byte already.
func eager(pool mem.BufferPool) *Codec {
	c := New(pool)
	c.threshold = 1
	return c
}

// restore puts received content where it belongs.
func restore(t testing.TB, c *Codec, in *Incoming) {
	t.Helper()
	if in.Content == nil {
		return
	}
	var p path
	if n := c.tables.of(in.Message).places(in.Message.ProtoReflect(), &p, 0); n != 1 {
		t.Fatalf("%d places for the content in %v", n, in.Message)
	}
	m := in.Message.ProtoReflect()
	for _, num := range p.fields[:p.depth-1] {
		m = m.Mutable(m.Descriptor().Fields().ByNumber(num)).Message()
	}
	field := m.Descriptor().Fields().ByNumber(contentNumber)
	if old := m.Get(field).Bytes(); len(old) > 0 {
		t.Fatalf("%d bytes of content were copied as well", len(old))
	}
	m.Set(field, protoreflect.ValueOfBytes(in.Content.Materialize()))
	in.Free()
}

// pieces cuts raw where the sizes say, as often as it takes; 0 gives an empty piece.
func pieces(raw []byte, pool mem.BufferPool, sizes ...int) mem.BufferSlice {
	var out mem.BufferSlice
	for i := 0; len(raw) > 0; i++ {
		n := len(raw)
		if i < len(sizes) {
			n = min(n, sizes[i])
		}
		out = append(out, mem.Copy(raw[:n], pool))
		raw = raw[n:]
	}
	return out
}

// join marshals and returns the bytes.
func join(t testing.TB, c *Codec, v any) []byte {
	t.Helper()
	s, err := c.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Free()
	return s.Materialize()
}

// shuffled is an encoding with its fields in another order, those of the nested messages too.
func shuffled(t *rapid.T, raw []byte, n *node) []byte {
	var fields [][]byte
	for len(raw) > 0 {
		num, typ, tag := protowire.ConsumeTag(raw)
		end := tag + protowire.ConsumeFieldValue(num, typ, raw[tag:])
		field := slices.Clone(raw[:end])
		if _, to := n.field(num); to != nil {
			body, _ := protowire.ConsumeBytes(raw[tag:])
			field = protowire.AppendBytes(protowire.AppendTag(nil, num, typ), shuffled(t, body, to))
		}
		fields, raw = append(fields, field), raw[end:]
	}
	return slices.Concat(rapid.Permutation(fields).Draw(t, "order")...)
}

// sameMessage fails unless both encode to the same bytes.
func sameMessage(t interface{ Fatalf(string, ...any) }, got, want proto.Message) {
	canonical := proto.MarshalOptions{Deterministic: true}
	g, gotErr := canonical.Marshal(got)
	w, wantErr := canonical.Marshal(want)
	if gotErr != nil || wantErr != nil || !slices.Equal(g, w) || !proto.Equal(got, want) {
		t.Fatalf("got %v (%v), want %v (%v)", got, gotErr, want, wantErr)
	}
}
