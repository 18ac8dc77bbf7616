package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The echo's messages are one bytes field each. A request is the number that the reply
// carries again, the size of the reply's payload, and as many bytes as a path takes.
const (
	echoHead = 8
	// echoPath and echoStat are what a path and a reply with attributes take on the wire.
	echoPath, echoStat = 40, 90
	// echoBuffer and echoReceive are ctxfs's own settings (server/compose.go, client/client.go).
	echoBuffer  = 128 << 10
	echoReceive = 17 << 20
)

const (
	echoUnaryMethod  = "/bench.Echo/Unary"
	echoStreamMethod = "/bench.Echo/Stream"
)

func echoRequest(id uint32, size int) *wrapperspb.BytesValue {
	b := make([]byte, echoHead+echoPath)
	binary.BigEndian.PutUint32(b, id)
	binary.BigEndian.PutUint32(b[4:], uint32(size))
	return &wrapperspb.BytesValue{Value: b}
}

func echoReply(in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	b := in.GetValue()
	if len(b) < echoHead {
		return nil, errors.New("a request without its head")
	}
	size := binary.BigEndian.Uint32(b[4:])
	if size > echoReceive {
		return nil, fmt.Errorf("a reply of %d bytes is too large", size)
	}
	out := make([]byte, echoHead+int(size))
	copy(out, b[:echoHead])
	return &wrapperspb.BytesValue{Value: out}, nil
}

func echoUnary(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var in wrapperspb.BytesValue
	if err := decode(&in); err != nil {
		return nil, err
	}
	return echoReply(&in)
}

// echoStream answers where it receives, in order.
func echoStream(_ any, s grpc.ServerStream) error {
	for {
		var in wrapperspb.BytesValue
		if err := s.RecvMsg(&in); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		out, err := echoReply(&in)
		if err != nil {
			return err
		}
		if err := s.SendMsg(out); err != nil {
			return err
		}
	}
}

func echoService() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "bench.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: echoUnary}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", Handler: echoStream, ServerStreams: true, ClientStreams: true}},
	}
}

func serveEcho(ls []net.Listener, _ string) error {
	s := grpc.NewServer(grpc.ReadBufferSize(echoBuffer), grpc.WriteBufferSize(echoBuffer), grpc.MaxRecvMsgSize(echoReceive))
	s.RegisterService(echoService(), nil)
	var g errgroup.Group
	for _, l := range ls {
		g.Go(func() error { return s.Serve(l) })
	}
	return g.Wait()
}
