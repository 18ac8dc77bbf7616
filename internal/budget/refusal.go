package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// Refusal returns the error that a client gets for a failed Hold.Wait: EAGAIN when there was no memory in time, ECANCELED
// otherwise. what names the thing that the memory was for.
func Refusal(err error, what string) error {
	var short *ShortError
	switch {
	case errors.As(err, &short) && errors.Is(err, context.DeadlineExceeded):
		return refuse(what, short.Level)
	case errors.As(err, new(ClosedError)):
		return &fserr.Error{Code: fserr.ECANCELED, Detail: "the panel or its connection was closed", Err: err}
	}
	return &fserr.Error{Code: fserr.ECANCELED, Err: err}
}

// Names returns a function that counts the names that a walk holds (tree.WalkOptions.Reserve), and a function that gives them
// back. The names of one large directory may be more than a connection may hold, so they count for the panel alone. A walk that
// gets no more memory fails with EAGAIN: it must not wait while it holds some.
func Names(ctx context.Context) (reserve func(bytes int64) error, done func()) {
	names, done := Of(ctx).Aside()
	return func(bytes int64) error {
		names.Keep(bytes)
		if names.Try(bytes) {
			return nil
		}
		return names.Refuse("the names of a directory")
	}, done
}

// Refuse returns the EAGAIN that a client gets when the last Try failed. what names the thing that the memory was for.
func (h *Hold) Refuse(what string) error { return refuse(what, h.lacked) }

// refuse returns the EAGAIN that a client gets when there is no memory at a level. what names the thing that the memory was for.
func refuse(what string, level Level) error {
	hint := "read the replies that were asked for, or ask for less at once"
	if level == LevelBudget {
		hint = "try again, or ask for less at once"
	}
	return fserrpb.WithCode(&fserr.Error{
		Code: fserr.EAGAIN, Detail: fmt.Sprintf("no memory for %s: unread replies and requests under way take what %s may hold", what, holders[level]),
		Hint: hint, RetryAfter: time.Second,
	}, codes.ResourceExhausted)
}

var holders = map[Level]string{LevelShare: "this connection", LevelAccount: "this panel", LevelBudget: "all panels"}
