package scale

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// sessions are open sessions, and the connections they run on.
type sessions struct {
	address string
	conns   []*grpc.ClientConn
	cancel  []context.CancelFunc
}

// dial adds a connection.
func (s *sessions) dial() error {
	cc, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	s.conns = append(s.conns, cc)
	return nil
}

// open begins a session of the token's panel on the last connection, and waits until it is open.
func (s *sessions) open(ctx context.Context, token string) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)) //nolint:gosec // close calls it
	s.cancel = append(s.cancel, cancel)
	stream, err := ctxfsv1.NewFsServiceClient(s.conns[len(s.conns)-1]).Session(ctx, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	open := &ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{Batches: true}}}
	if err := stream.Send(open); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	if _, err := stream.Recv(); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	return nil
}

// close ends them all.
func (s *sessions) close() {
	for _, c := range s.cancel {
		c()
	}
	for _, cc := range s.conns {
		_ = cc.Close()
	}
	s.conns, s.cancel = nil, nil
}
