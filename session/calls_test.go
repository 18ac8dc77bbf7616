package session

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// holding notes how much the panel holds while its calls run.
type holding struct {
	ctxfsv1.UnimplementedFsServiceServer
	memory *budget.Budget
	held   []int64
}

// WriteFile implements ctxfsv1.FsServiceServer.
func (h *holding) WriteFile(context.Context, *ctxfsv1.WriteFileRequest) (*ctxfsv1.WriteFileResponse, error) {
	h.held = append(h.held, h.memory.Held())
	return &ctxfsv1.WriteFileResponse{}, nil
}

// script is a Link on which requests arrive.
type script struct {
	basket
	rest []*ctxfsv1.SessionRequest
}

// Recv implements Link.
func (s *script) Recv() (*ctxfsv1.SessionRequest, error) {
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	m := s.rest[0]
	s.rest = s.rest[1:]
	return m, nil
}

func TestSmallContentHoldsNoMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		size    int
		isHeld  bool
		ifMatch string
	}{
		{name: "empty", size: 0},
		{name: "4 KiB", size: budget.Small},
		{name: "4 KiB with a condition", size: budget.Small, ifMatch: `"0123456789abcdef"`},
		{name: "5 KiB", size: budget.Small + 1<<10, isHeld: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &holding{memory: budget.New(1<<20, time.Minute, nil)}
			calls := NewCalls(codec.New(codec.NewPool()))
			calls.RegisterService(&ctxfsv1.FsService_ServiceDesc, h)
			leases := panels.NewLeases(time.Minute, func(string, string) {})
			defer leases.Close()
			share := h.memory.Account(0).Share(0, nil)
			s := New(Config{Leases: leases, Calls: calls, Shares: func(context.Context) Shares { return Shares{Requests: share, Replies: share} }})
			ctx := panels.WithIdentity(t.Context(), panels.Identity{Role: panels.RolePanel, Owner: "p"})
			link := &script{rest: []*ctxfsv1.SessionRequest{sessiontest.Call(1, &ctxfsv1.WriteFileRequest{
				Path: "/" + strings.Repeat("a", 60), ModeForm: &ctxfsv1.WriteFileRequest_Mode{Mode: 0o644},
				Content: &ctxfsv1.WriteFileRequest_Data{Data: make([]byte, c.size)}, IfMatch: c.ifMatch,
			})}}
			open := &ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{}}}
			if err := s.Serve(ctx, open, link, "session"); err != nil {
				t.Fatal(err)
			}
			s.Wait()
			if len(h.held) != 1 || h.held[0] > 0 != c.isHeld || h.memory.Held() != 0 {
				t.Errorf("%d bytes are held meanwhile, %d afterwards; want some: %v", h.held, h.memory.Held(), c.isHeld)
			}
		})
	}
}
