package fserrpb

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"sort"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Reason describes a refusal that no errno describes.
type Reason struct {
	// Code is its gRPC code.
	Code codes.Code
	// Text says when a call is refused so.
	Text string
	// ListedBy is the call or the command that lists all files that the refusal is about; "" for a refusal that is about none.
	ListedBy string
}

// reasons has every reason by its name, as it travels.
var reasons = map[string]Reason{
	"CONFLICT":        {codes.Aborted, "files could not be merged, or a program changed them meanwhile", "ReviewService/ListChanges"},
	"STALE_REVISION":  {codes.Aborted, "a revision, change or hunk is not there any more", "ReviewService/ListChanges"},
	"NOT_APPROVED":    {codes.FailedPrecondition, "the selection has changes that are not approved", "ReviewService/ListChanges"},
	"BARRED_PATH":     {codes.PermissionDenied, "a rule keeps the file out of the workspace", "ReviewService/ListChanges"},
	"UNRESOLVED":      {codes.FailedPrecondition, "an earlier rebase recorded conflicts that are not resolved", "ReviewService/ListConflicts"},
	"REPOSITORY_BUSY": {codes.FailedPrecondition, "a git command is at work in a repository", "GitService/ListRepositories"},
	"DIRTY_COMMIT":    {codes.FailedPrecondition, "a commit needs changes of the user's that are not committed", "git status"},
	"NO_REPOSITORY":   {codes.FailedPrecondition, "files that are to be committed belong to no repository", "ReviewService/ListChanges"},
	"NOT_APPLIED":     {codes.FailedPrecondition, "a context has changes that were not applied, which would be lost", "ReviewService/ListChanges"},
	"HOOK_FAILED":     {codes.FailedPrecondition, "a hook failed, or changed the content of the commit", "git status"},
	"LAYER_MISSING":   {codes.FailedPrecondition, "the layer that the context was seeded with is missing, so that its changes are not known", ""},
	"CHECK_FAILED":    {codes.FailedPrecondition, "a check of the result failed", ""},

	"GIT_FILTER":            {codes.Unimplemented, "files need a filter program, such as Git LFS", "GitService/GitStatus"},
	"GIT_SUBMODULE":         {codes.Unimplemented, "files are, or are in, a submodule", "GitService/GitStatus"},
	"GIT_CONFLICT":          {codes.Aborted, "the target, or the ref, changed the same lines", "GitService/GitStatus"},
	"GIT_NON_FAST_FORWARD":  {codes.Aborted, "the target got other commits", ""},
	"GIT_STALE_BASE":        {codes.Aborted, "the commit is not the one that was reviewed", ""},
	"GIT_WORKTREE_DIRTY":    {codes.FailedPrecondition, "the user has changed, or staged, the same files of the branch that is checked out", "git status"},
	"GIT_AUTH":              {codes.FailedPrecondition, "the remote refuses the server's credentials, or asks for some", ""},
	"GIT_REJECTED":          {codes.FailedPrecondition, "the remote refuses the commit", ""},
	"GIT_NOTHING_TO_COMMIT": {codes.FailedPrecondition, "no change is selected, or the branch has them all", ""},
	"GIT_LOCKED":            {codes.Unavailable, "another git command has a lock; a retry may succeed", ""},
	"GIT_UNREACHABLE":       {codes.Unavailable, "the remote does not answer; a retry may succeed", ""},
	"GIT_NO_REPOSITORY":     {codes.NotFound, "there is no such repository", ""},
	"GIT_NO_REF":            {codes.NotFound, "there is no such branch, tag, commit or remote", ""},
	"GIT_NO_STAGED":         {codes.NotFound, "there is no such staged commit", ""},
	"GIT_TOO_LARGE":         {codes.ResourceExhausted, "more than one call may have", ""},

	"EXEC_UNAVAILABLE": {codes.FailedPrecondition, "the server's machine cannot isolate commands", ""},
}

// Reasons returns every reason by its name, as it travels.
func Reasons() map[string]Reason { return maps.Clone(reasons) }

// Refusal is an error that a reason names, and no errno: of a review, of git or of a command.
type Refusal struct {
	// Reason is the name of one of Reasons.
	Reason string
	// Detail says what, Hint the remedy. Detail names no files: the text of the error does.
	Detail, Hint string
	// Metadata has what a program may read besides, without empty values.
	Metadata map[string]string
	// Files are all files that the refusal is about.
	Files []*ctxfsv1.RefusedFile
	// RetryAfter, when positive, says that the same call may succeed after this long.
	RetryAfter time.Duration
	// Err is the cause, for logs; nil for none. It never travels.
	Err error
}

// Error returns the text that travels, with the first files.
func (r *Refusal) Error() string { return r.GRPCStatus().Message() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// Code returns the gRPC code of the reason.
func (r *Refusal) Code() codes.Code {
	if known, ok := reasons[r.Reason]; ok {
		return known.Code
	}
	return codes.FailedPrecondition
}

// maxTrailer bounds the text and the details of a refusal as gRPC sends them, in bytes. Some gRPC libraries accept 8 KiB of trailers at most.
// The rest is for trailers such as the request's ID.
const maxTrailer = 7 << 10

// minFile is the least that a file needs in a trailer, in bytes.
const minFile = 4

// GRPCStatus returns the status that gRPC sends. It has as many files as fit into it.
func (r *Refusal) GRPCStatus() *status.Status {
	most := min(len(r.Files), maxTrailer/minFile)
	return r.withFiles(sort.Search(most, func(n int) bool { return trailerSize(r.withFiles(n+1)) > maxTrailer }))
}

// withFiles returns the status with the first n files.
func (r *Refusal) withFiles(n int) *status.Status {
	detail, hint := r.Detail+named(r.Files), r.Hint
	files := &ctxfsv1.RefusedFiles{Files: r.Files[:n], FileCount: int32(len(r.Files))}
	if n < len(r.Files) {
		files.ListedBy = reasons[r.Reason].ListedBy
		hint = joined(hint, fmt.Sprintf("this error lists %d of %d files", n, len(r.Files)))
		if by := path.Base(files.GetListedBy()); files.GetListedBy() != "" {
			hint += fmt.Sprintf(", and %s lists them all", by)
		}
	}
	detail, hint = cut(Valid(detail)), cut(Valid(hint))
	info := &errdetails.ErrorInfo{Reason: r.Reason, Domain: Domain, Metadata: map[string]string{"detail": detail}}
	for key, value := range r.Metadata {
		info.Metadata[key] = cut(Valid(value))
	}
	if hint != "" {
		info.Metadata["hint"] = hint
	}
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(info)}
	if len(r.Files) > 0 {
		details = append(details, protoadapt.MessageV1Of(files))
	}
	if r.RetryAfter > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)}))
	}
	st := status.New(r.Code(), joined(r.Reason+": "+detail, hint))
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st
}

func joined(text, hint string) string {
	switch {
	case hint == "":
		return text
	case text == "":
		return hint
	}
	return text + "; " + hint
}

// maxName bounds a name in a text, in bytes. The files themselves have it whole.
const maxName = 200

// named lists the first few files for a text.
func named(files []*ctxfsv1.RefusedFile) string {
	var names []string
	for _, f := range files[:min(len(files), fserr.FewNames)] {
		name := f.GetPath() + string(f.GetRawPath())
		names = append(names, cutTo(Printable(cmp.Or(strings.TrimPrefix(name, "/"), name)), maxName))
	}
	return fserr.Names(names, len(files))
}

// trailerSize returns how many bytes gRPC needs for a status: its text, in which other characters than printable ASCII take three bytes for
// each of their own, and its protobuf in base64.
func trailerSize(st *status.Status) int {
	size := len("grpc-message") + len("grpc-status-details-bin")
	for _, b := range []byte(st.Message()) {
		if size++; b < ' ' || b > '~' || b == '%' {
			size += 2
		}
	}
	return size + base64.RawStdEncoding.EncodedLen(proto.Size(st.Proto()))
}

// refusalOf returns the Refusal in err's chain; nil when there is none.
func refusalOf(err error) *Refusal {
	var r *Refusal
	errors.As(err, &r)
	return r
}

// ReasonOf returns what an error is counted and recorded as: the name of its errno, or the reason of a refusal. It is "" for nil, and for a
// status of gRPC's own.
func ReasonOf(err error) string {
	if r := refusalOf(err); r != nil {
		return r.Reason
	}
	e, ok := FromStatus(err)
	switch {
	case !ok:
		return ""
	case e.Reason != "":
		return e.Reason
	}
	return e.Code.String()
}

// FilesOf returns the files that a refusal is about; nil when its error has none.
func FilesOf(err error) *ctxfsv1.RefusedFiles {
	for _, d := range status.Convert(err).Details() {
		if files, ok := d.(*ctxfsv1.RefusedFiles); ok {
			return files
		}
	}
	return nil
}

// nearest returns the errno that is nearest to a gRPC code, for a reason that no errno describes.
func nearest(code codes.Code) fserr.Code {
	near := map[codes.Code]fserr.Code{
		codes.Aborted: fserr.ESTALE, codes.FailedPrecondition: fserr.EBUSY, codes.PermissionDenied: fserr.EACCES, codes.NotFound: fserr.ENOENT,
		codes.Unavailable: fserr.EAGAIN, codes.Unimplemented: fserr.EOPNOTSUPP, codes.ResourceExhausted: fserr.EFBIG, codes.InvalidArgument: fserr.EINVAL,
		codes.AlreadyExists: fserr.EEXIST,
	}
	if c, ok := near[code]; ok {
		return c
	}
	return fserr.EIO
}
