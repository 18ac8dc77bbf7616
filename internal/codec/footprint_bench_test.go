package codec

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// BenchmarkFootprint measures what a session receives most: a write of 4 KiB, as it comes and in its call, and 32 calls of a few bytes that came
// together.
func BenchmarkFootprint(b *testing.B) {
	call := func(id uint64, method string, m proto.Message) *ctxfsv1.SessionRequest {
		data, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		c := &ctxfsv1.SessionCall{Method: "/ctxfs.v1.FsService/" + method, Data: data}
		return &ctxfsv1.SessionRequest{Id: id, Request: &ctxfsv1.SessionRequest_Call{Call: c}}
	}
	write := &ctxfsv1.WriteFileRequest{Path: "files/f000.txt", Content: &ctxfsv1.WriteFileRequest_Data{Data: make([]byte, 4<<10)}}
	many := call(1, "Stat", &ctxfsv1.StatRequest{Path: "files/f000.txt"})
	for i := range 31 {
		many.Also = append(many.Also, call(uint64(i+2), "Stat", &ctxfsv1.StatRequest{Path: fmt.Sprintf("files/f%03d.txt", i)}))
	}
	for _, c := range []struct {
		name string
		m    proto.Message
	}{{"call", call(1, "WriteFile", write)}, {"write", write}, {"32 calls", many}} {
		b.Run(c.name, func(b *testing.B) {
			data, err := proto.Marshal(c.m)
			if err != nil {
				b.Fatal(err)
			}
			pieces, d := mem.BufferSlice{mem.SliceBuffer(data)}, c.m.ProtoReflect().Descriptor()
			b.ReportAllocs()
			for b.Loop() {
				if told, err := Footprint(pieces, d); err != nil || told == 0 {
					b.Fatal(told, err)
				}
			}
		})
	}
}
