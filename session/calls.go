package session

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// maxCallOverhead bounds what a call's request has besides its content, in bytes.
	maxCallOverhead = 64 << 10
	// smallOverhead is what a request may take besides its content, in bytes, before it counts as content too: decoded, the smallest WriteFile
	// takes 300.
	smallOverhead = 512
	// firstContent is the number from which a message's fields are content: data and text.
	firstContent protowire.Number = 100
	// leastPooled and mostPooled are the sizes of replies, in bytes, that are encoded in buffers which are used again once the link
	// has sent them. A link may keep larger ones for longer; smaller ones cost less than a buffer.
	leastPooled, mostPooled = 1 << 10, 8 << 10
)

// Calls has the RPCs that sessions may call, by full name.
type Calls struct {
	codec *codec.Codec
	rpcs  map[string]*rpc
}

// NewCalls returns an empty set. c decodes requests.
func NewCalls(c *codec.Codec) *Calls { return &Calls{c, map[string]*rpc{}} }

// rpc is an RPC that sessions may call.
type rpc struct {
	codec  *codec.Codec
	method *method.Method
	impl   any
	unary  grpc.MethodHandler
	stream grpc.StreamHandler
	// fd is the number of the request's field of that name, 0 when it has none.
	fd protowire.Number
	// heavy says that a response may be larger than budget.Small.
	heavy bool
}

// RegisterService implements grpc.ServiceRegistrar. It adds the RPCs of a service that are unary or stream their response. It adds
// none that stream content: their chunks would wait in the session outside the memory budget. It must not be called once there
// are sessions.
func (c *Calls) RegisterService(desc *grpc.ServiceDesc, impl any) {
	add := func(name string, r *rpc) {
		r.method = method.Of("/" + desc.ServiceName + "/" + name)
		if r.method.Limit() == ctxfsv1.Limit_LIMIT_SESSIONS {
			return
		}
		r.codec, r.impl = c.codec, impl
		in, out := r.method.Desc.Input(), r.method.Desc.Output()
		if r.stream != nil && out.Fields().ByNumber(firstContent) != nil {
			return
		}
		if fd := in.Fields().ByName("fd"); fd != nil {
			r.fd = fd.Number()
		}
		r.heavy = r.stream != nil || isLarge(out)
		c.rpcs[r.method.Name] = r
	}
	for _, m := range desc.Methods {
		add(m.MethodName, &rpc{unary: m.Handler})
	}
	for _, s := range desc.Streams {
		if !s.ClientStreams {
			add(s.StreamName, &rpc{stream: s.Handler})
		}
	}
}

// isLarge reports whether a message has content or a repeated field.
func isLarge(m protoreflect.MessageDescriptor) bool {
	for i := range m.Fields().Len() {
		if f := m.Fields().Get(i); f.IsList() || f.Number() >= firstContent {
			return true
		}
	}
	return false
}

// call runs an RPC, or starts a goroutine that does.
func (se *session) call(id uint64, c *ctxfsv1.SessionCall, rest []*ctxfsv1.SessionRequest) (replaced bool, err error) {
	r := se.server.cfg.Calls.rpcs[c.GetMethod()]
	switch {
	case id == 0:
		return false, fserr.Invalid("a call's id is 0")
	case r == nil:
		return false, se.reply(id, nil, nil, &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: fmt.Sprintf("a session has no RPC %.100q", c.GetMethod()),
			Hint: `it calls RPCs of this server by full name ("/ctxfs.v1.FsService/Stat") that stream neither requests nor content`,
		})
	case len(c.GetData()) > maxContent+maxCallOverhead:
		return false, se.reply(id, nil, nil, errTooMuchContent)
	}
	t := &task{method: r.method, long: !r.method.Short(), heavy: r.heavy, id: id, fd: r.fdOf(c.GetData()), window: newWindow(c.GetWindow())}
	t.do = func(ctx context.Context, begin func(any), send func(*ctxfsv1.SessionResponse) error) (*ctxfsv1.SessionResponse, any, error) {
		if r.stream != nil {
			return &ctxfsv1.SessionResponse{}, nil, r.stream(r.impl, &callStream{ctx: ctx, rpc: r, data: c.GetData(), begin: begin, send: send})
		}
		m, err := r.call(ctx, c.GetData(), begin)
		if err != nil {
			return nil, nil, err
		}
		res, err := r.reply(m)
		return res, m, err
	}
	n := len(c.GetData())
	decodes, err := codec.FootprintBytes(c.GetData(), r.method.Desc.Input())
	if err != nil {
		return false, se.reply(id, nil, nil, err)
	}
	return se.start(t, max(int64(n), decodes)-smallOverhead, rest)
}

// fdOf returns the handle that an encoded request names; 0 when it names none or is malformed.
func (r *rpc) fdOf(data []byte) (fd int32) {
	for r.fd != 0 && len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return 0
		}
		data = data[n:]
		if number == r.fd && kind == protowire.VarintType {
			v, n := protowire.ConsumeVarint(data)
			if n < 0 {
				return 0
			}
			fd, data = int32(v), data[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return 0
		}
		data = data[n:]
	}
	return fd
}

// call calls a unary RPC.
func (r *rpc) call(ctx context.Context, data []byte, begin func(any)) (any, error) {
	return r.unary(r.impl, ctx, func(into any) error { return r.decode(data, into) },
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			begin(req)
			return handler(ctx, req)
		})
}

func (r *rpc) decode(data []byte, into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return fmt.Errorf("a request of %s is %T, no message", r.method.Name, into)
	}
	if err := r.codec.UnmarshalOwned(data, m); err != nil {
		return fserr.Invalid("the request of %s cannot be decoded: %v", r.method.Name, err)
	}
	return nil
}

// reply encodes a response.
func (r *rpc) reply(response any) (*ctxfsv1.SessionResponse, error) {
	m, ok := response.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("a response of %s is %T, no message", r.method.Name, response)
	}
	size := proto.Size(m)
	var b []byte
	if size >= leastPooled && size < mostPooled {
		b = (*r.codec.Buffers().Get(size))[:0]
	}
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		return nil, err
	}
	return &ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{Data: data}}}, nil
}

// recycle reuses the buffer of a reply that was sent.
func (c *Calls) recycle(m *ctxfsv1.SessionResponse) {
	if data := m.GetReply().GetData(); len(data) >= leastPooled && len(data) < mostPooled {
		c.codec.Buffers().Put(&data)
	}
}

// callStream is the stream of an RPC that a session calls. It receives one request.
type callStream struct {
	grpc.ServerStream
	ctx   context.Context //nolint:containedctx // grpc.ServerStream has it
	rpc   *rpc
	data  []byte
	begin func(any)
	send  func(*ctxfsv1.SessionResponse) error
}

// Context implements grpc.ServerStream.
func (s *callStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *callStream) RecvMsg(m any) error {
	if err := s.rpc.decode(s.data, m); err != nil {
		return err
	}
	s.begin(m)
	return nil
}

// SendMsg implements grpc.ServerStream.
func (s *callStream) SendMsg(m any) error {
	o, ok := m.(*codec.Outgoing)
	if !ok {
		o = &codec.Outgoing{Message: m.(proto.Message)} //nolint:forcetypeassert // a handler sends nothing else
	}
	defer o.Free()
	part, err := s.encode(o)
	if err == nil {
		err = s.send(part)
	}
	if o.Written != nil {
		o.Written()
	}
	return err
}

func (s *callStream) encode(o *codec.Outgoing) (*ctxfsv1.SessionResponse, error) {
	if o.Content.Len() == 0 {
		return s.rpc.reply(o.Message)
	}
	pieces, err := s.rpc.codec.Marshal(o)
	if err != nil {
		return nil, err
	}
	defer pieces.Free()
	return &ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{Data: pieces.Materialize()}}}, nil
}
