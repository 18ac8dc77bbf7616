package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // the tests compress
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec/codectest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// sides are all pairs of an end with this codec and one without.
func sides(pool func() mem.BufferPool) map[string][2]side {
	ours := func() side { p := pool(); return side{New(p), p, true} }
	theirs := side{check: true}
	return map[string][2]side{
		"both ends": {ours(), ours()}, "the server alone": {ours(), theirs},
		"the client alone": {theirs, ours()}, "no end": {theirs, theirs},
	}
}

func TestStreamsBetweenThisCodecAndTheStockOne(t *testing.T) {
	for name, s := range sides(func() mem.BufferPool { return codectest.NewPool() }) {
		t.Run(name, func(t *testing.T) {
			c := connect(t, s[0], s[1])
			for _, chunk := range []int64{100, threshold - 1, threshold, 256 << 10, 1 << 20} {
				size := min(3<<20, 100*chunk) + 7
				for kind, opts := range map[string][]grpc.CallOption{"plain": nil, "compressed": {grpc.UseCompressor("gzip")}} {
					if err := c.read(t.Context(), size, chunk, opts...); err != nil {
						t.Errorf("read %s in chunks of %d: %v", kind, chunk, err)
					}
					if err := c.write(t.Context(), size, chunk, opts...); err != nil {
						t.Errorf("write %s in chunks of %d: %v", kind, chunk, err)
					}
				}
			}
			c.close()
			for _, end := range s {
				if p, ok := end.pool.(*codectest.Pool); ok {
					p.Settled(t)
				}
			}
		})
	}
}

func TestPreparedMessagesOwnTheirContent(t *testing.T) {
	pool := codectest.NewPool()
	ours := side{New(pool), pool, true}
	c := connect(t, side{check: true}, ours)
	defer c.close()
	stream, err := c.rpc.WriteStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := writeRequest(nil)
	o.Content = ours.chunk(0, 100<<10)
	var m grpc.PreparedMsg
	if err := m.Encode(stream, &o); err != nil {
		t.Fatal(err)
	}
	pool.Settled(t)
	if err := stream.SendMsg(&m); err != nil {
		t.Fatal(err)
	}
	if r, err := stream.CloseAndRecv(); err != nil || r.GetBytesWritten() != 100<<10 {
		t.Fatal(r, err)
	}
}

// A window of 64 KiB that does not grow stops a sender within its second chunk.
var narrow = grpc.WithStaticStreamWindowSize(64 << 10)

func TestAReadGivenUpGivesAllContentBack(t *testing.T) {
	pool := codectest.NewPool()
	c := connect(t, side{New(pool), codectest.NewPool(), true}, side{New(codectest.NewPool()), codectest.NewPool(), true}, narrow)
	c.service.pool, c.service.sending = pool, make(chan struct{})
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		end := int64(8<<20) - 1
		if _, err := c.rpc.ReadStream(ctx, &ctxfsv1.ReadStreamRequest{End: &end, ChunkSize: 256 << 10}); err != nil {
			t.Fatal(err)
		}
		<-c.service.sending
		<-c.service.sending
		cancel()
		pool.Settled(t)
	}
	c.close()
	if pool.Made() < 5 {
		t.Errorf("%d buffers were used, want many", pool.Made())
	}
}

func TestAWriteGivenUpGivesAllContentBack(t *testing.T) {
	pool := codectest.NewPool()
	ours := side{New(pool), pool, true}
	c := connect(t, side{New(codectest.NewPool()), codectest.NewPool(), true}, ours)
	defer c.close()
	c.service.stalled = true
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.rpc.WriteStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := ours.send(stream, 0, 256<<10, writeRequest); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := stream.RecvMsg(&ctxfsv1.WriteStreamResponse{}); status.Code(err) != codes.Canceled {
			t.Errorf("got %v, want CANCELED", err)
		}
		if err := ours.send(stream, 0, 256<<10, writeRequest); err == nil {
			t.Error("a cancelled stream took a message")
		}
		pool.Settled(t)
	}
}

func TestSendAfterCloseLeavesTheContentWithTheSender(t *testing.T) {
	pool := codectest.NewPool()
	ours := side{New(pool), pool, true}
	c := connect(t, side{check: true}, ours)
	defer c.close()
	stream, err := c.rpc.WriteStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := ours.send(stream, 0, 100<<10, writeRequest); err == nil {
		t.Error("a closed stream took a message")
	}
	pool.Settled(t)
}

func TestTheCodecIsNamedAsTheStockOne(t *testing.T) {
	var k encoding.CodecV2 = New(NewPool())
	if k.Name() != "proto" {
		t.Errorf("the name is %q", k.Name())
	}
}

func BenchmarkStreams(b *testing.B) {
	for _, chunk := range []int64{256 << 10, 1 << 20} {
		for _, end := range []string{"stock", "ours"} {
			var server, client side
			if end == "ours" {
				server, client = side{codec: New(NewPool()), pool: NewPool()}, side{codec: New(NewPool()), pool: NewPool()}
			}
			c := connect(b, server, client)
			run := func(name string, f func(context.Context, int64, int64, ...grpc.CallOption) error) {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", name, chunk>>10, end), func(b *testing.B) {
					const size = 64 << 20
					b.SetBytes(size)
					b.ReportAllocs()
					for b.Loop() {
						if err := f(b.Context(), size, chunk); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			run("read", c.read)
			run("write", c.write)
			c.close()
		}
	}
}

// collector is a grpc.ServerStream that keeps what the codec made of a message.
type collector struct {
	grpc.ServerStream
	ctx   context.Context //nolint:containedctx // grpc.ServerStream asks for it
	codec *Codec
	sent  mem.BufferSlice
	err   error
}

func (c *collector) Context() context.Context { return c.ctx }

func (c *collector) SendMsg(m any) (err error) {
	if c.err != nil {
		return c.err
	}
	c.sent, err = c.codec.Marshal(m)
	return err
}

// TestHeldUntilFreed sends replies that hold memory, with content in different places, and has the transport free them later.
func TestHeldUntilFreed(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 100<<10)
	for name, m := range map[string]proto.Message{
		"data":      &ctxfsv1.ReadFileResponse{Lossy: true, Content: &ctxfsv1.ReadFileResponse_Data{Data: large}},
		"text":      &ctxfsv1.ReadFileResponse{Content: &ctxfsv1.ReadFileResponse_Text{Text: string(large)}},
		"readv":     &ctxfsv1.ReadvResponse{BytesRead: 7, Data: large},
		"little":    &ctxfsv1.ReadFileResponse{Content: &ctxfsv1.ReadFileResponse_Data{Data: []byte("x")}},
		"nothing":   &ctxfsv1.ReadFileResponse{},
		"a session": sessionReply(1, large, sessionReply(2, large), sessionReply(3, []byte("x"))),
	} {
		t.Run(name, func(t *testing.T) {
			want := proto.Clone(m)
			b := budget.New(1<<30, time.Hour, nil)
			h := b.Account(0).Share(0, nil).Hold()
			if !h.Try(200 << 10) {
				t.Fatal("no room")
			}
			pool := codectest.NewPool()
			stream := &collector{ctx: t.Context(), codec: New(pool)}
			if err := SendHeld(stream, m, h); err != nil {
				t.Fatal(err)
			}
			if got := b.Held(); got != 200<<10 {
				t.Errorf("%d bytes are held before the transport freed them", got)
			}
			got := want.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(stream.sent.Materialize(), got); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, got, want)
			stream.sent.Free()
			if got := b.Held(); got != 0 {
				t.Errorf("%d bytes are held afterwards", got)
			}
			pool.Settled(t)
		})
	}
}

func sessionReply(id uint64, data []byte, also ...*ctxfsv1.SessionResponse) *ctxfsv1.SessionResponse {
	return &ctxfsv1.SessionResponse{Id: id, Also: also, Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{Data: data}}}
}

func TestHeldIsReleasedWhenSendingFails(t *testing.T) {
	b := budget.New(1<<30, time.Hour, nil)
	h := b.Account(0).Share(0, nil).Hold()
	h.Try(200 << 10)
	stream := &collector{ctx: t.Context(), codec: New(NewPool()), err: io.ErrClosedPipe}
	if err := SendHeld(stream, &ctxfsv1.ReadFileResponse{}, h); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if got := b.Held(); got != 0 {
		t.Errorf("%d bytes are held", got)
	}
}

// TestUnmarshalOwned has messages keep the memory that they were received in.
func TestUnmarshalOwned(t *testing.T) {
	for _, size := range []int{0, 100, threshold, 100 << 10} {
		for name, want := range map[string]proto.Message{
			"data": &ctxfsv1.WriteFileRequest{Path: "/a", Content: &ctxfsv1.WriteFileRequest_Data{Data: bytes.Repeat([]byte("x"), size)}},
			"text": &ctxfsv1.WriteFileRequest{Path: "/a", Content: &ctxfsv1.WriteFileRequest_Text{Text: strings.Repeat("x", size)}},
		} {
			raw, err := proto.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			got := &ctxfsv1.WriteFileRequest{}
			if err := New(NewPool()).UnmarshalOwned(raw, got); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, got, want)
			clear(raw)
			if aliased := size >= threshold && got.GetData() != nil; aliased != (got.GetData() != nil && size > 0 && got.GetData()[0] == 0) {
				t.Errorf("%s of %d bytes: aliased %v", name, size, !aliased)
			}
		}
	}
	if err := New(NewPool()).UnmarshalOwned([]byte("no message"), &ctxfsv1.WriteFileRequest{}); err == nil {
		t.Error("garbage is a message")
	}
}
