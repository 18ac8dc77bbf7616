package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime/debug"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
)

// errGone fails the calls to a runner that has ended, and the calls of a runner to a server that has ended.
var errGone = &fserr.Error{Code: fserr.EAGAIN, Detail: "the process that runs commands has ended", Hint: "try again"}

// backend is where calls go.
type backend interface {
	// conn returns the connection to the runner that answers a request, and the context of the call.
	conn(ctx context.Context, req proto.Message) (context.Context, grpc.ClientConnInterface, error)
	// invoke makes a unary call.
	invoke(ctx context.Context, method string, req, resp proto.Message) error
}

// front returns a service that passes every call of another to a backend, with the caller's identity. It knows no RPC by name.
func front(desc *grpc.ServiceDesc, b backend) (*grpc.ServiceDesc, error) {
	described, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(desc.ServiceName))
	if err != nil {
		return nil, err
	}
	service, ok := described.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, errors.New(desc.ServiceName + " is no service")
	}
	d := &grpc.ServiceDesc{ServiceName: desc.ServiceName, HandlerType: (*any)(nil), Metadata: desc.Metadata}
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
		if err != nil {
			return nil, err
		}
		out, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		if err != nil {
			return nil, err
		}
		r := &route{b, "/" + desc.ServiceName + "/" + string(m.Name()), in, out}
		if !m.IsStreamingClient() && !m.IsStreamingServer() {
			d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: string(m.Name()), Handler: r.unary})
			continue
		}
		sd := grpc.StreamDesc{StreamName: string(m.Name()), ClientStreams: m.IsStreamingClient(), ServerStreams: m.IsStreamingServer()}
		sd.Handler = func(_ any, stream grpc.ServerStream) error { return r.stream(sd, stream) }
		d.Streams = append(d.Streams, sd)
	}
	return d, nil
}

// route passes on the calls of one RPC.
type route struct {
	backend backend
	method  string
	in, out protoreflect.MessageType
}

func (r *route) unary(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	req := r.in.New().Interface()
	if err := decode(req); err != nil {
		return nil, err
	}
	pass := func(ctx context.Context, _ any) (any, error) {
		resp := r.out.New().Interface()
		if err := r.backend.invoke(withCaller(ctx), r.method, req, resp); err != nil {
			return nil, passed(ctx, err)
		}
		return resp, nil
	}
	if intercept == nil {
		return pass(ctx, req)
	}
	return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: r.method}, pass)
}

// stream passes on a call. If the runner ends before it sent anything, and the call may be repeated, the next runner answers it.
func (r *route) stream(desc grpc.StreamDesc, caller grpc.ServerStream) error {
	first := r.in.New().Interface()
	if err := caller.RecvMsg(first); err != nil {
		return err
	}
	begun, err := r.try(desc, caller, first)
	if !begun && isBroken(err) && method.Of(r.method).Repeatable(first) {
		_, err = r.try(desc, caller, first)
	}
	return passed(caller.Context(), err)
}

// try passes on a call, and reports whether the caller got a message.
func (r *route) try(desc grpc.StreamDesc, caller grpc.ServerStream, first proto.Message) (begun bool, err error) {
	ctx, cancel := context.WithCancel(withCaller(caller.Context()))
	defer cancel()
	ctx, cc, err := r.backend.conn(ctx, first)
	if err != nil {
		return false, err
	}
	callee, err := cc.NewStream(ctx, &desc, r.method)
	if err != nil {
		return false, err
	}
	if err := callee.SendMsg(first); err != nil && !errors.Is(err, io.EOF) { // after EOF, RecvMsg says what is wrong
		return false, err
	}
	if desc.ClientStreams {
		go r.send(caller, callee, cancel) // it ends with the caller's stream, at the latest
	} else if err := callee.CloseSend(); err != nil {
		return false, err
	}
	return r.receive(caller, callee)
}

// send passes on what the caller sends after its first message.
func (r *route) send(caller grpc.ServerStream, callee grpc.ClientStream, cancel context.CancelFunc) {
	for {
		m := r.in.New().Interface()
		err := caller.RecvMsg(m)
		if errors.Is(err, io.EOF) {
			_ = callee.CloseSend() // RecvMsg says if the stream has ended
			return
		}
		if err != nil {
			cancel()
			return
		}
		if callee.SendMsg(m) != nil {
			return // RecvMsg says why
		}
	}
}

// receive passes on what the runner sends, until its end. It reports whether it sent anything.
func (r *route) receive(caller grpc.ServerStream, callee grpc.ClientStream) (begun bool, err error) {
	for {
		m := r.out.New().Interface()
		switch err := callee.RecvMsg(m); {
		case errors.Is(err, io.EOF):
			return begun, nil
		case err != nil:
			return begun, err
		}
		if err := caller.SendMsg(m); err != nil {
			return begun, err
		}
		begun = true
	}
}

// passed returns the error of a call to a runner for the caller, whose context is ctx.
func passed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := fserrpb.FromContext(ctx); ended != nil {
		return fserrpb.ToStatus(ended)
	}
	if isBroken(err) {
		return fserrpb.ToStatus(errGone)
	}
	return fserrpb.ToStatus(err)
}

// isBroken reports whether an error is gRPC's own for a connection that broke, or was closed.
func isBroken(err error) bool {
	st := status.Convert(err)
	return (st.Code() == codes.Unavailable || st.Code() == codes.Canceled) && len(st.Details()) == 0
}

// callerKey is the metadata key of the caller's identity.
const callerKey = "ctxfs-identity-bin"

func withCaller(ctx context.Context) context.Context {
	data, err := json.Marshal(panels.IdentityFrom(ctx))
	if err != nil {
		return ctx // the runner refuses a call without an identity
	}
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(callerKey, string(data)))
}

// caller returns a context with the identity that the server passed, and with what other runners have. It fails if there is no identity: a call
// must not count as a host's by accident.
func caller(ctx context.Context) (context.Context, error) {
	var id panels.Identity
	values := metadata.ValueFromIncomingContext(ctx, callerKey)
	if len(values) != 1 || json.Unmarshal([]byte(values[0]), &id) != nil {
		return nil, status.Error(codes.PermissionDenied, "the call has no caller")
	}
	var others exec.Elsewhere
	if values := metadata.ValueFromIncomingContext(ctx, elsewhereKey); len(values) == 1 && json.Unmarshal([]byte(values[0]), &others) == nil {
		ctx = exec.WithElsewhere(ctx, others)
	}
	return panels.WithIdentity(ctx, id), nil
}

// elsewhereKey is the metadata key of what other runners have of the context of a start.
const elsewhereKey = "ctxfs-elsewhere-bin"

// withElsewhere adds what other runners have to the context of withCaller.
func withElsewhere(ctx context.Context, others exec.Elsewhere) (context.Context, error) {
	data, err := json.Marshal(others)
	return metadata.AppendToOutgoingContext(ctx, elsewhereKey, string(data)), err
}

// recovered is deferred: a panic fails the call that it is in, and not the runner with all its commands.
func recovered(log *zap.Logger, call string, err *error) {
	if p := recover(); p != nil {
		log.Error("a call panicked", zap.String("op", call), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		*err = fserrpb.ToStatus(&fserr.Error{Code: fserr.EIO, Detail: "internal error", Hint: "exec/runner.log in the server's state has the cause"})
	}
}

// asRunner has a server identify the caller of each call, and survive panics in calls.
func asRunner(log *zap.Logger) []grpc.ServerOption {
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
		defer recovered(log, info.FullMethod, &err)
		return handle(ctx, req)
	}
	stream := func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer recovered(log, info.FullMethod, &err)
		return handle(srv, stream)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary, asCaller), grpc.ChainStreamInterceptor(stream, asCallerStream)}
}

func asCaller(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func asCallerStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, err := caller(stream.Context())
	if err != nil {
		return err
	}
	return handle(srv, callerStream{stream, ctx})
}

// callerStream is a stream with the caller's identity.
type callerStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

// Context implements grpc.ServerStream.
func (s callerStream) Context() context.Context { return s.ctx }
