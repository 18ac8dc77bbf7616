package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// TransportError is a call that got no answer from ctxfs: the connection broke, the
// caller cancelled, or the server is of another kind. It says what may have happened.
type TransportError struct {
	// Op is what was called: "open", "writefile".
	Op string
	// Code is gRPC's.
	Code codes.Code
	// MayHaveHappened says that the server may have done it, in part or whole: look before
	// repeating. False: nothing happened, or the call changes nothing.
	MayHaveHappened bool
	// Err is gRPC's error.
	Err error
}

// Error says what happened, and what may have.
func (e *TransportError) Error() string { return e.fate() + ": " + reason(e.Err) }

func (e *TransportError) fate() string {
	what, ok := fates[e.Code]
	switch {
	case e.MayHaveHappened && !mayHaveHappened(e.Code):
		what = "the server ended the session"
	case !ok:
		what = "failed without an answer of ctxfs"
	}
	if e.MayHaveHappened {
		return what + "; it may have happened, look before repeating"
	}
	return what + "; nothing happened"
}

var fates = map[codes.Code]string{
	codes.Canceled:          "cancelled by the caller",
	codes.DeadlineExceeded:  "no answer in time",
	codes.Unavailable:       "the connection to the server failed",
	codes.Unimplemented:     "the server does not know this call",
	codes.Unauthenticated:   "refused",
	codes.PermissionDenied:  "refused",
	codes.InvalidArgument:   "refused",
	codes.ResourceExhausted: "the message is larger than the transport takes",
}

// mayHaveHappened reports whether a call that failed with this gRPC code may have been done.
func mayHaveHappened(code codes.Code) bool {
	switch code {
	case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.ResourceExhausted:
		return false
	}
	return true
}

// Is matches the context's errors.
func (e *TransportError) Is(target error) bool {
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

// Unwrap returns gRPC's error.
func (e *TransportError) Unwrap() error { return e.Err }

// reason is an error's text without gRPC's wrapping.
func reason(err error) string {
	if st, ok := status.FromError(err); ok {
		return strings.TrimSuffix(st.Message(), ".")
	}
	return err.Error()
}

// convert turns gRPC's error into an *fserr.Error or a *TransportError.
func convert(op string, err error) error {
	if err == nil {
		return nil
	}
	var broken *brokenError
	if errors.As(err, &broken) {
		return &TransportError{Op: op, Code: status.Code(broken.why), MayHaveHappened: broken.may, Err: broken.why}
	}
	if e, ok := fserrpb.FromStatus(err); ok {
		return e
	}
	var known *fserr.Error
	if errors.As(err, &known) {
		return known
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	return &TransportError{Op: op, Code: st.Code(), MayHaveHappened: mayHaveHappened(st.Code()), Err: err}
}

// pathError wraps a failed call about one name. What PathError says anyway is taken out
// of the inner error; a path that differs, somewhere below in a tree, stays.
func (f *FS) pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: f.plain(op, name, "", err)}
}

// linkError is pathError for two names.
func (f *FS) linkError(op, from, to string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: from, New: to, Err: f.plain(op, from, to, err)}
}

func (f *FS) plain(op, name, dest string, err error) error {
	err = convert(op, err)
	var e *fserr.Error
	if isTransport(err) || !errors.As(err, &e) || !f.same(e.Path, name) || !f.same(e.Dest, dest) {
		return err
	}
	c := *e
	c.Op, c.Path, c.Dest = "", "", ""
	return &c
}

// isTransport reports whether err holds a *TransportError. Such an error must stay whole, because it says what may have
// happened, although its cause may be an *fserr.Error (for example why the server ended a session).
func isTransport(err error) bool {
	var t *TransportError
	return errors.As(err, &t)
}

func (f *FS) same(virtual, name string) bool {
	return virtual == "" || virtual == name || virtual == fserrpb.Printable(f.virtual(name))
}

// Describe returns an error's text in the server's form, "ENOENT: no such file or
// directory, open '/a.txt'", when it comes from ctxfs; else err's own.
func Describe(err error) string {
	var e *fserr.Error
	if isTransport(err) || !errors.As(err, &e) {
		return err.Error()
	}
	c := *e
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case c.Op != "" || c.Path != "":
	case errors.As(err, &pe):
		c.Op, c.Path = pe.Op, fserrpb.Printable(pe.Path)
	case errors.As(err, &le):
		c.Op, c.Path, c.Dest = le.Op, fserrpb.Printable(le.Old), fserrpb.Printable(le.New)
	}
	return c.Error()
}

// invalid is a name that io/fs does not allow.
func invalid(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: &fserr.Error{
		Code: fserr.EINVAL, Detail: fmt.Sprintf("io/fs takes no such path as %q", name),
		Hint: "use a clean path without a leading slash, or OpenFile",
	}}
}
