package fsservice

import (
	"context"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
)

// errNoRoom ends an operation whose reply does not fit into the memory budget now. inBudget waits for room and runs it again.
var errNoRoom = &fserr.Error{Code: fserr.EAGAIN, Detail: "no memory for the reply"}

// reserve counts n bytes of a reply before they are allocated. It never waits, since its caller keeps the context's gate open
// and may have locked a file: when there is no room, it fails with errNoRoom.
func reserve(ctx context.Context, n int64) error {
	if budget.Of(ctx).Try(n) {
		return nil
	}
	return errNoRoom
}

// inBudget runs f, whose reply reserves memory. When there was none, it waits for it with nothing open and nothing locked, and
// runs f again. f must not have changed anything when reserve fails.
func inBudget[T any](ctx context.Context, op string, f func() (T, error)) (T, error) {
	for {
		resp, err := f()
		h := budget.Of(ctx)
		n := h.Wanted()
		if n == 0 || err == nil {
			return resp, err
		}
		if err := h.Wait(ctx, n); err != nil {
			var none T
			return none, fail(budget.Refusal(err, "the reply"), op, "", "")
		}
	}
}

// memory is how much it takes to read n bytes and encode them, in bytes: text is made beside what was read.
func (e encoding) memory(n int64) int64 {
	if e == "" {
		return n
	}
	return 3 * n
}
