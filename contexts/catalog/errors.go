package catalog

import (
	"errors"
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// RetryAfter is how long callers should wait before they try a busy context again.
const RetryAfter = time.Second

// Missing (ESTALE): there is no such context.
func Missing(id ID) error {
	return &fserr.Error{
		Code: fserr.ESTALE, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' does not exist", id), Hint: "call EnsureContext or OpenPanel",
	}
}

func failedBefore(id ID, lastError string) error {
	return &fserr.Error{
		Code: fserr.ESTALE, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' does not exist: its last seeding failed: %s", id, lastError),
		Hint:   "call EnsureContext or OpenPanel to try anew",
	}
}

// Taken (EEXIST): there is a context of this ID already.
func Taken(id ID) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' exists already", id),
		Hint: "choose another ID, or delete it first",
	}
}

// Collides (EEXIST): the two IDs differ only by case.
func Collides(id, with ID) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' differs only by case from context '%s'", id, with),
		Hint:   "use another panel ID, or name an explicit context_id",
	}
}

func owned(id ID, owner, panel string) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' of panel %q belongs to panel %q", id, panel, owner),
		Hint:   "use another panel ID, or name an explicit context_id",
	}
}

func notAFolder(id ID) error {
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("something that is no folder stands where context '%s' belongs", id),
		Hint:   "remove it from the contexts directory",
	}
}

// Busy (EAGAIN): the caller should retry. what follows the context's name in the message.
func Busy(id ID, what string) error {
	return &fserr.Error{
		Code: fserr.EAGAIN, Kind: fserr.KindContext, RetryAfter: RetryAfter,
		Detail: fmt.Sprintf("context '%s' %s", id, what), Hint: fmt.Sprintf("retry in %s", RetryAfter),
	}
}

// BeingSeeded (EAGAIN): the context is not ready yet. total is 0 while the number of files is unknown.
func BeingSeeded(id ID, files, total int64) error {
	if total <= 0 {
		return Busy(id, "is being seeded")
	}
	return Busy(id, fmt.Sprintf("is being seeded (%s of %s files)", seed.Count(files), seed.Count(total)))
}

// Stopped (ECANCELED): the server is stopping.
func Stopped(id ID) error {
	return &fserr.Error{
		Code: fserr.ECANCELED, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' cannot be used: ctxfs is stopping", id), Hint: "retry when it runs again",
	}
}

// Wrap returns err as an error about a context that may reach a client. The text of an fserr.Error has no server path and
// stays; of any other error only the errno stays.
func Wrap(id ID, what string, err error) error {
	var e *fserr.Error
	if !errors.As(err, &e) {
		e = &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	}
	if e.Kind == fserr.KindContext || e.Code == fserr.EFBIG {
		return err
	}
	inner := *e
	inner.Hint, inner.Err = "", nil
	return &fserr.Error{
		Code: e.Code, Kind: fserr.KindContext, Hint: e.Hint, RetryAfter: e.RetryAfter, Err: err,
		Detail: fmt.Sprintf("context '%s' %s: %s", id, what, inner.Error()),
	}
}

// Cause returns an error for the log: with the cause that the text for clients leaves out.
func Cause(err error) error {
	var e *fserr.Error
	if errors.As(err, &e) && e.Err != nil {
		return fmt.Errorf("%w: %w", err, e.Err)
	}
	return err
}

// NotListed is the error of a directory or table that could not be listed.
func NotListed(what string, err error) error {
	out := &fserr.Error{Code: fserr.CodeOf(err), Detail: what + " could not be listed", Err: err}
	var e *fserr.Error
	if errors.As(err, &e) && e.RetryAfter > 0 { // of the database, not of a server path
		out.Detail, out.Hint, out.RetryAfter = out.Detail+": "+e.Detail, e.Hint, e.RetryAfter
	}
	return out
}
