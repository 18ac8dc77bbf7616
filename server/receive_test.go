package server

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
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

// TestRequestsOfOneConnectionTakeTurns sends many large requests at once over one gRPC connection, as a client that writes files in parallel does.
// Together they need more memory than the connection may hold. They wait for each other, and none is refused. It takes seconds: the requests are large.
func TestRequestsOfOneConnectionTakeTurns(t *testing.T) {
	r := start(t, sessionConfig(t))
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	ctx := with(t, "authorization", bearerOf(r.openPanel(t, "p").GetToken()))
	elements := &ctxfsv1.BatchRequest{}
	for range 30_000 {
		elements.Steps = append(elements.Steps, &ctxfsv1.BatchStep{})
	}
	write := func(bytes int) func(string) error {
		return func(path string) error {
			_, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: path, Content: &ctxfsv1.WriteFileRequest_Data{Data: make([]byte, bytes)}})
			return err
		}
	}
	for name, test := range map[string]struct {
		call func(path string) error
		want fserr.Code
	}{
		"small contents":           {write(70_000), 0},
		"contents":                 {write(1 << 20), 0},
		"contents of half a share": {write(4 << 20), 0},
		"elements": {func(string) error {
			_, err := fs.Batch(ctx, elements)
			return err
		}, fserr.EINVAL}, // an empty step
	} {
		t.Run(name, func(t *testing.T) {
			var calls errgroup.Group
			for i := range 16 {
				calls.Go(func() error {
					for n := range 2 {
						err := test.call(fmt.Sprintf("/%d-%d", i, n))
						if e, ok := fserrpb.FromStatus(err); err != nil && (!ok || e.Code != test.want) {
							return fmt.Errorf("request %d of client %d: %w", n, i, err)
						}
					}
					return nil
				})
			}
			if err := calls.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
