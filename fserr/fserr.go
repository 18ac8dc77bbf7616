// Package fserr owns the one error type of ctxfs: what was being done, to which
// virtual path, with which POSIX errno, and what the caller can do about it.
//
// It is a leaf: it knows neither gRPC (that is fserr/fserrpb) nor any other
// package of ctxfs. Paths in an Error are virtual, from the context's root; a
// server path must never be put into one, because an Error travels to the panel.
package fserr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Kind says which noun an Error is about when that is not a file.
type Kind string

// KindContext marks an error about a context itself (it does not exist, it was
// restored underneath a handle). Clients must not take it for a missing file.
const KindContext Kind = "context"

// KindRequest marks the refusal of a request itself, which has changed nothing: EFBIG, it is larger than the server takes.
const KindRequest Kind = "request"

// KindCondition marks a change that was refused because the file is not what the request requires (if_match, if_none_match), or because a
// program changed it during a batch. Nothing was changed.
const KindCondition Kind = "condition"

// KindEdit marks an edit of a text that cannot be made: the text to replace is missing or occurs more than once, or the file is no text
// of at most 16 MiB. Nothing was changed.
const KindEdit Kind = "edit"

// Error is a failed operation. The zero value is not meaningful; Code is always set.
type Error struct {
	// Op is the system call or operation as Node names it: "open", "scandir", "copyfile".
	Op string
	// Path is the virtual path operated on; "" when there is none. It may hold
	// bytes that are not UTF-8.
	Path string
	// Dest is the second path of rename, link, symlink, copyfile and cp.
	Dest string
	// Code is the POSIX errno.
	Code Code
	// Reason names a refusal that no errno describes, such as CONFLICT; "" for other errors. Code is the nearest errno then, and the message
	// has the reason in its place.
	Reason string
	// Detail replaces the errno's text in the message when the plain text would
	// not name the thing ("context 'ctx_x' does not exist").
	Detail string
	// Hint says what the caller can do about the error. The message includes it.
	Hint string
	// Kind is KindContext, KindRequest, KindCondition, KindEdit or "".
	Kind Kind
	// RetryAfter, when positive, says that the same call may succeed after this long.
	RetryAfter time.Duration
	// Written counts the bytes that had reached the file when a write failed or
	// was cancelled; -1 or 0 when none or not applicable.
	Written int64
	// Step is 1 + the index of the step of a batch that failed; 0 for none. Nothing of the batch was done then.
	Step int
	// ETag is the file's present one, with KindCondition; "" when there is no file, and when the step of a batch had no condition.
	ETag string
	// Err is the cause, for logs and errors.Is on the server; it never travels.
	Err error
}

// New returns an Error of the given code about path.
func New(op, path string, code Code) *Error { return &Error{Op: op, Path: path, Code: code} }

// Invalid returns EINVAL with a detail.
func Invalid(format string, args ...any) error {
	return &Error{Code: EINVAL, Detail: fmt.Sprintf(format, args...)}
}

// Error formats the failure as Node does:
//
//	ENOENT: no such file or directory, open '/a.txt'
//	EXDEV: cross-device link not permitted, rename '/a' -> '/b'
func (e *Error) Error() string {
	var b strings.Builder
	text := e.Detail
	if text == "" {
		text = e.Code.Text()
	}
	fmt.Fprintf(&b, "%s: %s", cmp.Or(e.Reason, e.Code.String()), text) // %s of a Code is its whole Error
	if e.Step > 0 {
		fmt.Fprintf(&b, " (steps[%d]; nothing was changed)", e.Step-1)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "; %s", e.Hint)
	}
	if e.Op != "" {
		fmt.Fprintf(&b, ", %s", e.Op)
	}
	if e.Path != "" {
		fmt.Fprintf(&b, " '%s'", e.Path)
	}
	if e.Dest != "" {
		fmt.Fprintf(&b, " -> '%s'", e.Dest)
	}
	return b.String()
}

// FewNames is how many names the text of an error has at most.
const FewNames = 3

// Names returns the end of a text about total things: the first names, and how many more there are. It is "" for none.
//
//	: a, b, c and 2 more
func Names(names []string, total int) string {
	if total == 0 {
		return ""
	}
	few := names[:min(len(names), FewNames)]
	text := ": " + strings.Join(few, ", ")
	if more := total - len(few); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches what the Code matches (Code.Is), and an *Error of the same Code with
// no other field set.
func (e *Error) Is(target error) bool {
	if other, ok := target.(*Error); ok {
		return other != nil && *other == Error{Code: e.Code}
	}
	return e.Code.Is(target)
}

// CodeOf returns the errno in err's chain: that of an *Error, a Code, a
// platform errno or one of io/fs's sentinels. It is 0 for nil and EIO when the
// chain holds none of these.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	if c, ok := platformCode(err); ok {
		return c
	}
	return sentinelCode(err)
}

func sentinelCode(err error) Code {
	for _, s := range []struct {
		err  error
		code Code
	}{
		{fs.ErrNotExist, ENOENT}, {fs.ErrExist, EEXIST}, {fs.ErrPermission, EACCES},
		{fs.ErrInvalid, EINVAL}, {os.ErrClosed, EBADF}, {errors.ErrUnsupported, EOPNOTSUPP},
		{context.Canceled, ECANCELED}, {context.DeadlineExceeded, ETIMEDOUT},
	} {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return EIO
}

// Parts returns what a caller may read of err, for an error that wraps it: the errno, the
// detail (or else the errno's text) and the hint of the *Error in its chain.
func Parts(err error) (code Code, detail, hint string) {
	code = CodeOf(err)
	detail = code.Text()
	var e *Error
	if errors.As(err, &e) {
		hint = e.Hint
		if e.Detail != "" {
			detail = e.Detail
		}
	}
	return code, detail, hint
}

// Wrap returns err as an *Error about op, path and dest. An *Error in the chain
// keeps its Code, Reason, Detail, Hint, Kind, RetryAfter, Written and ETag, and takes the given op and
// paths; any other error is reduced to its Code and kept as the cause, so that
// no server path in its text travels. Wrap of nil is nil.
func Wrap(err error, op, path, dest string) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		c := *e
		c.Op, c.Path, c.Dest = op, path, dest
		return &c
	}
	return &Error{Op: op, Path: path, Dest: dest, Code: CodeOf(err), Err: err}
}
