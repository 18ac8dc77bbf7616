package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestSessionMessageSize sends a message that is too large, which ends the session.
func TestSessionMessageSize(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	stream, err := ctxfsv1.NewFsServiceClient(r.host(t)).Session(with(t, panelKey, "p"))
	if err != nil {
		t.Fatal(err)
	}
	stat := &ctxfsv1.StatRequest{Path: strings.Repeat("x", 1<<20)}
	for _, m := range []*ctxfsv1.SessionRequest{
		{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{}}},
		sessiontest.Call(1, stat),
	} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	for err == nil {
		_, err = stream.Recv()
	}
	wantError(t, err, codes.ResourceExhausted, "EFBIG", "a session's message of 1.0 MiB exceeds 1 MiB")
	wantRejections(t, r, map[string]int{"request_bytes": 1})
}
