package server

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// begin opens a session at addr with a panel's token.
type begin func(t *testing.T, addr, token, instance string) *talk

// overBoth runs f for a session by gRPC and one by WebSocket. addr picks the server's address for it.
func overBoth(t *testing.T, f func(t *testing.T, begin begin, addr func(*running) string)) {
	t.Helper()
	t.Run("grpc", func(t *testing.T) {
		f(t, beginGRPC, func(r *running) string { return r.Info().Addresses.TCP[0] })
	})
	t.Run("websocket", func(t *testing.T) {
		f(t, beginWeb, func(r *running) string { return r.Info().Addresses.HTTP })
	})
}

func beginGRPC(t *testing.T, addr, token, instance string) *talk {
	t.Helper()
	return beginOn(t, dial(t, addr, nil), token, instance)
}

func beginOn(t *testing.T, cc *grpc.ClientConn, token, instance string) *talk {
	t.Helper()
	ctx, cut := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "authorization", bearerOf(token)))
	t.Cleanup(cut)
	stream, err := ctxfsv1.NewFsServiceClient(cc).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &talk{T: t, say: stream.Send, hear: stream.Recv, cut: func() {
		cut()
		_ = cc.Close()
	}}
	return s.open(instance, "")
}

// refresh sends a further token and returns the server's answer.
func (s *talk) refresh(token string) *ctxfsv1.SessionResponse {
	s.Helper()
	m, err := s.tryRefresh(token)
	if m == nil {
		s.Fatal(err)
	}
	return m
}

// tryRefresh is refresh, and returns the error of what the server answered.
func (s *talk) tryRefresh(token string) (*ctxfsv1.SessionResponse, error) {
	s.Helper()
	s.id++
	err := s.say(&ctxfsv1.SessionRequest{Id: s.id, Request: &ctxfsv1.SessionRequest_RefreshToken{
		RefreshToken: &ctxfsv1.SessionRefreshToken{Token: token},
	}})
	if err != nil {
		return nil, fmt.Errorf("the session has expired: %w", err)
	}
	m, err := s.hear()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the session has expired: %w", err)
	case m.GetError() != nil:
		return m, fserrpb.FromSession(m.GetError())
	case m.GetClosing() != nil:
		return m, fserrpb.FromSession(m.GetClosing().GetError())
	}
	return m, nil
}

func opWrite(fd int32, text string) proto.Message {
	return &ctxfsv1.WriteRequest{
		Fd: fd, Content: &ctxfsv1.WriteRequest_Text{Text: text},
	}
}

func opFstat(fd int32) proto.Message {
	return &ctxfsv1.FstatRequest{Fd: fd}
}

func opGrep(pattern string) proto.Message {
	return &ctxfsv1.GrepRequest{Pattern: pattern}
}
