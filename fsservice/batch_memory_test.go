package fsservice

import (
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/internal/budget"
)

// TestEditsOfABatchCountTogether has two edits make contents that are both in memory until the batch is written.
func TestEditsOfABatchCountTogether(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	share := budget.New(1<<20, time.Minute, nil).Account(0).Share(0, nil)
	hold := share.Hold()
	memory := &batchMemory{ctx: budget.With(t.Context(), hold)}
	grow := batchStep{Step: batch.Step{Kind: batch.Edit, Edit: func([]byte) ([]byte, error) { return make([]byte, size), nil }}}
	for i, s := range (batchSteps{grow, grow}).in(memory, gate.NewAccess(nil, 1, func() {}), true) {
		if _, err := s.Edit(nil); err != nil {
			t.Fatal(err)
		}
		if want := int64(i+1) * size; hold.Held() < want {
			t.Errorf("after edit %d the batch holds %d bytes, want %d", i+1, hold.Held(), want)
		}
	}
	if err := memory.passing(1 << 30); err != nil { // alone in the budget, a hold may have any size
		t.Error(err)
	}
	if share.Hold().Try(1 << 20) {
		t.Error("the memory of the diff does not count")
	}
}
