package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The bounds of a message, in bytes, besides Config.MaxRequest.
const (
	// maxOverhead is for what surrounds content of MaxRequest: paths and flags.
	maxOverhead = 64 << 10
	// maxSessionRequest bounds a message of a session: its operations live on after it was received.
	maxSessionRequest = 1 << 20
)

// maxStreams bounds the calls in flight on one connection.
const maxStreams = 1000

// defaultDeadline is that of a unary call which sets none.
const defaultDeadline = 30 * time.Second

// checkSize refuses a request over the limit and names what to use instead.
func (i *interceptors) checkSize(req any) error {
	size := sizeOf(req)
	if size <= i.maxRequest+maxOverhead {
		return nil
	}
	i.metrics.rejected("request_bytes")
	return &fserr.Error{
		Code: fserr.EFBIG, Kind: fserr.KindRequest,
		Detail: fmt.Sprintf("request of %.1f MiB exceeds %s", float64(size)/(1<<20), Size(i.maxRequest)),
		Hint:   "use FsService/WriteStream, in chunks of 256 KiB to 1 MiB",
	}
}

// sizeOf is a message's length on the wire, in bytes.
func sizeOf(msg any) int {
	switch m := msg.(type) {
	case *codec.Incoming:
		return m.Size()
	case proto.Message:
		return proto.Size(m)
	}
	return 0
}

// checkSession refuses a session's message over the limit, which ends the session. What is
// too much content for one operation, the session answers to that.
func checkSession(r *ctxfsv1.SessionRequest) error {
	size := proto.Size(r)
	if size <= maxSessionRequest {
		return nil
	}
	return &fserr.Error{
		Code: fserr.EFBIG, Detail: fmt.Sprintf("a session's message of %.1f MiB exceeds 1 MiB", float64(size)/(1<<20)),
		Hint: "send content in ranges of at most 256 KiB",
	}
}

// maxReceive is where gRPC itself refuses, before anything of ours runs and without our words: the difference leaves room to
// answer EFBIG with the remedy to most of those who pass the limit.
func maxReceive(maxRequest Size) int { return int(maxRequest + maxRequest/4) }

// withDefaultDeadline bounds a call that has no deadline, except one that may take
// as long as there are files.
func withDefaultDeadline(ctx context.Context, method string, req any) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || isLong(method, req) {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, defaultDeadline)
}

func isLong(method string, req any) bool {
	switch method {
	case ctxfsv1.FsService_Cp_FullMethodName, ctxfsv1.FsService_Rm_FullMethodName,
		ctxfsv1.PanelService_OpenPanel_FullMethodName, ctxfsv1.ContextService_DeleteContext_FullMethodName,
		ctxfsv1.ContextService_PlanSeed_FullMethodName, ctxfsv1.TemplateService_ExplainTemplate_FullMethodName,
		ctxfsv1.ContextService_Fork_FullMethodName,
		ctxfsv1.ContextService_Snapshot_FullMethodName, ctxfsv1.ContextService_Restore_FullMethodName,
		ctxfsv1.ContextService_DeleteSnapshot_FullMethodName, ctxfsv1.ContextService_CollectGarbage_FullMethodName,
		ctxfsv1.ContextService_GetContext_FullMethodName, ctxfsv1.ContextService_ListContexts_FullMethodName:
		return true
	}
	r, ok := req.(*ctxfsv1.ReaddirRequest)
	return ok && r.GetRecursive()
}
