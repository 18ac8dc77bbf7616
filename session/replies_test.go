package session

import (
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// basket keeps what is sent.
type basket struct {
	Link
	took []*ctxfsv1.SessionResponse
}

func (s *basket) Send(m *ctxfsv1.SessionResponse, _ *budget.Hold) error {
	s.took = append(append(s.took, m), m.GetAlso()...)
	return nil
}

// TestNothingFollowsTheLastMessage ends sessions while operations are answered.
func TestNothingFollowsTheLastMessage(t *testing.T) {
	for round := range 2000 {
		link := &basket{}
		r := newReplies(link, round%2 == 0, func(*ctxfsv1.SessionResponse) {})
		var others sync.WaitGroup
		for range 4 {
			others.Go(func() {
				for range 50 {
					if r.send(&ctxfsv1.SessionResponse{}, nil) != nil {
						return
					}
				}
			})
		}
		r.last(&ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Closing{}})
		others.Wait()
		if n := len(link.took); link.took[n-1].GetResponse() == nil {
			t.Fatalf("round %d: the last of %d messages is not closing", round, n)
		}
	}
}

// TestWeightOfHandles weighs a list of handles, whose paths clients choose as long as they like.
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
