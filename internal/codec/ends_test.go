package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/internal/codec/codectest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// period is the tests' content, again and again: no power of two, so that no chunk is like another.
const period = 65537

// sample is two periods of content without any poison in it.
var sample = sync.OnceValue(func() []byte {
	b := make([]byte, 2*period)
	for i := range b {
		n := uint32(i%period) * 2654435761
		b[i] = byte(n>>13) % codectest.Poison
	}
	return b
})

// fill puts content that begins at off into b.
func fill(b []byte, off int64) {
	for i := 0; i < len(b); {
		i += copy(b[i:], sample()[(off+int64(i))%period:])
	}
}

// verify says where b is not the content from off.
func verify(b []byte, off int64) error {
	for len(b) > 0 {
		want := sample()[off%period:]
		n := min(len(want), len(b))
		if !bytes.Equal(b[:n], want[:n]) {
			return status.Errorf(codes.DataLoss, "the %d bytes from %d are others", n, off)
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// side is an end of the connection: with this codec, or with the stock one where codec is nil.
type side struct {
	codec *Codec
	pool  mem.BufferPool
	check bool
}

// chunk is content of n bytes from off in buffers of the side's pool, in two pieces.
func (s side) chunk(off int64, n int) mem.BufferSlice {
	var out mem.BufferSlice
	for _, size := range []int{n / 3, n - n/3} {
		b := s.pool.Get(size)
		if s.check {
			fill(*b, off)
		}
		out = append(out, mem.NewBuffer(b, s.pool))
		off += int64(size)
	}
	return out
}

func (s side) send(stream interface{ SendMsg(any) error }, off int64, n int, wrap func([]byte) Outgoing) error {
	if s.codec == nil {
		b := make([]byte, n)
		if s.check {
			fill(b, off)
		}
		m := wrap(b)
		return stream.SendMsg(m.Message)
	}
	m := wrap(nil)
	m.Content = s.chunk(off, n)
	defer m.Free()
	return stream.SendMsg(&m)
}

// receive receives one message's content, and how long it is.
func (s side) receive(stream interface{ RecvMsg(any) error }, in *Incoming, off int64) (int, error) {
	var err error
	if s.codec == nil {
		err = stream.RecvMsg(in.Message)
	} else {
		err = stream.RecvMsg(in)
	}
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range in.Pieces(in.Message.(interface{ GetData() []byte }).GetData()) {
		if s.check {
			if err := verify(p.ReadOnlyData(), off+int64(n)); err != nil {
				return 0, err
			}
		}
		n += p.Len()
	}
	in.Free()
	return n, nil
}

// service gives and takes the tests' content.
type service struct {
	ctxfsv1.UnimplementedFsServiceServer
	side
	sending chan struct{} // told of each chunk, when it is not nil
	stalled bool          // receives nothing until its streams end
}

func readResponse(b []byte) Outgoing {
	return Outgoing{Message: &ctxfsv1.ReadStreamResponse{Event: &ctxfsv1.ReadStreamResponse_Data{Data: b}}}
}

func writeRequest(b []byte) Outgoing {
	return Outgoing{Message: &ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: b}}}
}

func (s *service) ReadStream(req *ctxfsv1.ReadStreamRequest, stream grpc.ServerStreamingServer[ctxfsv1.ReadStreamResponse]) error {
	chunk := int64(req.GetChunkSize())
	for off := int64(0); off <= req.GetEnd(); off += chunk {
		if s.sending != nil {
			s.sending <- struct{}{}
		}
		if err := s.send(stream, off, int(min(chunk, req.GetEnd()+1-off)), readResponse); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) WriteStream(stream grpc.ClientStreamingServer[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse]) error {
	if s.stalled {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	in := &Incoming{Message: &ctxfsv1.WriteStreamRequest{}}
	total := int64(0)
	for {
		n, err := s.receive(stream, in, total)
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&ctxfsv1.WriteStreamResponse{BytesWritten: total})
		}
		if err != nil {
			return err
		}
		total += int64(n)
	}
}

// connection is a server and a client on a unix socket.
type connection struct {
	service *service
	client  side
	rpc     ctxfsv1.FsServiceClient
	close   func()
}

func connect(t testing.TB, server, client side, opts ...grpc.DialOption) *connection {
	t.Helper()
	dir, err := os.MkdirTemp("", "cdc") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	serverOpts := []grpc.ServerOption{grpc.ReadBufferSize(128 << 10), grpc.WriteBufferSize(128 << 10), grpc.WaitForHandlers(true)}
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithReadBufferSize(128<<10), grpc.WithWriteBufferSize(128<<10))
	if server.codec != nil {
		serverOpts = append(serverOpts, grpc.ForceServerCodecV2(server.codec), experimental.BufferPool(server.pool))
	}
	if client.codec != nil {
		opts = append(opts, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(client.codec)), experimental.WithBufferPool(client.pool))
	}
	s := grpc.NewServer(serverOpts...)
	c := &connection{service: &service{side: server}, client: client}
	ctxfsv1.RegisterFsServiceServer(s, c.service)
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	cc, err := grpc.NewClient("unix://"+lis.Addr().String(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	c.rpc = ctxfsv1.NewFsServiceClient(cc)
	c.close = func() {
		_ = cc.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	}
	return c
}

func (c *connection) read(ctx context.Context, size, chunk int64, opts ...grpc.CallOption) error {
	end := size - 1
	stream, err := c.rpc.ReadStream(ctx, &ctxfsv1.ReadStreamRequest{End: &end, ChunkSize: int32(chunk)}, opts...)
	if err != nil {
		return err
	}
	in := &Incoming{Message: &ctxfsv1.ReadStreamResponse{}}
	defer in.Free()
	for total := int64(0); ; {
		n, err := c.client.receive(stream, in, total)
		if errors.Is(err, io.EOF) && total == size {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", total, err)
		}
		total += int64(n)
	}
}

func (c *connection) write(ctx context.Context, size, chunk int64, opts ...grpc.CallOption) error {
	stream, err := c.rpc.WriteStream(ctx, opts...)
	if err != nil {
		return err
	}
	for off := int64(0); off < size; off += chunk {
		if err := c.client.send(stream, off, int(min(chunk, size-off)), writeRequest); err != nil {
			return err
		}
	}
	r, err := stream.CloseAndRecv()
	if err == nil && r.GetBytesWritten() != size {
		err = fmt.Errorf("%d bytes arrived, want %d", r.GetBytesWritten(), size)
	}
	return err
}
