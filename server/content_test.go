package server

import (
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestTooLargeChunkIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	stream, err := ctxfsv1.NewFsServiceClient(r.host(t)).WriteStream(with(t, panelKey, "p"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*ctxfsv1.WriteStreamRequest{
		{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: "/f"}}},
		{Event: &ctxfsv1.WriteStreamRequest_Data{Data: make([]byte, DefaultConfig().MaxRequest)}},
		{Event: &ctxfsv1.WriteStreamRequest_Data{Data: make([]byte, 17<<20)}},
	} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	_, err = stream.CloseAndRecv()
	wantError(t, err, codes.ResourceExhausted, "EFBIG", "FsService/WriteStream")
	wantRejections(t, r, map[string]int{"request_bytes": 1})
}
