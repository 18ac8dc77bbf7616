package services

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
)

// ContextInfo describes contexts (contexts.Manager).
type ContextInfo interface {
	Get(ctx context.Context, id contexts.ID) (contexts.Info, error)
	List(ctx context.Context) ([]contexts.Info, error)
}

// readTarget returns the context whose changes a caller reads. reviewer reports whether it may learn there what the workspace holds, which has
// files that no context was seeded with: a host that acts for no panel may, and a panel with the right to review that context.
func (s *Reviews) readTarget(ctx context.Context, named string) (id contexts.ID, reviewer bool, err error) {
	caller := panels.IdentityFrom(ctx)
	if caller.Rights&panels.RightReview != 0 && named != "" && contexts.ID(named) != caller.Context {
		if id, err = parseID(named); err == nil {
			err = s.mayReview(ctx, caller, id, time.Time{})
		}
		return id, true, err
	}
	id, err = infoTarget(caller, named)
	return id, caller.Role == panels.RoleHost && caller.Panel == "", err
}

// reviewTarget returns the context that a caller reviews.
func (s *Reviews) reviewTarget(ctx context.Context, named string) (contexts.ID, error) {
	id, reviewer, err := s.readTarget(ctx, named)
	if err == nil && !reviewer {
		return "", ownWork("set context_id to the context of another panel")
	}
	return id, err
}

// changeTarget returns the context that a caller changes itself: SubmitReview and Discard are for its own.
func changeTarget(caller panels.Identity, named string) (contexts.ID, error) {
	if caller.ReadOnly {
		return "", &fserr.Error{Code: fserr.EROFS, Hint: "this panel was opened read-only"}
	}
	return infoTarget(caller, named)
}

// mayReview refuses a panel a context that holds, or may hold, its own work: its own context, one that was derived from its ID, and copies of
// these. done, if not zero, is when the context held what is reviewed. A context of that ID that was made later is another one.
func (s *Reviews) mayReview(ctx context.Context, caller panels.Identity, id contexts.ID, done time.Time) error {
	before := done
	for at := id; ; {
		info, err := s.Contexts.Get(ctx, at)
		switch {
		case err != nil:
			return err
		case sameFolder(at, caller.Context), info.OwnerPanel == caller.Panel, slices.Contains(info.Panels, caller.Panel):
			return ownWork("a host, or another panel with this right, reviews it")
		case info.State == contexts.StateMissing && before.IsZero():
			return &fserr.Error{Code: fserr.ESTALE, Kind: fserr.KindContext, Detail: "context '" + string(id) + "' does not exist", Hint: "ask a host for the context's ID"}
		case info.State == contexts.StateMissing, info.Recovered, !before.IsZero() && !info.CreatedAt.Before(before):
			return &fserr.Error{
				Code: fserr.EACCES, Kind: fserr.KindContext, Detail: "the origin of context '" + string(id) + "' is not known any more: it may hold work of this panel",
				Hint: "a host reviews it",
			}
		case info.ForkedFrom == "":
			return nil
		}
		at, before = info.ForkedFrom, info.CreatedAt
	}
}

// sameFolder reports whether two IDs are one folder on some file system.
func sameFolder(a, b contexts.ID) bool { return strings.EqualFold(string(a), string(b)) }

func ownWork(hint string) error {
	return &fserr.Error{Code: fserr.EACCES, Kind: fserr.KindContext, Detail: "a panel cannot review its own work", Hint: hint}
}
