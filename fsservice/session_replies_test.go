package fsservice

import (
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/internal/budget"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// basket takes all that is sent.
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
