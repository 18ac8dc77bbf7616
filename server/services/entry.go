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
	GetRawPaths() [][]byte
	GetIgnored() bool
	GetAgainst() *ctxfsv1.Against
	GetJournalId() int64
}

// pathsIn returns the paths that a request names.
func pathsIn(req changesRequest) (paths []review.Path) {
	for _, p := range withRaw(req.GetPaths(), req.GetRawPaths()) {
		paths = append(paths, reviewPath(p, nil))
	}
	return paths
}

// withRaw returns paths, and further ones that are not UTF-8.
func withRaw(paths []string, raw [][]byte) []string {
	paths = slices.Clone(paths)
	for _, p := range raw {
		paths = append(paths, string(p))
	}
	return paths
}

// listOrEntry lists what a context, or an entry of its journal, changed.
func (s *Reviews) listOrEntry(ctx context.Context, req changesRequest) (*review.List, error) {
	if req.GetJournalId() == 0 {
		return s.list(ctx, req.GetContextId(), pathsIn(req), req.GetIgnored(), req.GetAgainst())
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
	paths := pathsIn(req)
	if err != nil || len(paths) == 0 {
		return l, err
	}
	l.Changes = slices.DeleteFunc(l.Changes, func(c *review.Change) bool {
		return !slices.ContainsFunc(paths, c.Path.Within)
	})
	return l, nil
}
