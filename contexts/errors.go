package contexts

import (
	"errors"
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

func missing(id ID) error {
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

func collides(id, with ID) error {
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

// retryAfter is when a caller who found a context busy should come again.
const retryAfter = time.Second

func busy(id ID, what string) error {
	return &fserr.Error{
		Code: fserr.EAGAIN, Kind: fserr.KindContext, RetryAfter: retryAfter,
		Detail: fmt.Sprintf("context '%s' %s", id, what), Hint: fmt.Sprintf("retry in %s", retryAfter),
	}
}

// inUse says that a context was not free within a time, because of what is inside.
func inUse(id ID, inside string, waited time.Duration) error {
	return &fserr.Error{
		Code: fserr.EBUSY, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' is in use: %s did not end within %s", id, inside, waited),
		Hint:   "retry later, or close the panels that use it",
	}
}

func beingSeeded(id ID, p Progress) error {
	if p.FilesTotal <= 0 {
		return busy(id, "is being seeded")
	}
	return busy(id, fmt.Sprintf("is being seeded (%s of %s files)", seed.Count(p.FilesDone), seed.Count(p.FilesTotal)))
}

func stopped(id ID) error {
	return &fserr.Error{
		Code: fserr.ECANCELED, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' cannot be used: ctxfs is stopping", id), Hint: "retry when it runs again",
	}
}

// contextError makes err an error about a context that may travel: an
// fserr.Error's own text says enough and has no server path, any other is reduced to its errno.
func contextError(id ID, what string, err error) error {
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
