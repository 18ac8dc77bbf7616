package services

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata/labels"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// Reviews implements ReviewService.
type Reviews struct {
	ctxfsv1.UnimplementedReviewServiceServer
	Reviews  *review.Reviews
	Contexts ContextInfo
	// Forks and Run serve ApplyChecked.
	Forks *Forks
	Run   RunCommand
}

// Bounds of texts that clients send, in bytes.
const (
	maxTitle     = 200
	maxRemark    = 64 << 10
	maxRequestID = 128
	maxLines     = 1000
	// maxNamed bounds the paths that an answer names.
	maxNamed = 100
)

// maxLineText bounds the text of a DiffLine, in bytes.
const maxLineText = 4 << 10

// ListChanges implements ReviewService.
func (s *Reviews) ListChanges(req *ctxfsv1.ListChangesRequest, stream grpc.ServerStreamingServer[ctxfsv1.ListChangesResponse]) error {
	l, err := s.listOrEntry(stream.Context(), req)
	if err != nil {
		return reviewStatus(err)
	}
	defer func() { _ = l.Close() }() // it was only read
	for _, c := range l.Changes {
		if err := stream.Send(&ctxfsv1.ListChangesResponse{Event: &ctxfsv1.ListChangesResponse_Change{Change: changeToPB(l, c)}}); err != nil {
			return err
		}
	}
	return stream.Send(&ctxfsv1.ListChangesResponse{Event: &ctxfsv1.ListChangesResponse_Summary{Summary: summaryToPB(l)}})
}

func (s *Reviews) list(ctx context.Context, contextID string, paths []review.Path, ignored bool, against *ctxfsv1.Against) (*review.List, error) {
	id, reviewer, err := s.readTarget(ctx, contextID)
	if err != nil {
		return nil, err
	}
	q := review.Query{Context: string(id), Ignored: ignored, Drift: reviewer, Paths: paths}
	if q.Against, err = s.againstOf(ctx, reviewer, against); err != nil {
		return nil, err
	}
	if slices.Contains(q.Paths, "") {
		q.Paths = nil
	}
	l, err := s.Reviews.Changes(ctx, q)
	if err != nil || !q.Against.Workspace || isHost(ctx) {
		return l, err
	}
	concerned, err := s.concerned(ctx, string(id), q.Paths)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.Changes = slices.DeleteFunc(l.Changes, func(c *review.Change) bool { return !concerned[c.Path] })
	return l, nil
}

func isHost(ctx context.Context) bool { return panels.IdentityFrom(ctx).Panel == "" }

// concerned returns the paths, among some, of which a panel that reviews a context may see what the workspace holds: those that the context changed, and
// that could be applied. Ignored files are in no context: a panel that makes one must not learn what the user's holds.
func (s *Reviews) concerned(ctx context.Context, id string, paths []review.Path) (map[review.Path]bool, error) {
	l, err := s.Reviews.Changes(ctx, review.Query{Context: id, Paths: paths})
	if err != nil {
		return nil, err
	}
	out := map[review.Path]bool{}
	for _, c := range l.Changes {
		if !c.Ignored && c.Barred == "" {
			out[c.Path] = true
		}
	}
	return out, l.Close()
}

// reviewPath returns a virtual path as reviews have it: relative, and without dots.
func reviewPath(p string, raw []byte) review.Path {
	if len(raw) > 0 {
		p = string(raw)
	}
	return review.Path(strings.TrimPrefix(path.Clean("/"+p), "/"))
}

// GetDiff implements ReviewService.
func (s *Reviews) GetDiff(req *ctxfsv1.GetDiffRequest, stream grpc.ServerStreamingServer[ctxfsv1.GetDiffResponse]) error {
	lines, err := contextLines(req.GetLines())
	if err != nil {
		return reviewStatus(err)
	}
	l, err := s.listOrEntry(stream.Context(), req)
	if err != nil {
		return reviewStatus(err)
	}
	defer func() { _ = l.Close() }() // it was only read
	for _, c := range l.Changes {
		if req.GetForm() == ctxfsv1.DiffForm_DIFF_FORM_UNIFIED {
			err = s.sendPatch(stream, l, c, lines)
		} else {
			err = s.sendHunks(stream, l, c, lines)
		}
		if err != nil {
			return reviewStatus(err)
		}
	}
	return stream.Send(&ctxfsv1.GetDiffResponse{Event: &ctxfsv1.GetDiffResponse_Summary{Summary: summaryToPB(l)}})
}

func contextLines(n int32) (int, error) {
	switch {
	case n == 0:
		return 3, nil
	case n == -1:
		return 0, nil
	case n < 0 || n > maxLines:
		return 0, &fserr.Error{Code: fserr.EINVAL, Detail: "lines " + strconv.Itoa(int(n)) + " is not between -1 and " + strconv.Itoa(maxLines)}
	}
	return int(n), nil
}

func (s *Reviews) sendPatch(stream grpc.ServerStreamingServer[ctxfsv1.GetDiffResponse], l *review.List, c *review.Change, lines int) error {
	if err := stream.Send(&ctxfsv1.GetDiffResponse{Event: &ctxfsv1.GetDiffResponse_Change{Change: changeToPB(l, c)}}); err != nil {
		return err
	}
	return s.Reviews.Patch(stream.Context(), l, c, lines, chunks(func(p []byte) error {
		return stream.Send(&ctxfsv1.GetDiffResponse{Event: &ctxfsv1.GetDiffResponse_Text{Text: p}})
	}))
}

// chunkSize bounds the content of one message, in bytes.
const chunkSize = 256 << 10

// chunks is an io.Writer that sends what it is given in messages of a fit size.
type chunks func(p []byte) error

func (send chunks) Write(p []byte) (n int, err error) {
	for part := range slices.Chunk(p, chunkSize) {
		if err := send(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (s *Reviews) sendHunks(stream grpc.ServerStreamingServer[ctxfsv1.GetDiffResponse], l *review.List, c *review.Change, lines int) error {
	if err := stream.Send(&ctxfsv1.GetDiffResponse{Event: &ctxfsv1.GetDiffResponse_Change{Change: changeToPB(l, c)}}); err != nil || c.Text == nil {
		return err
	}
	d, err := s.Reviews.Text(stream.Context(), l, c)
	if err != nil {
		return err
	}
	_, verdicts := l.Verdict(c)
	for i := range d.Hunks {
		h := hunkToPB(c.Kind, d, i, lines)
		v := verdicts[h.GetHunkId()]
		h.Decision, h.Comment = decisionToPB(v.Decision), v.Comment
		if err := stream.Send(&ctxfsv1.GetDiffResponse{Event: &ctxfsv1.GetDiffResponse_Hunk{Hunk: h}}); err != nil {
			return err
		}
	}
	return nil
}

// hunkToPB converts a hunk with its context lines, at most up to the hunks beside it. One of a deletion has no ID: it is decided as a whole.
func hunkToPB(kind review.Kind, d *review.TextDiff, i, context int) *ctxfsv1.Hunk {
	h := &d.Hunks[i]
	end := h.Base + len(h.Removed)
	out := &ctxfsv1.Hunk{
		BeforeStart: firstLine(h.Base, h.Removed), BeforeLines: int32(len(h.Removed)),
		AfterStart: firstLine(h.Other, h.Added), AfterLines: int32(len(h.Added)),
	}
	if kind != review.Deleted {
		out.HunkId = h.ID
	}
	from, to := max(0, h.Base-context), min(len(d.Before), end+context)
	if i > 0 {
		from = max(from, d.Hunks[i-1].Base+len(d.Hunks[i-1].Removed))
	}
	if i+1 < len(d.Hunks) {
		to = min(to, d.Hunks[i+1].Base)
	}
	add := func(kind ctxfsv1.LineKind, lines []string) {
		for _, line := range lines {
			out.Lines = append(out.Lines, lineToPB(kind, line))
		}
	}
	add(ctxfsv1.LineKind_LINE_KIND_UNSPECIFIED, d.Before[from:h.Base])
	add(ctxfsv1.LineKind_LINE_KIND_REMOVED, h.Removed)
	add(ctxfsv1.LineKind_LINE_KIND_ADDED, h.Added)
	add(ctxfsv1.LineKind_LINE_KIND_UNSPECIFIED, d.Before[end:to])
	return out
}

func firstLine(at int, lines []string) int32 {
	if len(lines) > 0 {
		at++
	}
	return int32(at)
}

func lineToPB(kind ctxfsv1.LineKind, line string) *ctxfsv1.DiffLine {
	text, newline := strings.CutSuffix(line, "\n")
	out := &ctxfsv1.DiffLine{Kind: kind, NoNewline: !newline}
	if len(text) > maxLineText {
		text, out.Cut = text[:maxLineText], true
	}
	if utf8.ValidString(text) {
		out.Text = text
	} else {
		out.Data = []byte(text)
	}
	return out
}

// ReadVersion implements ReviewService.
func (s *Reviews) ReadVersion(req *ctxfsv1.ReadVersionRequest, stream grpc.ServerStreamingServer[ctxfsv1.ReadVersionResponse]) error {
	id, reviewer, err := s.readTarget(stream.Context(), req.GetContextId())
	if err != nil {
		return reviewStatus(err)
	}
	p := reviewPath(req.GetPath(), req.GetRawPath())
	if ofWorkspace[req.GetVersion()] && !reviewer {
		return reviewStatus(&fserr.Error{Code: fserr.EACCES, Op: "read", Path: "/" + string(p), Detail: "a panel cannot read the workspace"})
	}
	if caller := panels.IdentityFrom(stream.Context()); caller.Role != panels.RoleHost && id != caller.Context && !ofWorkspace[req.GetVersion()] {
		concerned, err := s.Reviews.Concerns(stream.Context(), string(id), p)
		if err == nil && !concerned {
			err = &fserr.Error{Code: fserr.EACCES, Op: "read", Path: "/" + string(p), Detail: "the context does not change this path, and a panel that reviews reads nothing else of it", Hint: "list the changes, or ask a host"}
		}
		if err != nil {
			return reviewStatus(err)
		}
	}
	if ofWorkspace[req.GetVersion()] && !isHost(stream.Context()) {
		concerned, err := s.concerned(stream.Context(), string(id), []review.Path{p})
		if err == nil && !concerned[p] {
			err = &fserr.Error{
				Code: fserr.EACCES, Op: "read", Path: "/" + string(p), Detail: "no change of the context concerns this path of the workspace, or it is ignored", Hint: "read the context's version, or ask a host",
			}
		}
		if err != nil {
			return reviewStatus(err)
		}
	}
	return reviewStatus(s.sendVersion(string(id), p, review.Which(req.GetVersion()), stream))
}

// sendVersion reads in a goroutine of its own: a client that does not read keeps no caller from the context.
func (s *Reviews) sendVersion(id string, p review.Path, which review.Which, stream grpc.ServerStreamingServer[ctxfsv1.ReadVersionResponse]) error {
	content, out := io.Pipe()
	version := make(chan review.Version, 1)
	var panicked any
	go func() {
		defer close(version)
		defer func() {
			panicked = recover() // the handler panics again with it
			_ = out.Close()      // it has no effect after CloseWithError
		}()
		err := s.Reviews.Read(stream.Context(), id, p, which, func(ctx context.Context, v review.Version, content io.Reader) error {
			defer context.AfterFunc(ctx, func() { out.CloseWithError(context.Cause(ctx)) })()
			version <- v
			_, err := io.CopyBuffer(out, content, make([]byte, chunkSize))
			return err
		})
		out.CloseWithError(err)
	}()
	send := func() error {
		if v, ok := <-version; ok {
			if err := stream.Send(&ctxfsv1.ReadVersionResponse{Version: versionToPB(v)}); err != nil {
				return err
			}
		}
		_, err := io.CopyBuffer(chunks(func(data []byte) error { return stream.Send(&ctxfsv1.ReadVersionResponse{Data: data}) }), content, make([]byte, chunkSize))
		return err
	}
	err := send()
	content.CloseWithError(err)
	for range version { //nolint:revive // it is closed when the goroutine has ended
	}
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// GetReview implements ReviewService.
func (s *Reviews) GetReview(ctx context.Context, req *ctxfsv1.GetReviewRequest) (*ctxfsv1.GetReviewResponse, error) {
	l, err := s.list(ctx, req.GetContextId(), nil, false, nil)
	if err != nil {
		return nil, reviewStatus(err)
	}
	defer func() { _ = l.Close() }() // it was only read
	out := &ctxfsv1.GetReviewResponse{State: ctxfsv1.ReviewState(l.State()), Summary: summaryToPB(l)}
	if sub := l.Submission(); sub != nil {
		out.Title, out.Message, out.SubmittedRevision, out.SubmittedNs = sub.Title, sub.Message, sub.Revision, ns(sub.At)
	}
	unresolved := l.Unresolved()
	for _, p := range unresolved[:min(len(unresolved), maxNamed)] {
		out.Unresolved = append(out.Unresolved, "/"+printable(p))
	}
	return out, nil
}

// WatchReview implements ReviewService.
func (s *Reviews) WatchReview(req *ctxfsv1.WatchReviewRequest, stream grpc.ServerStreamingServer[ctxfsv1.WatchReviewResponse]) error {
	id, _, err := s.readTarget(stream.Context(), req.GetContextId())
	if err != nil {
		return reviewStatus(err)
	}
	return reviewStatus(s.Reviews.Watch(stream.Context(), string(id), func(e review.Event) error {
		return stream.Send(&ctxfsv1.WatchReviewResponse{Event: ctxfsv1.ReviewEvent(e.Kind), JournalId: e.Journal})
	}))
}

// SubmitReview implements ReviewService.
func (s *Reviews) SubmitReview(ctx context.Context, req *ctxfsv1.SubmitReviewRequest) (*ctxfsv1.SubmitReviewResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := changeTarget(caller, req.GetContextId())
	if err == nil {
		err = errors.Join(tooLong("title", req.GetTitle(), maxTitle), tooLong("message", req.GetMessage(), maxRemark))
	}
	if err != nil {
		return nil, reviewStatus(err)
	}
	l, err := s.Reviews.Submit(ctx, string(id), req.GetTitle(), req.GetMessage(), actor(caller))
	if err != nil {
		return nil, reviewStatus(err)
	}
	return &ctxfsv1.SubmitReviewResponse{Revision: l.Revision, Summary: summaryToPB(l)}, nil
}

func tooLong(field, text string, most int) error {
	if len(text) <= most {
		return nil
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: field + " has " + strconv.Itoa(len(text)) + " bytes", Hint: "at most " + strconv.Itoa(most) + " are kept"}
}

// actor returns the caller's name for decisions and the journal.
func actor(caller panels.Identity) string {
	if caller.Panel != "" {
		return caller.Panel
	}
	return review.Host
}

// Discard implements ReviewService.
func (s *Reviews) Discard(ctx context.Context, req *ctxfsv1.DiscardRequest) (*ctxfsv1.DiscardResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := changeTarget(caller, req.GetContextId())
	if err != nil {
		return nil, reviewStatus(err)
	}
	sel, err := selectionOf(req.GetSelection())
	if err != nil {
		return nil, reviewStatus(err)
	}
	e, err := s.Reviews.Discard(ctx, string(id), *sel, req.GetIfRevision(), actor(caller))
	if err != nil {
		return nil, reviewStatus(err)
	}
	out := &ctxfsv1.DiscardResponse{JournalId: e.ID}
	out.LeftOut, out.LeftOutCount = leftOutToPB(e.LeftOut)
	for _, f := range e.Files() {
		out.Paths = append(out.Paths, "/"+printable(f.Path))
	}
	return out, nil
}

// Decide implements ReviewService.
func (s *Reviews) Decide(ctx context.Context, req *ctxfsv1.DecideRequest) (*ctxfsv1.DecideResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := s.reviewTarget(ctx, req.GetContextId())
	if err == nil {
		err = tooLong("comment", req.GetComment(), maxRemark)
	}
	if err != nil {
		return nil, reviewStatus(err)
	}
	sel, err := selectionOf(req.GetSelection())
	if err != nil {
		return nil, reviewStatus(err)
	}
	done, err := s.Reviews.Decide(ctx, review.DecideRequest{
		Context: string(id), Selection: *sel, Decision: decisionOf(req.GetDecision()), Comment: req.GetComment(), Actor: actor(caller), IfRevision: req.GetIfRevision(),
	})
	if err != nil {
		return nil, reviewStatus(err)
	}
	out := &ctxfsv1.DecideResponse{Changes: int32(done.Changes), Hunks: int32(done.Hunks)}
	out.LeftOut, out.LeftOutCount = leftOutToPB(done.LeftOut)
	return out, nil
}

// maxLeftOut bounds the changes that an answer names as left out.
const maxLeftOut = 100

// leftOutToPB returns the first ones, and how many there are.
func leftOutToPB(left []review.LeftOut) (out []*ctxfsv1.LeftOut, count int32) {
	for _, l := range left[:min(len(left), maxLeftOut)] {
		pb := &ctxfsv1.LeftOut{Reason: l.Reason, Hunks: int32(l.Hunks)}
		pb.Path, pb.RawPath = virtual(l.Path)
		out = append(out, pb)
	}
	return out, int32(len(left))
}

// Apply implements ReviewService.
func (s *Reviews) Apply(ctx context.Context, req *ctxfsv1.ApplyRequest) (*ctxfsv1.ApplyResponse, error) {
	apply, err := s.applyOf(ctx, req)
	if err != nil {
		return nil, reviewStatus(err)
	}
	e, err := s.Reviews.Apply(ctx, apply)
	if err != nil {
		return nil, reviewStatus(err)
	}
	return appliedToPB(e), nil
}

func appliedToPB(e *review.Entry) *ctxfsv1.ApplyResponse {
	out := &ctxfsv1.ApplyResponse{JournalId: e.ID, Files: filesToPB(e), Commits: commitsToPB(e)}
	out.LeftOut, out.LeftOutCount = leftOutToPB(e.LeftOut)
	return out
}

func (s *Reviews) applyOf(ctx context.Context, req *ctxfsv1.ApplyRequest) (apply review.ApplyRequest, err error) {
	caller := panels.IdentityFrom(ctx)
	id, err := s.reviewTarget(ctx, req.GetContextId())
	if err == nil {
		err = tooLong("request_id", req.GetRequestId(), maxRequestID)
	}
	var commit review.CommitOptions
	if err == nil {
		commit, err = commitOptionsOf(caller, req.GetCommit())
	}
	if err != nil {
		return apply, err
	}
	apply = review.ApplyRequest{
		Context: string(id), Approve: req.GetApprove(), IfRevision: req.GetIfRevision(), RefuseMerge: req.GetRefuseMerge(), DryRun: req.GetDryRun(),
		RequestID: req.GetRequestId(), Actor: actor(caller), Target: targetOf(req.GetTarget()), Commit: commit,
	}
	if req.GetSelection() != nil {
		apply.Selection, err = selectionOf(req.GetSelection())
	}
	return apply, err
}

// ListJournal implements ReviewService.
func (s *Reviews) ListJournal(ctx context.Context, req *ctxfsv1.ListJournalRequest) (*ctxfsv1.ListJournalResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id := req.GetContextId()
	if caller.Role != panels.RoleHost || id != "" {
		target, err := s.reviewTarget(ctx, id)
		if err != nil {
			return nil, reviewStatus(err)
		}
		id = string(target)
	}
	labelled, err := s.labelled(ctx, caller, req.GetLabelSelectors())
	if err != nil {
		return nil, reviewStatus(err)
	}
	before, err := pageToken(req.GetPageToken())
	if err != nil {
		return nil, reviewStatus(err)
	}
	const most = 100
	size := int(req.GetPageSize())
	if size <= 0 || size > most {
		size = most
	}
	below := reviewPath(req.GetPath(), req.GetRawPath())
	entries, more, err := s.Reviews.Journal(ctx, func(e *review.Entry) bool {
		return (id == "" || e.Context == id) && labelled(e.Context) && (below == "" || slices.ContainsFunc(e.Files(), func(f review.AppliedFile) bool { return f.Path.Within(below) }))
	}, before, size)
	if err != nil {
		return nil, reviewStatus(err)
	}
	out := &ctxfsv1.ListJournalResponse{}
	for _, e := range entries {
		out.Entries = append(out.Entries, entryToPB(e))
	}
	if more {
		out.NextPageToken = strconv.FormatInt(entries[len(entries)-1].ID, 10)
	}
	return out, nil
}

// labelled returns whether the labels of a context match, by its ID.
func (s *Reviews) labelled(ctx context.Context, caller panels.Identity, terms []string) (func(id string) bool, error) {
	selected, err := labels.Parse(terms)
	switch {
	case err != nil:
		return nil, err
	case selected == nil:
		return func(string) bool { return true }, nil
	case caller.Role != panels.RoleHost || caller.Panel != "":
		return nil, &fserr.Error{Code: fserr.EACCES, Detail: "only a host can select by labels", Hint: "leave label_selectors empty"}
	}
	list, err := s.Contexts.List(ctx)
	if err != nil {
		return nil, err
	}
	set := make(map[string]map[string]string, len(list))
	for _, c := range list {
		set[string(c.ID)] = c.Labels
	}
	return func(id string) bool { return selected.Matches(set[id]) }, nil
}

func pageToken(token string) (int64, error) {
	if token == "" {
		return 0, nil
	}
	before, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		return 0, &fserr.Error{Code: fserr.EINVAL, Detail: "bad token of a page", Hint: "use the one that the page before ended with"}
	}
	return before, nil
}

// Undo implements ReviewService.
func (s *Reviews) Undo(ctx context.Context, req *ctxfsv1.UndoRequest) (*ctxfsv1.UndoResponse, error) {
	caller := panels.IdentityFrom(ctx)
	undo := review.UndoRequest{ID: req.GetJournalId(), Actor: actor(caller), DryRun: req.GetDryRun(), May: func(e *review.Entry) error {
		if caller.Role == panels.RoleHost {
			return nil
		}
		return s.mayReview(ctx, caller, contexts.ID(e.Context), e.At)
	}}
	if req.GetCommit() != nil {
		opts, err := commitOptionsOf(caller, req.GetCommit())
		if err != nil {
			return nil, reviewStatus(err)
		}
		undo.Commit = &opts
	}
	e, err := s.Reviews.Undo(ctx, undo)
	if err != nil {
		return nil, reviewStatus(err)
	}
	out := &ctxfsv1.UndoResponse{JournalId: e.ID, Files: filesToPB(e), Commits: commitsToPB(e)}
	out.LeftOut, out.LeftOutCount = leftOutToPB(e.LeftOut)
	return out, nil
}

func selectionOf(s *ctxfsv1.Selection) (*review.Selection, error) {
	out := &review.Selection{Seen: s.GetSeen()}
	switch what := s.GetWhat().(type) {
	case *ctxfsv1.Selection_All:
		out.All = what.All
	case *ctxfsv1.Selection_Approved:
		out.Approved = what.Approved
	case *ctxfsv1.Selection_Patch:
		out.Patch = what.Patch
		return out, nil
	case *ctxfsv1.Selection_Changes:
		for _, c := range what.Changes.GetChanges() {
			out.Changes = append(out.Changes, review.Selected{Path: reviewPath(c.GetPath(), c.GetRawPath()), ChangeID: c.GetChangeId(), Hunks: c.GetHunkIds()})
		}
	}
	if !out.All && !out.Approved && len(out.Changes) == 0 {
		return nil, &fserr.Error{Code: fserr.EINVAL, Detail: "nothing is selected", Hint: "set all, approved, changes or patch"}
	}
	return out, nil
}

// Conversions.
