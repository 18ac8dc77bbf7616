package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/method"
)

// The bounds of a message, in bytes, besides Config.MaxRequest.
const (
	// maxOverhead is for what surrounds content of MaxRequest: paths and flags.
	maxOverhead = 64 << 10
)

// maxStreams bounds the calls in flight on one connection.
const maxStreams = 1000

// defaultDeadline is that of a unary call which sets none.
const defaultDeadline = 30 * time.Second

// tooLarge refuses a request of size bytes and names what to use instead.
func (i *interceptors) tooLarge(size, limit int) error {
	i.metrics.rejected("request_bytes")
	e := &fserr.Error{
		Code: fserr.EFBIG, Kind: fserr.KindRequest,
		Detail: fmt.Sprintf("request of %.1f MiB exceeds %s", float64(size)/(1<<20), Size(i.maxRequest)),
		Hint:   "use FsService/WriteStream, in chunks of 256 KiB to 1 MiB",
	}
	if limit == maxStrangerRequest {
		e.Detail, e.Hint = fmt.Sprintf("request of %d bytes exceeds %s", size, Size(limit)), "name a service"
	}
	return e
}

// sessionTooLarge refuses a session's message of size bytes, which ends the session. What is
// too much content for one operation, the session answers to that.
func sessionTooLarge(size int) error {
	return &fserr.Error{
		Code: fserr.EFBIG, Detail: fmt.Sprintf("a session's message of %.1f MiB exceeds 1 MiB", float64(size)/(1<<20)),
		Hint: "send content in ranges of at most 256 KiB",
	}
}

// withDefaultDeadline bounds a call that began at start and has no deadline, except one that may take
// as long as there are files.
func withDefaultDeadline(ctx context.Context, start time.Time, m *method.Method, req any) (context.Context, context.CancelFunc) {
	message, _ := req.(proto.Message)
	if _, ok := ctx.Deadline(); ok || m.Unbounded(message) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, start.Add(defaultDeadline))
}
