package server

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// encoded is a transport that has one message.
type encoded struct {
	transportStream
	data *bytes.Reader
}

func (e encoded) Read(n int) (mem.BufferSlice, error) {
	b := make([]byte, n)
	_, err := e.data.Read(b)
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// TestLargeRequestDoesNotWaitUncounted takes requests whose elements do not fit beside what another call holds. A large request is in memory by then:
// it is refused, and counts until then.
func TestLargeRequestDoesNotWaitUncounted(t *testing.T) {
	t.Parallel()
	req := &ctxfsv1.BatchRequest{}
	for range 100_000 {
		req.Steps = append(req.Steps, &ctxfsv1.BatchStep{})
	}
	body, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	n := len(body)
	share := budget.New(128<<20, time.Hour, nil).Account(0).Share(0, nil)
	other, hold := share.Hold(), share.Hold()
	if !other.Try(46<<20) || !hold.Try(2*int64(n)) {
		t.Fatal("there is no room")
	}
	r := &receiver{calls: &interceptors{}, stream: encoded{data: bytes.NewReader(body)}, hold: hold}
	if _, err := r.take(t.Context(), n, &ctxfsv1.BatchRequest{}); fserr.CodeOf(err) != fserr.EAGAIN || hold.Held() != 2*int64(n) {
		t.Errorf("%v; the request counts %d bytes, not %d", err, hold.Held(), 2*n)
	}
}
