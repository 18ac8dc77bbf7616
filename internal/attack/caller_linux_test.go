package attack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// caller makes calls as the attacker, and checks all that comes back.
type caller interface {
	// call returns the replies; of a watch, which does not end, the first.
	call(r request) ([]proto.Message, error)
}

// newCaller makes calls as p.
func (w *world) newCaller(transport string, p panel) caller {
	w.Helper()
	plain := &grpcCaller{w, w.cc}
	switch transport {
	case "json":
		return &grpcCaller{w, &jsonConn{w, w.cc}}
	case "session":
		stream, err := ctxfsv1.NewFsServiceClient(w.cc).Session(p.ctx)
		w.must(err)
		return w.beginSession(plain, stream, &ctxfsv1.SessionOpen{})
	case "websocket":
		ws, _, err := websocket.Dial(w.Context(), "ws://"+w.server.Info().Addresses.HTTP+"/v1/session", nil)
		w.must(err)
		ws.SetReadLimit(64 << 20)
		w.Cleanup(func() { _ = ws.CloseNow() })
		return w.beginSession(plain, &socket{ws}, &ctxfsv1.SessionOpen{Token: p.token})
	}
	return plain
}

func newMessage(d protoreflect.MessageDescriptor) (proto.Message, error) {
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return typ.New().Interface(), nil
}

// grpcCaller makes each call an RPC.
type grpcCaller struct {
	w  *world
	cc grpc.ClientConnInterface
}

func (c *grpcCaller) call(r request) (replies []proto.Message, err error) {
	ctx, cancel := context.WithTimeout(c.w.attacker.ctx, patience)
	defer cancel()
	var header, trailer metadata.MD
	method := fmt.Sprintf("/%s/%s", r.method.Parent().FullName(), r.method.Name())
	if r.method.IsStreamingServer() || r.method.IsStreamingClient() {
		replies, trailer, err = c.stream(ctx, method, r)
	} else {
		var reply proto.Message
		if reply, err = newMessage(r.method.Output()); err != nil {
			return nil, err
		}
		if err = c.cc.Invoke(ctx, method, r.msg, reply, grpc.Header(&header), grpc.Trailer(&trailer)); err == nil {
			replies = []proto.Message{reply}
		}
	}
	c.w.checkBytes(r.name()+"'s metadata", []byte(fmt.Sprint(header, trailer)))
	return c.w.checked(r, replies, err)
}

// stream makes a streaming call, and ends it when the replies have.
func (c *grpcCaller) stream(ctx context.Context, method string, r request) (replies []proto.Message, trailer metadata.MD, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range sentOf(r.msg) {
		if err := s.SendMsg(m); err != nil {
			break // RecvMsg says why
		}
	}
	_ = s.CloseSend() // RecvMsg says why
	for {
		reply, err := newMessage(r.method.Output())
		if err == nil {
			err = s.RecvMsg(reply)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return replies, s.Trailer(), err
		}
		replies = append(replies, reply)
		if r.watches() {
			return replies, nil, nil
		}
	}
}

// sentOf returns the messages of a call whose request, or the open of it, is msg. What is imported is an archive of one file.
func sentOf(msg proto.Message) []proto.Message {
	switch open := msg.(type) {
	case *ctxfsv1.WriteStreamOpen:
		return []proto.Message{
			&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: open}},
			&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: []byte("attacked")}},
		}
	case *ctxfsv1.ImportOpen:
		return []proto.Message{
			&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: open}},
			&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: tarOf("imported", "attacked")}},
		}
	}
	return []proto.Message{msg}
}

// tarOf returns a tar archive of one file.
func tarOf(name, content string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer does not fail
	}
	return out.Bytes()
}

// checked looks into what a call returned.
func (w *world) checked(r request, replies []proto.Message, err error) ([]proto.Message, error) {
	for _, m := range replies {
		w.checkReply(r.name()+"'s reply", m)
	}
	if err != nil {
		st := status.Convert(err)
		w.checkReply(r.name()+"'s error", st.Proto())
		// Of what the naive rootfs answers, only what gets out counts.
		if e, ok := fserrpb.FromStatus(err); w.cfg.open == nil && (!ok || e.Code == fserr.ETIMEDOUT || e.Code == fserr.EIO) {
			w.leak("%s: %v is no refusal", r.name(), err)
		}
	}
	return replies, err
}

// link is a session's stream.
type link interface {
	Send(*ctxfsv1.SessionRequest) error
	Recv() (*ctxfsv1.SessionResponse, error)
}

// sessionCaller makes calls by a session, and those that it does not take as RPCs.
type sessionCaller struct {
	w     *world
	plain *grpcCaller
	link  link
	id    uint64
}

func (w *world) beginSession(plain *grpcCaller, l link, open *ctxfsv1.SessionOpen) *sessionCaller {
	w.Helper()
	w.must(openSession(l, open))
	return &sessionCaller{w: w, plain: plain, link: l, id: 1}
}

func openSession(l link, open *ctxfsv1.SessionOpen) error {
	if err := l.Send(&ctxfsv1.SessionRequest{Id: 1, Request: &ctxfsv1.SessionRequest_Open{Open: open}}); err != nil {
		return err
	}
	ready, err := l.Recv()
	if err == nil && ready.GetReady() == nil {
		err = fmt.Errorf("the session did not begin: %v", ready)
	}
	return err
}

func (c *sessionCaller) call(r request) ([]proto.Message, error) {
	if sessiontest.MethodOf(r.msg) == nil {
		return c.plain.call(r)
	}
	c.id++
	if err := c.link.Send(sessiontest.Call(c.id, r.msg)); err != nil {
		return nil, err
	}
	replies, err := c.replies(c.id, r)
	if r.watches() && err == nil {
		watch := c.id
		c.id++
		if err := c.link.Send(&ctxfsv1.SessionRequest{Id: watch, Request: &ctxfsv1.SessionRequest_Cancel{Cancel: &ctxfsv1.SessionCancel{}}}); err != nil {
			return nil, err
		}
	}
	return c.w.checked(r, replies, err)
}

// replies takes those to one operation, passing over late ones to others.
func (c *sessionCaller) replies(id uint64, r request) (replies []proto.Message, err error) {
	for {
		m, err := c.link.Recv()
		if err != nil {
			return nil, err
		}
		c.w.checkReply(r.name()+" in a session", m)
		switch {
		case m.GetId() != id:
			continue
		case m.GetError() != nil:
			return nil, fserrpb.ToStatus(fserrpb.FromSession(m.GetError()))
		case m.GetClosing() != nil:
			return nil, fmt.Errorf("the session was closed: %v", m)
		}
		if reply := sessiontest.ResultOf(m).To(r.msg); reply != nil {
			replies = append(replies, reply)
		}
		if !m.GetMore() || r.watches() {
			return replies, nil
		}
	}
}

// socket is a session's link over a WebSocket.
type socket struct{ ws *websocket.Conn }

func (s *socket) Send(m *ctxfsv1.SessionRequest) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return s.ws.Write(context.Background(), websocket.MessageBinary, data)
}

func (s *socket) Recv() (*ctxfsv1.SessionResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, data, err := s.ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	m := &ctxfsv1.SessionResponse{}
	return m, proto.Unmarshal(data, m)
}
