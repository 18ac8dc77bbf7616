package cli

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lateStream is a reflection stream that the server has refused before its client sends anything.
type lateStream struct{ grpc.ClientStream }

func (lateStream) SendMsg(any) error { return io.EOF }
func (lateStream) RecvMsg(any) error { return status.Error(codes.PermissionDenied, "not for panels") }

// lateConn answers every stream with a lateStream. A real server loses this race only now and then.
type lateConn struct{ grpc.ClientConnInterface }

func (lateConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return lateStream{}, nil
}

func TestRefusedReflectionFallsBackToBuiltInMethods(t *testing.T) {
	m, err := findMethod(t.Context(), lateConn{}, "exists")
	if err != nil || m.FullName() != "ctxfs.v1.FsService.Exists" {
		t.Errorf("findMethod returned %v, %v", m, err)
	}
}
