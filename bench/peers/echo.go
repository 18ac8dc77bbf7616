package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The echo's messages are one bytes field each. A request is a number, which the reply carries again, the size of the reply's payload, and as
// many bytes as a path takes.
const (
	echoHead = 8
	// echoPath and echoStat are what a path and a reply with attributes take on the wire.
	echoPath, echoStat = 40, 90
	// echoBuffer and echoReceive are ctxfs's own settings (server/compose.go, client/client.go).
	echoBuffer  = 128 << 10
	echoReceive = 17 << 20
	echoMethod  = "/bench.Echo/Stream"
)

// startEcho is a gRPC stream that does nothing: the limit of the transport. Its stat is a reply of a stat's size, its read one of 4 KiB.
func startEcho(ctx context.Context, e *Env) ([]*Peer, error) {
	s, err := e.goServer(ctx, "echo")
	if err != nil {
		return nil, err
	}
	var out []*Peer
	for _, p := range [][3]string{{"echo-stream", "unix socket", "unix://" + s.socket}, {"echo-stream-tcp", "TCP", s.tcp}} {
		out = append(out, &Peer{Name: p[0], What: "gRPC stream that does nothing, " + p[1], Role: Limit, PIDs: s.pids, Dial: func(ctx context.Context, n int) (*Conn, error) {
			return dialEcho(ctx, p[2], n)
		}})
	}
	return out, nil
}

// dialEcho uses one stream for all workers. A single worker receives for itself; several share a goroutine that receives for all, by number.
func dialEcho(ctx context.Context, target string, n int) (*Conn, error) {
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithReadBufferSize(echoBuffer),
		grpc.WithWriteBufferSize(echoBuffer), grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(echoReceive)))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, echoMethod, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		return nil, errors.Join(err, cc.Close())
	}
	t := &echoStream{stream: s, replies: make([]chan []byte, n)}
	for i := range t.replies {
		t.replies[i] = make(chan []byte, 1)
	}
	if n > 1 {
		t.wg.Go(t.receive)
	}
	return &Conn{
		Close: func() error { cancel(); t.wg.Wait(); return cc.Close() },
		Stat:  func(worker int, _ string) error { return only(t.exchange(worker, echoStat)) },
		Read:  func(worker int, _ string) ([]byte, error) { return t.exchange(worker, 4<<10) },
	}, nil
}

// echoStream is one stream for many workers: each gets the replies that carry its number.
type echoStream struct {
	mu      sync.Mutex
	stream  grpc.ClientStream
	replies []chan []byte
	wg      sync.WaitGroup
	err     error
}

func (t *echoStream) receive() {
	for {
		var out wrapperspb.BytesValue
		if t.err = t.stream.RecvMsg(&out); t.err != nil {
			for _, c := range t.replies {
				close(c)
			}
			return
		}
		t.replies[binary.BigEndian.Uint32(out.GetValue())] <- out.GetValue()
	}
}

// exchange sends a request of a worker and returns the reply's payload.
func (t *echoStream) exchange(worker, size int) ([]byte, error) {
	b := make([]byte, echoHead+echoPath)
	binary.BigEndian.PutUint32(b, uint32(worker))
	binary.BigEndian.PutUint32(b[4:], uint32(size))
	t.mu.Lock()
	err := t.stream.SendMsg(&wrapperspb.BytesValue{Value: b})
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if len(t.replies) == 1 {
		var out wrapperspb.BytesValue
		err := t.stream.RecvMsg(&out)
		b := out.GetValue()
		return b[min(len(b), echoHead):], err
	}
	b, ok := <-t.replies[worker]
	if !ok {
		return nil, errors.Join(io.ErrUnexpectedEOF, t.err)
	}
	return b[echoHead:], nil
}

// answerEcho answers where it receives, in order.
func answerEcho(_ any, s grpc.ServerStream) error {
	for {
		var in wrapperspb.BytesValue
		if err := s.RecvMsg(&in); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		b := in.GetValue()
		if len(b) < echoHead || binary.BigEndian.Uint32(b[4:]) > echoReceive {
			return errors.New("a request without its head, or for a reply that is too large")
		}
		out := make([]byte, echoHead+int(binary.BigEndian.Uint32(b[4:])))
		copy(out, b[:echoHead])
		if err := s.SendMsg(&wrapperspb.BytesValue{Value: out}); err != nil {
			return err
		}
	}
}

func serveEcho(ls []net.Listener, _ string) error {
	s := grpc.NewServer(grpc.ReadBufferSize(echoBuffer), grpc.WriteBufferSize(echoBuffer), grpc.MaxRecvMsgSize(echoReceive))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Stream", Handler: answerEcho, ServerStreams: true, ClientStreams: true}},
	}, nil)
	return serveAll(ls, s.Serve)
}
