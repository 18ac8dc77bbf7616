package services

import (
	"context"
	"slices"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// changesRequest is a ListChangesRequest or a GetDiffRequest.
type changesRequest interface {
	GetContextId() string
	GetPaths() []string
	GetIgnored() bool
	GetAgainst() *ctxfsv1.Against
	GetJournalId() int64
}

// listOrEntry lists what a context, or an entry of its journal, changed.
func (s *Reviews) listOrEntry(ctx context.Context, req changesRequest) (*review.List, error) {
	if req.GetJournalId() == 0 {
		return s.list(ctx, req.GetContextId(), req.GetPaths(), req.GetIgnored(), req.GetAgainst())
	}
	if req.GetAgainst() != nil {
		return nil, fserr.Invalid("set one of against and journal_id")
	}
	id, reviewer, err := s.readTarget(ctx, req.GetContextId())
	if err != nil {
		return nil, err
	}
	l, err := s.Reviews.EntryChanges(ctx, string(id), req.GetJournalId(), func(e *review.Entry) error {
		if e.InContext || reviewer {
			return nil
		}
		return &fserr.Error{Code: fserr.EACCES, Detail: "the entry changed the workspace, which a panel cannot read"}
	})
	if err != nil || len(req.GetPaths()) == 0 {
		return l, err
	}
	l.Changes = slices.DeleteFunc(l.Changes, func(c *review.Change) bool {
		return !slices.ContainsFunc(req.GetPaths(), func(p string) bool { return c.Path.Within(reviewPath(p, nil)) })
	})
	return l, nil
}
