package fsservice

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestWeightOfHandles has a list of handles weigh what it is: their paths are as long as a client pleases.
func TestWeightOfHandles(t *testing.T) {
	list := &ctxfsv1.ListHandlesResponse{}
	for range 100 {
		list.Handles = append(list.Handles, &ctxfsv1.Handle{Path: "/" + strings.Repeat("./", 2000) + "f"})
	}
	data, err := proto.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	m := &ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{Data: data}}}
	if got := weightOf(m); got < proto.Size(list) {
		t.Errorf("it weighs %d, and has %d bytes", got, proto.Size(list))
	}
	if n := together([]outgoing{{m, nil}, {m, nil}, {m, nil}}); n != 1 {
		t.Errorf("%d of them travel together", n)
	}
}
