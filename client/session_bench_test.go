package client_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// BenchmarkStat asks for attributes over a unix socket, one caller and 32 at once: by a
// session, by RPCs of their own, and, as the transport's limit, a stream that answers
// each message with one of the same size and does nothing else.
func BenchmarkStat(b *testing.B) {
	address := servertest.Start(b, servertest.Workspace(b), nil)
	for _, c := range []struct {
		name string
		opts []client.Option
	}{{"session", nil}, {"unary", []client.Option{client.WithoutSession()}}} {
		f := benchFS(b, append(c.opts, client.WithAddress(address), client.WithPanel("panels/bench"))...)
		stat := func() error { _, err := f.Stat("README.md"); return err }
		b.Run(c.name+"/1", func(b *testing.B) { callers(b, 1, stat) })
		b.Run(c.name+"/32", func(b *testing.B) { callers(b, 32, stat) })
	}
	address = echoServer(b)
	b.Run("echo/1", func(b *testing.B) { echo(b, address, 1) })
	b.Run("echo/32", func(b *testing.B) { echo(b, address, 32) })
}

func benchFS(b *testing.B, opts ...client.Option) *client.FS {
	b.Helper()
	c, err := client.Dial(b.Context(), opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	if _, err := c.FS().Stat("README.md"); err != nil {
		b.Fatal(err)
	}
	return c.FS()
}

// callers has n goroutines do b.N calls in all.
func callers(b *testing.B, n int, call func() error) {
	b.ReportAllocs()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				start := time.Now()
				if err := call(); err != nil {
					b.Error(err)
					return
				}
				took[i-1] = time.Since(start)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[b.N/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[b.N*99/100].Nanoseconds()), "p99-ns")
}

var echoStream = grpc.StreamDesc{
	StreamName: "Echo", ServerStreams: true, ClientStreams: true,
	Handler: func(_ any, s grpc.ServerStream) error {
		reply := &ctxfsv1.StatResponse{Stat: &ctxfsv1.Stat{
			Dev: 2049, Ino: 1 << 20, Mode: 0o100644, Nlink: 1, Uid: 1000, Gid: 1000, Size: 14, Blksize: 4096, Blocks: 8,
			AtimeNs: 1 << 60, MtimeNs: 1 << 60, CtimeNs: 1 << 60, BirthtimeNs: 1 << 60,
		}}
		for {
			if err := s.RecvMsg(&ctxfsv1.StatRequest{}); err != nil {
				return nil //nolint:nilerr // the client is gone
			}
			if err := s.SendMsg(reply); err != nil {
				return err
			}
		}
	},
}

func echoServer(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "echo.sock")
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "unix", path)
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer(grpc.ReadBufferSize(128<<10), grpc.WriteBufferSize(128<<10))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{echoStream}}, struct{}{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	b.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // it may not have begun
			b.Error(err)
		}
	})
	return "unix://" + path
}

// echo keeps inFlight messages on their way on one stream.
func echo(b *testing.B, address string, inFlight int) {
	b.ReportAllocs()
	cc, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithReadBufferSize(128<<10), grpc.WithWriteBufferSize(128<<10))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	stream, err := cc.NewStream(b.Context(), &echoStream, "/echo/Echo")
	if err != nil {
		b.Fatal(err)
	}
	room := make(chan struct{}, inFlight)
	sent := make(chan error, 1)
	if inFlight == 1 {
		callers(b, 1, func() error {
			return errors.Join(stream.SendMsg(&ctxfsv1.StatRequest{Path: "/README.md"}), stream.RecvMsg(&ctxfsv1.StatResponse{}))
		})
		return
	}
	go func() {
		var err error
		for i := 0; i < b.N && err == nil; i++ {
			room <- struct{}{}
			err = stream.SendMsg(&ctxfsv1.StatRequest{Path: "/README.md"})
		}
		sent <- errors.Join(err, stream.CloseSend())
	}()
	for range b.N {
		if err := stream.RecvMsg(&ctxfsv1.StatResponse{}); err != nil {
			b.Fatal(err)
		}
		<-room
	}
	if err := <-sent; err != nil && !errors.Is(err, io.EOF) {
		b.Fatal(err)
	}
}
