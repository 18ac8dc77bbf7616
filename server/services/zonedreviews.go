package services

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// ZonedReviews implements ReviewService for contexts that were seeded into a zone too. Reviews have the paths of the workspace; the paths of
// these contexts begin with the zone.
type ZonedReviews struct {
	*Reviews
	// Into returns the zone that a context was seeded into, "" for its root (contexts.Manager.SeededInto).
	Into func(id contexts.ID) (string, error)
}

// into returns the zone of the context that a call is about. Where the context cannot be found, the call says why.
func (s *ZonedReviews) into(ctx context.Context, named string) string {
	id, err := infoTarget(panels.IdentityFrom(ctx), named)
	caller := panels.IdentityFrom(ctx)
	if caller.Rights&panels.RightReview != 0 && named != "" {
		id, err = parseID(named)
	}
	if err != nil {
		return ""
	}
	zone, err := s.Into(id)
	if err != nil {
		return ""
	}
	return zone
}

// zonedCall calls a method with paths of the workspace, and returns its answer with those of the context.
func zonedCall[Q, P proto.Message](ctx context.Context, into string, req Q, call func(context.Context, Q) (P, error)) (resp P, err error) {
	if into == "" {
		return call(ctx, req)
	}
	if req, err = leaveZone(into, req); err != nil {
		return resp, fserrpb.ToStatus(err)
	}
	if resp, err = call(ctx, req); err != nil {
		return resp, zonedStatus(into, err)
	}
	enterZone(into, resp)
	return resp, nil
}

// zonedStream is a stream whose messages get paths of the context.
type zonedStream[P any] struct {
	grpc.ServerStreamingServer[P]
	into string
}

// Send implements grpc.ServerStreamingServer.
func (s zonedStream[P]) Send(m *P) error {
	if msg, ok := any(m).(proto.Message); ok {
		enterZone(s.into, msg)
	}
	return s.ServerStreamingServer.Send(m)
}

// zonedStreaming is zonedCall for a method that streams.
func zonedStreaming[Q proto.Message, P any](into string, req Q, stream grpc.ServerStreamingServer[P], call func(Q, grpc.ServerStreamingServer[P]) error) error {
	if into == "" {
		return call(req, stream)
	}
	req, err := leaveZone(into, req)
	if err != nil {
		return fserrpb.ToStatus(err)
	}
	return zonedStatus(into, call(req, zonedStream[P]{stream, into}))
}

// ListChanges implements ReviewService.
func (s *ZonedReviews) ListChanges(req *ctxfsv1.ListChangesRequest, stream grpc.ServerStreamingServer[ctxfsv1.ListChangesResponse]) error {
	return zonedStreaming(s.intoListed(stream.Context(), req), req, stream, s.Reviews.ListChanges)
}

// GetDiff implements ReviewService.
func (s *ZonedReviews) GetDiff(req *ctxfsv1.GetDiffRequest, stream grpc.ServerStreamingServer[ctxfsv1.GetDiffResponse]) error {
	return zonedStreaming(s.intoListed(stream.Context(), req), req, stream, s.Reviews.GetDiff)
}

// intoListed is into for a call that may name an entry of the journal instead of a context.
func (s *ZonedReviews) intoListed(ctx context.Context, req changesRequest) string {
	if id := req.GetJournalId(); id != 0 {
		return s.intoEntry(ctx, id)
	}
	return s.into(ctx, req.GetContextId())
}

// intoEntry returns the zone of the context that an entry of the journal is of, "" if that is gone.
func (s *ZonedReviews) intoEntry(ctx context.Context, entry int64) string {
	found, _, err := s.Reviews.Reviews.Journal(ctx, func(e *review.Entry) bool { return e.ID == entry }, entry+1, 1)
	if err != nil || len(found) == 0 {
		return ""
	}
	return s.intoOf(found[0].Context)
}

func (s *ZonedReviews) intoOf(id string) string {
	zone, err := s.Into(contexts.ID(id))
	if err != nil {
		return ""
	}
	return zone
}

// ReadVersion implements ReviewService.
func (s *ZonedReviews) ReadVersion(req *ctxfsv1.ReadVersionRequest, stream grpc.ServerStreamingServer[ctxfsv1.ReadVersionResponse]) error {
	return zonedStreaming(s.into(stream.Context(), req.GetContextId()), req, stream, s.Reviews.ReadVersion)
}

// GetReview implements ReviewService.
func (s *ZonedReviews) GetReview(ctx context.Context, req *ctxfsv1.GetReviewRequest) (*ctxfsv1.GetReviewResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.GetReview)
}

// SubmitReview implements ReviewService.
func (s *ZonedReviews) SubmitReview(ctx context.Context, req *ctxfsv1.SubmitReviewRequest) (*ctxfsv1.SubmitReviewResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.SubmitReview)
}

// Discard implements ReviewService.
func (s *ZonedReviews) Discard(ctx context.Context, req *ctxfsv1.DiscardRequest) (*ctxfsv1.DiscardResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.Discard)
}

// Decide implements ReviewService.
func (s *ZonedReviews) Decide(ctx context.Context, req *ctxfsv1.DecideRequest) (*ctxfsv1.DecideResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.Decide)
}

// Apply implements ReviewService.
func (s *ZonedReviews) Apply(ctx context.Context, req *ctxfsv1.ApplyRequest) (*ctxfsv1.ApplyResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.Apply)
}

// ApplyChecked implements ReviewService.
func (s *ZonedReviews) ApplyChecked(req *ctxfsv1.ApplyCheckedRequest, stream checkedStream) error {
	return zonedStreaming(s.into(stream.Context(), req.GetApply().GetContextId()), req, stream, s.Reviews.ApplyChecked)
}

// ListJournal implements ReviewService. Without a context in the request, its path is one of the workspace.
func (s *ZonedReviews) ListJournal(ctx context.Context, req *ctxfsv1.ListJournalRequest) (*ctxfsv1.ListJournalResponse, error) {
	var err error
	if req.GetContextId() != "" {
		if req, err = leaveZone(s.into(ctx, req.GetContextId()), req); err != nil {
			return nil, fserrpb.ToStatus(err)
		}
	}
	resp, err := s.Reviews.ListJournal(ctx, req)
	for _, e := range resp.GetEntries() {
		enterZone(s.intoOf(e.GetContextId()), e)
	}
	return resp, err
}

// Undo implements ReviewService.
func (s *ZonedReviews) Undo(ctx context.Context, req *ctxfsv1.UndoRequest) (*ctxfsv1.UndoResponse, error) {
	return zonedCall(ctx, s.intoEntry(ctx, req.GetJournalId()), req, s.Reviews.Undo)
}

// Rebase implements ReviewService.
func (s *ZonedReviews) Rebase(ctx context.Context, req *ctxfsv1.RebaseRequest) (*ctxfsv1.RebaseResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.Rebase)
}

// ListConflicts implements ReviewService.
func (s *ZonedReviews) ListConflicts(ctx context.Context, req *ctxfsv1.ListConflictsRequest) (*ctxfsv1.ListConflictsResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.ListConflicts)
}

// ResolveConflict implements ReviewService.
func (s *ZonedReviews) ResolveConflict(ctx context.Context, req *ctxfsv1.ResolveConflictRequest) (*ctxfsv1.ResolveConflictResponse, error) {
	return zonedCall(ctx, s.into(ctx, req.GetContextId()), req, s.Reviews.ResolveConflict)
}

// pathFields are the fields of review.proto that have paths of a context.
var pathFields = []protoreflect.Name{"path", "raw_path", "paths", "raw_paths", "renamed_from", "repository", "unresolved"}

// reviewFile is the file whose messages have pathFields.
const reviewFile = "ctxfs/v1/review.proto"

// enterZone puts a zone before the paths of a message.
func enterZone(into string, m proto.Message) {
	if into == "" {
		return
	}
	_ = mapPaths(m.ProtoReflect(), func(p string) (string, error) {
		return strings.TrimSuffix("/"+into+p, "/"), nil
	}) // the function does not fail
}

// leaveZone returns a copy of a request with paths of the workspace. It fails with EINVAL for a path outside of the zone.
func leaveZone[Q proto.Message](into string, req Q) (Q, error) {
	if into == "" {
		return req, nil
	}
	out, _ := proto.Clone(req).(Q)
	err := mapPaths(out.ProtoReflect(), func(p string) (string, error) {
		clean := path.Clean("/" + p)
		rel, below := strings.CutPrefix(clean, "/"+into+"/")
		switch {
		case below:
			return "/" + rel, nil
		case clean == "/" || clean == "/"+into:
			return "/", nil
		}
		return "", &fserr.Error{
			Code: fserr.EINVAL, Path: clean, Detail: "the path is outside of the zone /" + into + ", and nothing elsewhere is ever a change",
			Hint: "name a path below /" + into,
		}
	})
	return out, err
}

// mapPaths replaces the paths of a message, and of those in it.
func mapPaths(m protoreflect.Message, f func(string) (string, error)) (err error) {
	if !m.IsValid() {
		return nil
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		ofPath := fd.ParentFile().Path() == reviewFile && slices.Contains(pathFields, fd.Name())
		switch {
		case fd.IsMap():
		case fd.IsList():
			err = mapList(fd, v.List(), ofPath, f)
		case fd.Kind() == protoreflect.MessageKind:
			err = mapPaths(v.Message(), f)
		case ofPath:
			if v, err = mapPath(fd, v, f); err == nil {
				m.Set(fd, v)
			}
		}
		return err == nil
	})
	return err
}

func mapList(fd protoreflect.FieldDescriptor, list protoreflect.List, ofPath bool, f func(string) (string, error)) error {
	for i := range list.Len() {
		v := list.Get(i)
		var err error
		switch {
		case fd.Kind() == protoreflect.MessageKind:
			err = mapPaths(v.Message(), f)
		case ofPath:
			if v, err = mapPath(fd, v, f); err == nil {
				list.Set(i, v)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func mapPath(fd protoreflect.FieldDescriptor, v protoreflect.Value, f func(string) (string, error)) (protoreflect.Value, error) {
	if fd.Kind() == protoreflect.BytesKind {
		p, err := f(string(v.Bytes()))
		return protoreflect.ValueOfBytes([]byte(p)), err
	}
	p, err := f(v.String())
	return protoreflect.ValueOfString(p), err
}

// enterRefusal puts a zone before the files of a refusal, which no other call has. It reports whether err is a refusal.
func enterRefusal(into string, err error) bool {
	var refused *fserrpb.Refusal
	if !errors.As(err, &refused) {
		return false
	}
	for _, f := range refused.Files {
		enterZone(into, f)
	}
	return true
}

// zonedStatus returns the error of a call with paths of the context.
func zonedStatus(into string, err error) error {
	if enterRefusal(into, err) {
		return err
	}
	st, ok := status.FromError(err)
	if err == nil || !ok || len(st.Details()) == 0 {
		return err
	}
	message := st.Message()
	var details []protoadapt.MessageV1
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			for _, key := range []string{"path", "dest"} {
				if p := d.GetMetadata()[key]; strings.HasPrefix(p, "/") {
					d.Metadata[key] = strings.TrimSuffix("/"+into+p, "/")
					message = strings.ReplaceAll(message, "'"+p+"'", "'"+d.Metadata[key]+"'")
				}
			}
			details = append(details, protoadapt.MessageV1Of(d))
		case proto.Message:
			details = append(details, protoadapt.MessageV1Of(d))
		}
	}
	zoned, derr := status.New(st.Code(), message).WithDetails(details...)
	if derr != nil {
		return err
	}
	return zoned.Err()
}
