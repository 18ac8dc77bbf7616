package client

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// Protobuf's strings are UTF-8: a request with another text is not sent, and gRPC does not say which text it is. What may be other bytes, such
// as a path, travels in a raw field of the request instead.

// sayUnaryText is an interceptor that names the text of a request that is not UTF-8.
func sayUnaryText(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return textError(req, invoke(ctx, method, req, reply, cc, opts...))
}

// sayStreamText is sayUnaryText for streams.
func sayStreamText(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, d, cc, method, opts...)
	return textStream{stream}, err
}

type textStream struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream.
func (s textStream) SendMsg(m any) error { return textError(m, s.ClientStream.SendMsg(m)) }

// textError returns err, or EINVAL if the request was not sent since a text of it is not UTF-8.
func textError(req any, err error) error {
	m, ok := req.(proto.Message)
	if !ok || status.Code(err) != codes.Internal {
		return err
	}
	field, text, found := badText(m.ProtoReflect())
	if !found {
		return err
	}
	return fserrpb.ToStatus(&fserr.Error{
		Code: fserr.EINVAL, Detail: fmt.Sprintf("the %s %.200q is not UTF-8", strings.ReplaceAll(string(field), "_", " "), text), Hint: "write it in UTF-8, or rename what has such a name",
	})
}

// badText returns a text of a message that is not UTF-8, and its field.
func badText(m protoreflect.Message) (field protoreflect.Name, text string, found bool) {
	check := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
		switch {
		case found:
		case fd.Message() != nil:
			field, text, found = badText(v.Message())
		case fd.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
			field, text, found = fd.Name(), v.String(), true
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			for i := range v.List().Len() {
				check(fd, v.List().Get(i))
			}
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				check(fd.MapKey(), k.Value())
				check(fd.MapValue(), v)
				if found {
					field = fd.Name()
				}
				return !found
			})
		default:
			check(fd, v)
		}
		return !found
	})
	return field, text, found
}
