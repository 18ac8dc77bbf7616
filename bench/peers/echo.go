package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Echo is a gRPC service that does nothing: the limit of the transport. Its stat is a reply
// of a stat's size, its read one of 4 KiB.
type Echo struct{ goServer }

// Name implements Family.
func (*Echo) Name() string { return "echo" }

// Start implements Family.
func (e *Echo) Start(ctx context.Context, env Env) ([]*Peer, error) {
	if err := e.start(ctx, env, "echo"); err != nil {
		return nil, err
	}
	unix, tcp := "unix://"+e.socket, e.tcp
	var out []*Peer
	for _, p := range []struct {
		name, what, target string
		stream             bool
	}{
		{"echo-stream", "gRPC stream that does nothing, unix socket", unix, true},
		{"echo-stream-tcp", "gRPC stream that does nothing, TCP", tcp, true},
		{"echo-unary", "gRPC call that does nothing, unix socket", unix, false},
		{"echo-unary-tcp", "gRPC call that does nothing, TCP", tcp, false},
	} {
		out = append(out, &Peer{Name: p.name, What: p.what, Role: Limit, PIDs: e.pids(), Dial: func(ctx context.Context, n int) (Conn, error) {
			return dialEcho(ctx, p.target, p.stream, n)
		}})
	}
	return out, nil
}

// exchange sends one request of a worker and returns the reply's payload.
type exchange func(worker, size int) ([]byte, error)

type echoConn struct {
	cc       *grpc.ClientConn
	exchange exchange
	stop     func()
}

// dialEcho uses one connection, and with stream one stream for all workers. A single worker
// receives for itself; several share a goroutine that receives for all, by number.
func dialEcho(ctx context.Context, target string, stream bool, n int) (Conn, error) {
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithReadBufferSize(echoBuffer), grpc.WithWriteBufferSize(echoBuffer), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(echoReceive)))
	if err != nil {
		return nil, err
	}
	c := &echoConn{cc: cc, stop: func() {}}
	if !stream {
		c.exchange = c.call
		return c, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, echoStreamMethod, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		return nil, errors.Join(err, cc.Close())
	}
	if n == 1 {
		c.exchange, c.stop = func(_, size int) ([]byte, error) { return pingPong(s, size) }, cancel
		return c, nil
	}
	shared := newSharedStream(s, n)
	c.exchange, c.stop = shared.exchange, func() { cancel(); shared.wg.Wait() }
	return c, nil
}

func (c *echoConn) call(worker, size int) ([]byte, error) {
	var out wrapperspb.BytesValue
	err := c.cc.Invoke(context.Background(), echoUnaryMethod, echoRequest(uint32(worker), size), &out)
	return out.GetValue(), err
}

func pingPong(s grpc.ClientStream, size int) ([]byte, error) {
	if err := s.SendMsg(echoRequest(0, size)); err != nil {
		return nil, err
	}
	var out wrapperspb.BytesValue
	err := s.RecvMsg(&out)
	return out.GetValue(), err
}

// sharedStream is one stream for many workers: replies go to whoever's number they carry.
type sharedStream struct {
	mu      sync.Mutex
	stream  grpc.ClientStream
	replies []chan []byte
	wg      sync.WaitGroup
	err     error
}

func newSharedStream(s grpc.ClientStream, n int) *sharedStream {
	t := &sharedStream{stream: s, replies: make([]chan []byte, n)}
	for i := range t.replies {
		t.replies[i] = make(chan []byte, 1)
	}
	t.wg.Go(t.receive)
	return t
}

func (t *sharedStream) receive() {
	for {
		var out wrapperspb.BytesValue
		if err := t.stream.RecvMsg(&out); err != nil {
			t.err = err
			for _, c := range t.replies {
				close(c)
			}
			return
		}
		b := out.GetValue()
		t.replies[binary.BigEndian.Uint32(b)] <- b
	}
}

func (t *sharedStream) exchange(worker, size int) ([]byte, error) {
	t.mu.Lock()
	err := t.stream.SendMsg(echoRequest(uint32(worker), size))
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	b, ok := <-t.replies[worker]
	if !ok {
		return nil, errors.Join(io.ErrUnexpectedEOF, t.err)
	}
	return b, nil
}

// Close implements Conn.
func (c *echoConn) Close() error {
	c.stop()
	return c.cc.Close()
}

// Stat implements Stater.
func (c *echoConn) Stat(worker int, _ string) error {
	_, err := c.exchange(worker, echoStat)
	return err
}

// ReadFile implements FileReader.
func (c *echoConn) ReadFile(worker int, _ string) ([]byte, error) {
	b, err := c.exchange(worker, 4<<10)
	return b[min(len(b), echoHead):], err
}
