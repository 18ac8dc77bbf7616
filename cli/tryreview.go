package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// trialReview is the part of a trial that applies a file to a repository and takes it back.
type trialReview struct {
	*client.Review
	// path is the file, which the repository does not have.
	path string
	// entry is the journal's, until it is undone.
	entry int64
}

// change makes a file in the first repository of panel a's context.
func (t *trial) change(ctx context.Context) (string, error) {
	plan, err := t.client.PlanSeed(ctx, 0)
	if err != nil {
		return "", err
	}
	dir := ""
	if repos := plan.GetRepositories(); len(repos) > 0 {
		dir = repos[0].GetPath()
	}
	t.review = trialReview{Review: t.client.Review(t.a.ContextID()), path: path.Join("/", dir, path.Base(path.Dir(t.a.ID()))+".md")}
	if err := t.a.FS().With(ctx).WriteFile(t.review.path, []byte("made by an agent\n"), 0o644); err != nil {
		return "", err
	}
	changes, _, err := t.review.Changes(ctx, &ctxfsv1.ListChangesRequest{Paths: []string{t.review.path}})
	if err != nil {
		return "", err
	}
	if len(changes) != 1 || changes[0].GetAddedLines() != 1 {
		return "", fmt.Errorf("the changes are %v", changes)
	}
	return changeLetter(changes[0]) + " " + showPath(t.review.path, nil) + " " + lineCounts(changes[0]), nil
}

// approve reviews the file as the host does.
func (t *trial) approve(ctx context.Context) (string, error) {
	hunk := ""
	_, err := t.review.Hunks(ctx, &ctxfsv1.GetDiffRequest{Paths: []string{t.review.path}}, func(_ *ctxfsv1.Change, h *ctxfsv1.Hunk) error {
		if h != nil {
			hunk = h.GetHunkId()
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	done, err := t.review.Decide(ctx, &ctxfsv1.DecideRequest{Selection: client.SelectHunks(t.review.path, hunk), Decision: ctxfsv1.Decision_DECISION_APPROVED})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d hunk approved: %s", done.GetHunks(), hunk), nil
}

// apply merges the file into the repository.
func (t *trial) apply(ctx context.Context) (string, error) {
	done, err := t.review.Apply(ctx, &ctxfsv1.ApplyRequest{})
	for _, readOnly := range []fserr.Code{fserr.EROFS, fserr.EACCES, fserr.EPERM} {
		if errors.Is(err, readOnly) {
			return "not tried: the server cannot write to the workspace: " + describe(err), nil
		}
	}
	if err != nil {
		return "", err
	}
	t.review.entry = done.GetJournalId()
	if err := t.inWorkspace(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is in the repository, as entry %d of the log", showPath(t.review.path, nil), t.review.entry), nil
}

// inWorkspace looks for the file in the workspace.
func (t *trial) inWorkspace(ctx context.Context) error {
	_, err := t.review.ReadVersion(ctx, io.Discard, t.review.path, ctxfsv1.Version_VERSION_WORKSPACE)
	return err
}

// undo takes the file out of the repository.
func (t *trial) undo(ctx context.Context) (string, error) {
	if t.review.entry == 0 {
		return "not tried: nothing was applied", nil
	}
	entry := t.review.entry
	if _, err := t.client.Undo(ctx, entry, false); err != nil {
		return "", err
	}
	t.review.entry = 0
	if err := t.inWorkspace(ctx); !errors.Is(err, fserr.ENOENT) {
		return "", fmt.Errorf("the file is still in the repository: %w", err)
	}
	return fmt.Sprintf("entry %d is taken back: the repository is as it was", entry), nil
}
