package client

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Review is the review of one context: what it changed, what was decided, and what was applied to the workspace.
type Review struct {
	c  reviewCaller
	id string
}

// reviewCaller is the identity that calls: a host or a panel.
type reviewCaller interface {
	reviews() ctxfsv1.ReviewServiceClient
}

// ContextID is the context's, "" for the panel's own.
func (r *Review) ContextID() string { return r.id }

// Review returns the review of a context. "" is the panel's own.
func (c *Client) Review(contextID string) *Review { return &Review{c, contextID} }

func (c *Client) reviews() ctxfsv1.ReviewServiceClient { return ctxfsv1.NewReviewServiceClient(c.conn) }

// These are the values of ReviewError.Reason.
const (
	ReasonConflict      = "CONFLICT"
	ReasonStaleRevision = "STALE_REVISION"
	ReasonNotApproved   = "NOT_APPROVED"
	ReasonBarredPath    = "BARRED_PATH"
	// ReasonUnresolved says that paths have a conflict that Rebase recorded.
	ReasonUnresolved = "UNRESOLVED"
	// ReasonRepositoryBusy says that a git command is at work in the repository.
	ReasonRepositoryBusy = "REPOSITORY_BUSY"
	// An Apply that commits fails with the following reasons.
	ReasonDirtyCommit  = "DIRTY_COMMIT"
	ReasonNoRepository = "NO_REPOSITORY"
	ReasonNeedsFilter  = "GIT_FILTER"
	ReasonHookFailed   = "HOOK_FAILED"
	// ReasonNotApplied refuses DeleteContext and Restore: changes would be lost that were not applied.
	ReasonNotApplied = "NOT_APPLIED"
	// ReasonLayerMissing says that the layer is missing that the context was seeded with: its files can be read and written, but not reviewed.
	ReasonLayerMissing = "LAYER_MISSING"
	// ReasonCheckFailed says that a check of ApplyChecked failed.
	ReasonCheckFailed = "CHECK_FAILED"
)

// ReviewError is a refusal of a review. Nothing was done, unless Detail or Hint says that files keep what was applied, since a program changed them meanwhile.
type ReviewError struct {
	// Reason is one of the constants above.
	Reason string
	// Detail says what, Hint the remedy.
	Detail, Hint string
	// Files are those that the refusal is about; nil if it is about none. Those of ReasonConflict and ReasonDirtyCommit say why they could not
	// be merged.
	Files *ctxfsv1.RefusedFiles
}

// Error returns the refusal in words, with the first files.
func (e *ReviewError) Error() string {
	if e.Hint == "" {
		return e.Detail
	}
	return e.Detail + "; " + e.Hint
}

// reviewError converts the error of a call of ReviewService.
func reviewError(op string, err error) error {
	e, ok := fserrpb.FromStatus(err)
	if !ok || e.Reason == "" || e.Reason == ReasonExecUnavailable {
		return convert(op, err)
	}
	return &ReviewError{Reason: e.Reason, Detail: e.Detail, Hint: e.Hint, Files: fserrpb.FilesOf(err)}
}

// Changes lists what the context changed, at these paths and below them; all if there are none.
func (r *Review) Changes(ctx context.Context, req *ctxfsv1.ListChangesRequest) ([]*ctxfsv1.Change, *ctxfsv1.ChangesSummary, error) {
	paths, raw := rawTwins(req.GetPaths())
	req = &ctxfsv1.ListChangesRequest{ContextId: r.id, Paths: paths, RawPaths: append(raw, req.GetRawPaths()...), Ignored: req.GetIgnored(), Against: req.GetAgainst(), JournalId: req.GetJournalId()}
	stream, err := r.c.reviews().ListChanges(ctx, req)
	if err != nil {
		return nil, nil, reviewError("listchanges", err)
	}
	var changes []*ctxfsv1.Change
	var summary *ctxfsv1.ChangesSummary
	err = each(stream, func(m *ctxfsv1.ListChangesResponse) error {
		if c := m.GetChange(); c != nil {
			changes = append(changes, c)
		} else {
			summary = m.GetSummary()
		}
		return nil
	})
	return changes, summary, reviewError("listchanges", err)
}

// each receives a stream to its end.
func each[M any](stream grpc.ServerStreamingClient[M], f func(*M) error) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(m)
		}
		if err != nil {
			return err
		}
	}
}

// Hunks calls f for each change, and for each of its hunks. hunk is nil for the change itself. It returns the summary of ListChanges.
func (r *Review) Hunks(ctx context.Context, req *ctxfsv1.GetDiffRequest, f func(change *ctxfsv1.Change, hunk *ctxfsv1.Hunk) error) (*ctxfsv1.ChangesSummary, error) {
	stream, err := r.diff(ctx, req, ctxfsv1.DiffForm_DIFF_FORM_UNSPECIFIED)
	if err != nil {
		return nil, reviewError("getdiff", err)
	}
	var change *ctxfsv1.Change
	var summary *ctxfsv1.ChangesSummary
	err = each(stream, func(m *ctxfsv1.GetDiffResponse) error {
		switch e := m.GetEvent().(type) {
		case *ctxfsv1.GetDiffResponse_Summary:
			summary = e.Summary
		case *ctxfsv1.GetDiffResponse_Change:
			change = e.Change
			return f(change, nil)
		case *ctxfsv1.GetDiffResponse_Hunk:
			return f(change, e.Hunk)
		}
		return nil
	})
	return summary, reviewError("getdiff", err)
}

func (r *Review) diff(ctx context.Context, req *ctxfsv1.GetDiffRequest, form ctxfsv1.DiffForm) (grpc.ServerStreamingClient[ctxfsv1.GetDiffResponse], error) {
	paths, raw := rawTwins(req.GetPaths())
	return r.c.reviews().GetDiff(ctx, &ctxfsv1.GetDiffRequest{
		ContextId: r.id, Paths: paths, RawPaths: append(raw, req.GetRawPaths()...), Form: form, Lines: req.GetLines(), Ignored: req.GetIgnored(), Against: req.GetAgainst(), JournalId: req.GetJournalId(),
	})
}

// Patch writes what the context changed as text that git apply accepts, and returns the changes, with the summary of ListChanges.
func (r *Review) Patch(ctx context.Context, w io.Writer, req *ctxfsv1.GetDiffRequest) ([]*ctxfsv1.Change, *ctxfsv1.ChangesSummary, error) {
	stream, err := r.diff(ctx, req, ctxfsv1.DiffForm_DIFF_FORM_UNIFIED)
	if err != nil {
		return nil, nil, reviewError("getdiff", err)
	}
	var changes []*ctxfsv1.Change
	var summary *ctxfsv1.ChangesSummary
	err = each(stream, func(m *ctxfsv1.GetDiffResponse) error {
		if c := m.GetChange(); c != nil {
			changes = append(changes, c)
		}
		if s := m.GetSummary(); s != nil {
			summary = s
		}
		_, err := w.Write(m.GetText())
		return err
	})
	return changes, summary, reviewError("getdiff", err)
}

// ReadVersion writes one version of a file to w.
func (r *Review) ReadVersion(ctx context.Context, w io.Writer, path string, version ctxfsv1.Version) (*ctxfsv1.FileVersion, error) {
	path, raw := twin(path)
	stream, err := r.c.reviews().ReadVersion(ctx, &ctxfsv1.ReadVersionRequest{ContextId: r.id, Path: path, RawPath: raw, Version: version})
	if err != nil {
		return nil, reviewError("read", err)
	}
	var found *ctxfsv1.FileVersion
	err = each(stream, func(m *ctxfsv1.ReadVersionResponse) error {
		if m.GetVersion() != nil {
			found = m.GetVersion()
		}
		_, err := w.Write(m.GetData())
		return err
	})
	return found, reviewError("read", err)
}

// Get returns the state of the review.
func (r *Review) Get(ctx context.Context) (*ctxfsv1.GetReviewResponse, error) {
	out, err := r.c.reviews().GetReview(ctx, &ctxfsv1.GetReviewRequest{ContextId: r.id})
	return out, reviewError("getreview", err)
}

// Watch calls f for each step of the review, until ctx ends or f fails.
func (r *Review) Watch(ctx context.Context, f func(*ctxfsv1.WatchReviewResponse) error) error {
	stream, err := r.c.reviews().WatchReview(ctx, &ctxfsv1.WatchReviewRequest{ContextId: r.id})
	if err != nil {
		return reviewError("watchreview", err)
	}
	return reviewError("watchreview", each(stream, f))
}

// Submit says that the changes are ready to be reviewed.
func (r *Review) Submit(ctx context.Context, title, message string) (*ctxfsv1.SubmitReviewResponse, error) {
	out, err := r.c.reviews().SubmitReview(ctx, &ctxfsv1.SubmitReviewRequest{ContextId: r.id, Title: title, Message: message})
	return out, reviewError("submitreview", err)
}

// Discard puts the base's content back into the context. req's context is set.
func (r *Review) Discard(ctx context.Context, req *ctxfsv1.DiscardRequest) (*ctxfsv1.DiscardResponse, error) {
	req.ContextId = r.id
	out, err := r.c.reviews().Discard(ctx, req)
	return out, reviewError("discard", err)
}

// Decide approves or rejects changes. req's context is set.
func (r *Review) Decide(ctx context.Context, req *ctxfsv1.DecideRequest) (*ctxfsv1.DecideResponse, error) {
	req.ContextId = r.id
	out, err := r.c.reviews().Decide(ctx, req)
	return out, reviewError("decide", err)
}

// Apply merges approved changes into the workspace, and commits them if req's target says so. req's context is set.
func (r *Review) Apply(ctx context.Context, req *ctxfsv1.ApplyRequest) (*ctxfsv1.ApplyResponse, error) {
	req.ContextId = r.id
	out, err := r.c.reviews().Apply(ctx, req)
	return out, reviewError("apply", err)
}

// maxJournalPage is how many entries the server returns at once at most.
const maxJournalPage = 100

// Journal lists what Apply, Discard and Undo did, the newest first, at most limit entries. With path, only entries that touched it or
// something below it. labelSelectors are as in ListContexts, and for hosts.
func (r *Review) Journal(ctx context.Context, path string, limit int, labelSelectors ...string) ([]*ctxfsv1.JournalEntry, error) {
	path, raw := twin(path)
	req := &ctxfsv1.ListJournalRequest{ContextId: r.id, Path: path, RawPath: raw, PageSize: int32(min(limit, maxJournalPage)), LabelSelectors: labelSelectors}
	var out []*ctxfsv1.JournalEntry
	for len(out) < limit {
		page, err := r.c.reviews().ListJournal(ctx, req)
		if err != nil {
			return nil, reviewError("listjournal", err)
		}
		out = append(out, page.GetEntries()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	return out[:min(len(out), limit)], nil
}

// Undo takes a journal entry back. Its commits stay.
func (c *Client) Undo(ctx context.Context, journalID int64, dryRun bool) (*ctxfsv1.UndoResponse, error) {
	return c.UndoCommits(ctx, journalID, nil, dryRun)
}

// UndoCommits takes a journal entry back, and its commits by further commits, unless commit is nil. commit's message may be empty.
func (c *Client) UndoCommits(ctx context.Context, journalID int64, commit *ctxfsv1.CommitOptions, dryRun bool) (*ctxfsv1.UndoResponse, error) {
	out, err := c.reviews().Undo(ctx, &ctxfsv1.UndoRequest{JournalId: journalID, Commit: commit, DryRun: dryRun})
	return out, reviewError("undo", err)
}

// SelectAll selects everything that is neither barred, sensitive nor ignored.
func SelectAll() *ctxfsv1.Selection {
	return &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}
}

// SelectPaths selects changes by path, which need not be UTF-8: of a file, or of a directory with what is below it.
func SelectPaths(paths ...string) *ctxfsv1.Selection {
	out := &ctxfsv1.SelectedChanges{}
	for _, p := range paths {
		out.Changes = append(out.Changes, selected(p))
	}
	return &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: out}}
}

// SelectHunks selects hunks of a file.
func SelectHunks(path string, hunkIDs ...string) *ctxfsv1.Selection {
	change := selected(path)
	change.HunkIds = hunkIDs
	return &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{change}}}}
}

// selected selects a path, which need not be UTF-8.
func selected(path string) *ctxfsv1.SelectedChange {
	if utf8.ValidString(path) {
		return &ctxfsv1.SelectedChange{Path: path}
	}
	return &ctxfsv1.SelectedChange{RawPath: []byte(path)}
}

// rawTwins returns the paths that are UTF-8, and those that are not, which a protobuf string cannot hold.
func rawTwins(paths []string) (text []string, raw [][]byte) {
	for _, p := range paths {
		if utf8.ValidString(p) {
			text = append(text, p)
		} else {
			raw = append(raw, []byte(p))
		}
	}
	return text, raw
}

// moveTwins moves the paths of a request that are not UTF-8 to its raw paths.
func moveTwins(paths *[]string, raw *[][]byte) {
	text, twins := rawTwins(*paths)
	*paths, *raw = text, append(*raw, twins...)
}

// SelectPatch selects the hunks of a patch.
func SelectPatch(patch []byte) *ctxfsv1.Selection {
	return &ctxfsv1.Selection{What: &ctxfsv1.Selection_Patch{Patch: patch}}
}
