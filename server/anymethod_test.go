package server

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const testService = "ctxfs.test.v1.TestService"

type text = wrapperspb.StringValue

// testMethods are those of a service that the server knows nothing of but its proto. Each answers with its request's text, Twice
// with two messages.
var testMethods = map[string]*ctxfsv1.Method{
	"Read":   {Callers: ctxfsv1.Callers_CALLERS_PANEL, Effect: ctxfsv1.Effect_EFFECT_READS, Duration: ctxfsv1.Duration_DURATION_SHORT},
	"Change": {Callers: ctxfsv1.Callers_CALLERS_PANEL, Effect: ctxfsv1.Effect_EFFECT_CHANGES, Duration: ctxfsv1.Duration_DURATION_LONG},
	"Twice":  {Callers: ctxfsv1.Callers_CALLERS_PANEL, Effect: ctxfsv1.Effect_EFFECT_READS, Duration: ctxfsv1.Duration_DURATION_UNBOUNDED},
	"Host":   {Callers: ctxfsv1.Callers_CALLERS_HOST, Effect: ctxfsv1.Effect_EFFECT_READS, Duration: ctxfsv1.Duration_DURATION_SHORT},
	"Bare":   nil,
}

// addTestService declares the service, once for the process, and returns it.
func addTestService(t *testing.T) *grpc.ServiceDesc {
	t.Helper()
	desc := &grpc.ServiceDesc{ServiceName: testService, HandlerType: (*any)(nil)}
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String("TestService")}
	for name, options := range testMethods {
		m := &descriptorpb.MethodDescriptorProto{
			Name: &name, InputType: proto.String(".google.protobuf.StringValue"), OutputType: proto.String(".google.protobuf.StringValue"),
			Options: &descriptorpb.MethodOptions{}, ServerStreaming: proto.Bool(name == "Twice"),
		}
		if options != nil {
			proto.SetExtension(m.Options, ctxfsv1.E_Method, options)
		}
		service.Method = append(service.Method, m)
		if name == "Twice" {
			desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: twice})
			continue
		}
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: echo("/" + testService + "/" + name)})
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("ctxfs/test/v1/test.proto"), Package: proto.String("ctxfs.test.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto", "ctxfs/v1/options.proto"}, Service: []*descriptorpb.ServiceDescriptorProto{service},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protoregistry.GlobalFiles.FindFileByPath(file.Path()); errors.Is(err, protoregistry.NotFound) {
		if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return desc
}

func echo(method string) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
		in := new(text)
		if err := decode(in); err != nil {
			return nil, err
		}
		handle := func(_ context.Context, req any) (any, error) { return req, nil }
		if around == nil {
			return handle(ctx, in)
		}
		return around(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, handle)
	}
}

func twice(_ any, stream grpc.ServerStream) error {
	in := new(text)
	return errors.Join(stream.RecvMsg(in), stream.SendMsg(in), stream.SendMsg(in))
}

// way calls a method of the test service and returns the texts that it answers with.
type way func(method, in string) ([]string, error)

func byGRPC(t *testing.T, cc *grpc.ClientConn, token string) way {
	ctx := with(t, "authorization", bearerOf(token))
	return func(method, in string) (out []string, err error) {
		s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
		if err != nil {
			return nil, err
		}
		_ = s.SendMsg(wrapperspb.String(in)) // RecvMsg has the reason
		_ = s.CloseSend()
		for {
			m := new(text)
			if err := s.RecvMsg(m); err != nil {
				if status.Code(err) == codes.Unknown { // io.EOF
					err = nil
				}
				return out, err
			}
			out = append(out, m.GetValue())
		}
	}
}

func bySession(s *talk) way {
	return func(method, in string) (out []string, err error) {
		data, err := proto.Marshal(wrapperspb.String(in))
		s.must(err)
		s.id++
		s.must(s.say(&ctxfsv1.SessionRequest{Id: s.id, Request: &ctxfsv1.SessionRequest_Call{Call: &ctxfsv1.SessionCall{Method: method, Data: data}}}))
		for {
			m := s.next()
			if m.GetError() != nil {
				return out, fserrpb.FromSession(m.GetError())
			}
			if m.GetReply() != nil {
				r := new(text)
				s.must(proto.Unmarshal(m.GetReply().GetData(), r))
				out = append(out, r.GetValue())
			}
			if !m.GetMore() {
				return out, nil
			}
		}
	}
}

// TestAMethodNeedsItsProtoOnly adds a service to the server, and calls it by gRPC and by sessions.
func TestAMethodNeedsItsProtoOnly(t *testing.T) {
	t.Parallel()
	desc := addTestService(t)
	for name, begin := range map[string]func(t *testing.T, r *running, token string) way{
		"gRPC": func(t *testing.T, r *running, token string) way { return byGRPC(t, r.host(t), token) },
		"a gRPC session": func(t *testing.T, r *running, token string) way {
			return bySession(beginGRPC(t, r.Info().Addresses.TCP[0], token, ""))
		},
		"a WebSocket": func(t *testing.T, r *running, token string) way {
			return bySession(beginWeb(t, r.Info().Addresses.HTTP, token, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sessionConfig(t)
			cfg.AuditLog = filepath.Join(t.TempDir(), "audit")
			cfg.OperationsPerSecond = 6
			r := startWith(t, cfg, func(s *Server) { s.registry.RegisterService(desc, struct{}{}) })
			call := begin(t, r, r.openPanel(t, "p").GetToken())
			at := "/" + testService + "/"
			for _, c := range []struct {
				method string
				want   []string
				code   codes.Code
				words  string
			}{
				{"Read", []string{"a"}, codes.OK, ""},
				{"Change", []string{"a"}, codes.OK, ""},
				{"Twice", []string{"a", "a"}, codes.OK, ""},
				{"Host", nil, codes.PermissionDenied, "this call is for hosts"},
				{"Bare", nil, codes.PermissionDenied, "is open to nobody"},
				{"Nothing", nil, codes.Unimplemented, ""},
			} {
				got, err := call(at+c.method, "a")
				if !slices.Equal(got, c.want) || status.Code(err) != c.code || !strings.Contains(said(err), c.words) {
					t.Errorf("%s: %q, %v; want %q, %v, %q", c.method, got, err, c.want, c.code, c.words)
				}
			}
			limited := false
			for range 20 {
				_, err := call(at+"Read", "a")
				limited = limited || strings.Contains(said(err), "operations in a second")
			}
			if !limited {
				t.Error("its calls do not count for the panel's limit")
			}
			want := []string{"host||||OpenPanel|||p|ok", "panel|p|ctx_p|Change||||ok", "panel|p|ctx_p|Bare||||EACCES"}
			if got := audits(t, cfg.AuditLog); !slices.Equal(got[len(got)-2:], want[1:]) {
				t.Errorf("audited: %q, want %q", got, want)
			}
		})
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestASessionForAPanelHasItsRights has a host begin a session for a panel, whose messages it may forward without a look at them.
func TestASessionForAPanelHasItsRights(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	r.openPanel(t, "p")
	for panel, want := range map[string]codes.Code{"": codes.OK, "p": codes.PermissionDenied} {
		ctx := t.Context()
		if panel != "" {
			ctx = with(t, panelKey, panel)
		}
		stream, err := ctxfsv1.NewFsServiceClient(r.host(t)).Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s := (&talk{T: t, say: stream.Send, hear: stream.Recv}).open("", "")
		_, err = bySession(s)(ctxfsv1.ContextService_ListSnapshots_FullMethodName, "ctx_p")
		if got := status.Code(err); got != want {
			t.Errorf("a host's session for panel %q lists snapshots: %v, want %v", panel, err, want)
		}
	}
}
