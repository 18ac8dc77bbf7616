// Package fserrpb maps fserr.Error to a gRPC status with google.rpc.ErrorInfo, and back.
//
// The status carries one ErrorInfo: reason is the errno's name, domain "ctxfs",
// metadata errno, syscall, path, dest, hint, detail, kind, etag, written and step, each value
// cut at 1 KiB. A path that is not UTF-8 is escaped as in a Go string literal;
// metadata "escaped" says which: "path", "dest" or "path,dest". An error that may be retried carries RetryInfo too.
//
// A Refusal has no errno: its reason is one of Reasons, and its files are in a ctxfs.v1.RefusedFiles.
package fserrpb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ctxfs/ctxfs/fserr"
)

// Domain is ErrorInfo's domain of all errors of ctxfs.
const Domain = "ctxfs"

// maxValue bounds a value of the metadata, in bytes.
const maxValue = 1024

var grpcCodes = map[fserr.Code]codes.Code{
	fserr.ENOENT: codes.NotFound, fserr.ESTALE: codes.NotFound,
	fserr.EEXIST: codes.AlreadyExists,
	fserr.EACCES: codes.PermissionDenied, fserr.EPERM: codes.PermissionDenied,
	fserr.ENOTDIR: codes.FailedPrecondition, fserr.EISDIR: codes.FailedPrecondition,
	fserr.ENOTEMPTY: codes.FailedPrecondition, fserr.EXDEV: codes.FailedPrecondition,
	fserr.ELOOP: codes.FailedPrecondition, fserr.EBADF: codes.FailedPrecondition,
	fserr.EROFS: codes.FailedPrecondition, fserr.EBUSY: codes.FailedPrecondition,
	fserr.ETXTBSY: codes.FailedPrecondition, fserr.EMLINK: codes.FailedPrecondition,
	fserr.ESPIPE: codes.FailedPrecondition,
	fserr.EINVAL: codes.InvalidArgument, fserr.ENAMETOOLONG: codes.InvalidArgument,
	fserr.ERANGE: codes.InvalidArgument, fserr.EOVERFLOW: codes.InvalidArgument,
	fserr.ENOSPC: codes.ResourceExhausted, fserr.EDQUOT: codes.ResourceExhausted,
	fserr.EMFILE: codes.ResourceExhausted, fserr.ENFILE: codes.ResourceExhausted,
	fserr.EFBIG: codes.ResourceExhausted, fserr.ENOMEM: codes.ResourceExhausted,
	fserr.EOPNOTSUPP: codes.Unimplemented, fserr.ENOSYS: codes.Unimplemented,
	fserr.EAGAIN:    codes.Unavailable,
	fserr.ECANCELED: codes.Canceled, fserr.ETIMEDOUT: codes.DeadlineExceeded,
}

// GRPCCode returns the gRPC code of an errno; INTERNAL for those without a better one.
func GRPCCode(c fserr.Code) codes.Code {
	if code, ok := grpcCodes[c]; ok {
		return code
	}
	return codes.Internal
}

// CodeOf returns the gRPC code of what ToStatus returned; OK for nil.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	var done *statusError
	if errors.As(err, &done) {
		return done.code
	}
	if r := refusalOf(err); r != nil {
		return r.Code()
	}
	return status.Code(err)
}

// ToStatus returns err as what a gRPC handler returns. A *Refusal or an *fserr.Error in the chain
// decides; an error that is a gRPC status already is returned as it is; anything
// else becomes EIO without its text, which may name server paths. nil is nil.
//
// The result still holds the *fserr.Error: the status is made when it is asked for.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	var done *statusError
	if errors.As(err, &done) {
		return err
	}
	if r := refusalOf(err); r != nil {
		return r
	}
	var e *fserr.Error
	if !errors.As(err, &e) {
		if _, ok := status.FromError(err); ok {
			return err
		}
		e = &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	}
	return &statusError{e.WithRemedy(), codeOfError(e)}
}

// codeOfError returns the gRPC code of an error: ABORTED for a condition that failed, else that of its errno.
func codeOfError(e *fserr.Error) codes.Code {
	if e.Kind == fserr.KindCondition {
		return codes.Aborted
	}
	return GRPCCode(e.Code)
}

// WithCode is ToStatus with another gRPC code than the errno's.
func WithCode(e *fserr.Error, code codes.Code) error { return &statusError{e, code} }

// statusError is an *fserr.Error as a gRPC handler returns it.
type statusError struct {
	e    *fserr.Error
	code codes.Code
}

func (s *statusError) Error() string { return s.e.Error() }
func (s *statusError) Unwrap() error { return s.e }

// GRPCStatus is what gRPC asks for.
func (s *statusError) GRPCStatus() *status.Status {
	e := s.e
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(&errdetails.ErrorInfo{
		Reason: e.Code.String(), Domain: Domain, Metadata: metadataOf(e),
	})}
	if e.RetryAfter > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}))
	}
	st := status.New(s.code, messageOf(e))
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st
}

// messageOf is e's text with what can travel of its paths.
func messageOf(e *fserr.Error) string {
	safe := *e
	safe.Path, safe.Dest = Printable(e.Path), Printable(e.Dest)
	return Valid(safe.Error())
}

func metadataOf(e *fserr.Error) map[string]string {
	md := map[string]string{"errno": strconv.Itoa(int(e.Code))}
	put := func(key, value string) {
		if value != "" {
			md[key] = cut(Valid(value))
		}
	}
	put("syscall", e.Op)
	put("path", Printable(e.Path))
	put("dest", Printable(e.Dest))
	put("hint", e.Hint)
	put("detail", e.Detail)
	put("kind", string(e.Kind))
	put("etag", e.ETag)
	put("escaped", escaped(e))
	if e.Written > 0 {
		md["written"] = strconv.FormatInt(e.Written, 10)
	}
	if e.Step > 0 {
		md["step"] = strconv.Itoa(e.Step - 1)
	}
	return md
}

// escaped names the paths of e that are not UTF-8.
func escaped(e *fserr.Error) string {
	var names []string
	if !utf8.ValidString(e.Path) {
		names = append(names, "path")
	}
	if !utf8.ValidString(e.Dest) {
		names = append(names, "dest")
	}
	return strings.Join(names, ",")
}

// Printable returns path as it is when it is UTF-8, else escaped as in a Go string literal.
func Printable(path string) string {
	if utf8.ValidString(path) {
		return cut(path)
	}
	quoted := strconv.QuoteToASCII(path)
	return cut(quoted[1 : len(quoted)-1])
}

// Valid returns a text with each byte that is not UTF-8 escaped as in a Go string literal: a name in it stays readable.
func Valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, text[0])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

func cut(s string) string { return cutTo(s, maxValue) }

// cutTo returns at most so many bytes of a text.
func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most-len("…")]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// FromStatus returns a gRPC error as *fserr.Error; false when it does not come
// from ctxfs (the transport's own errors, a server of another kind).
func FromStatus(err error) (*fserr.Error, bool) {
	var done *statusError
	if errors.As(err, &done) {
		e := *done.e
		e.Path, e.Dest = Printable(e.Path), Printable(e.Dest)
		return &e, true
	}
	st, ok := status.FromError(err)
	if !ok || err == nil {
		return nil, false
	}
	info, retry := detailsOf(st)
	if info == nil {
		return nil, false
	}
	e := errorOf(info.GetReason(), st.Code(), info.GetMetadata())
	e.RetryAfter, e.Err = retry, err
	return e, true
}

// errorOf is what travels in an ErrorInfo.
func errorOf(reason string, code codes.Code, md map[string]string) *fserr.Error {
	written, _ := strconv.ParseInt(md["written"], 10, 64)
	step, err := strconv.Atoi(md["step"])
	if err != nil || step < 0 {
		step = -1
	}
	e := &fserr.Error{
		Op: md["syscall"], Path: md["path"], Dest: md["dest"],
		Detail: md["detail"], Hint: md["hint"], Kind: fserr.Kind(md["kind"]), Written: written, ETag: md["etag"], Step: step + 1,
	}
	e.Code, e.Reason = codeOf(reason, code, md["errno"])
	return e
}

// codeOf returns the errno by its number, else by its name; EIO when both are unknown. For a refusal, which has no number, it returns the errno
// that is nearest to the gRPC code, and the reason.
func codeOf(reason string, code codes.Code, number string) (fserr.Code, string) {
	if n, err := strconv.ParseInt(number, 10, 32); err == nil && n > 0 {
		return fserr.Code(n), ""
	}
	if code, ok := fserr.ParseCode(reason); ok {
		return code, ""
	}
	if number != "" {
		return fserr.EIO, ""
	}
	return nearest(code), reason
}

func detailsOf(st *status.Status) (info *errdetails.ErrorInfo, retry time.Duration) {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain {
				info = d
			}
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		}
	}
	return info, retry
}

// FromContext returns the error of an ended context: ECANCELED or ETIMEDOUT; nil while it lasts.
func FromContext(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return &fserr.Error{Code: fserr.CodeOf(ctx.Err()), Err: ctx.Err()}
}
