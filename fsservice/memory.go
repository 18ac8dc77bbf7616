package fsservice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
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
			return none, fail(NoRoom(err, "the reply"), op, "", "")
		}
	}
}

// NoRoom is the error of a wait for memory (budget.Hold.Wait) as clients get it. what is the thing that the memory was for.
func NoRoom(err error, what string) error {
	var short *budget.ShortError
	switch {
	case errors.As(err, &short) && errors.Is(err, context.DeadlineExceeded):
		return noRoom(what, short.Level)
	case errors.As(err, new(budget.ClosedError)):
		return &fserr.Error{Code: fserr.ECANCELED, Detail: "the panel or its connection was closed", Err: err}
	}
	return &fserr.Error{Code: fserr.ECANCELED, Err: err}
}

// walkMemory returns what counts the names that a walk holds, for tree.WalkOptions.Reserve, and the function that ends it. The
// names of one large directory may be more than a connection may hold, so they count for the panel alone. A walk that gets no
// more memory fails with EAGAIN: it must not wait while it holds some.
func walkMemory(ctx context.Context) (reserve func(bytes int64) error, done func()) {
	names, done := budget.Of(ctx).Aside()
	return func(bytes int64) error {
		names.Keep(bytes)
		if names.Try(bytes) {
			return nil
		}
		return noRoom("the names of a directory", budget.LevelAccount)
	}, done
}

func noRoom(what string, level budget.Level) error {
	return fserrpb.WithCode(&fserr.Error{
		Code: fserr.EAGAIN, Detail: fmt.Sprintf("no memory for %s: %s", what, holders[level]),
		Hint: "read the replies that were asked for, or ask for less at once", RetryAfter: time.Second,
	}, codes.ResourceExhausted)
}

// holders says for each level what takes the memory.
var holders = map[budget.Level]string{
	budget.LevelShare:   "unread replies and requests under way take what this connection may hold",
	budget.LevelAccount: "unread replies and requests under way take what this panel may hold",
	budget.LevelBudget:  "unread replies and requests under way take what all panels may hold",
}

// memory is how much it takes to read n bytes and encode them, in bytes: text is made beside what was read.
func (e encoding) memory(n int64) int64 {
	if e == "" {
		return n
	}
	return 3 * n
}
