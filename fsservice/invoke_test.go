package fsservice_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// methods returns FsService's methods as its descriptor has them.
func methods() []protoreflect.MethodDescriptor {
	list := ctxfsv1.File_ctxfs_v1_fs_proto.Services().ByName("FsService").Methods()
	all := make([]protoreflect.MethodDescriptor, 0, list.Len())
	for i := range list.Len() {
		all = append(all, list.Get(i))
	}
	return all
}

func newMessage(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return typ.New().Interface()
}

// invoke calls a method with a request and returns its replies: all of a stream's,
// but only the first of Watch, which does not end. The requests of WriteStream and Import are their opens.
func (w *world) invoke(ctx context.Context, m protoreflect.MethodDescriptor, req proto.Message) ([]proto.Message, error) {
	w.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := []reflect.Value{reflect.ValueOf(ctx)}
	if !m.IsStreamingClient() {
		in = append(in, reflect.ValueOf(req))
	}
	out := reflect.ValueOf(w.client).MethodByName(string(m.Name())).Call(in)
	if err, _ := out[1].Interface().(error); err != nil {
		return nil, err
	}
	stream, ok := out[0].Interface().(grpc.ClientStream)
	if !ok {
		reply, _ := out[0].Interface().(proto.Message)
		return []proto.Message{reply}, nil
	}
	if open, ok := req.(*ctxfsv1.WriteStreamOpen); ok {
		w.must(stream.SendMsg(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: open}}))
		w.must(stream.CloseSend())
	}
	if open, ok := req.(*ctxfsv1.ImportOpen); ok {
		_ = stream.SendMsg(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: open}})               // RecvMsg says why not
		_ = stream.SendMsg(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: make([]byte, 1024)}}) // an empty tar
		w.must(stream.CloseSend())
	}
	return w.receive(stream, m)
}

func (w *world) receive(stream grpc.ClientStream, m protoreflect.MethodDescriptor) (replies []proto.Message, err error) {
	w.Helper()
	for {
		reply := newMessage(w.T, m.Output())
		if err := stream.RecvMsg(reply); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return replies, err
		}
		replies = append(replies, reply)
		if m.Name() == "Watch" || !m.IsStreamingServer() {
			return replies, nil
		}
	}
}

// whole asks and takes replies to the last; of a watch, which does not end, the first.
func (t *talk) whole(op proto.Message) (replies []proto.Message, err error) {
	t.Helper()
	id := t.ask(op)
	for {
		m := t.recv()
		switch {
		case m.GetId() != id:
			return nil, fmt.Errorf("message about %d, want %d: %v", m.GetId(), id, m)
		case m.GetError() != nil:
			return nil, fserrpb.FromSession(m.GetError())
		}
		if reply := sessiontest.ResultOf(m).To(op); reply != nil {
			replies = append(replies, reply)
		}
		if _, watch := op.(*ctxfsv1.WatchRequest); !m.GetMore() || watch {
			return replies, nil
		}
	}
}
