package fserr

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
)

// Code is a POSIX errno by its Linux number, on every platform, because that is
// the number that travels. A Code is an error itself: errors.Is(err, fserr.ENOENT).
type Code int32

// The errno values that ctxfs answers, by their Linux numbers
// (include/uapi/asm-generic/errno-base.h and errno.h).
const (
	EPERM        Code = 1
	ENOENT       Code = 2
	EINTR        Code = 4
	EIO          Code = 5
	ENXIO        Code = 6
	E2BIG        Code = 7
	EBADF        Code = 9
	EAGAIN       Code = 11
	ENOMEM       Code = 12
	EACCES       Code = 13
	EBUSY        Code = 16
	EEXIST       Code = 17
	EXDEV        Code = 18
	ENODEV       Code = 19
	ENOTDIR      Code = 20
	EISDIR       Code = 21
	EINVAL       Code = 22
	ENFILE       Code = 23
	EMFILE       Code = 24
	ENOTTY       Code = 25
	ETXTBSY      Code = 26
	EFBIG        Code = 27
	ENOSPC       Code = 28
	ESPIPE       Code = 29
	EROFS        Code = 30
	EMLINK       Code = 31
	EPIPE        Code = 32
	ERANGE       Code = 34
	ENAMETOOLONG Code = 36
	ENOSYS       Code = 38
	ENOTEMPTY    Code = 39
	ELOOP        Code = 40
	ENODATA      Code = 61
	EOVERFLOW    Code = 75
	EOPNOTSUPP   Code = 95
	ETIMEDOUT    Code = 110
	ESTALE       Code = 116
	EDQUOT       Code = 122
	ECANCELED    Code = 125
)

// names holds each Code's name and text; the texts are libuv's (uv.h,
// UV_ERRNO_MAP), because they are what a Node program prints.
var names = map[Code][2]string{
	EPERM:        {"EPERM", "operation not permitted"},
	ENOENT:       {"ENOENT", "no such file or directory"},
	EINTR:        {"EINTR", "interrupted system call"},
	EIO:          {"EIO", "i/o error"},
	ENXIO:        {"ENXIO", "no such device or address"},
	E2BIG:        {"E2BIG", "argument list too long"},
	EBADF:        {"EBADF", "bad file descriptor"},
	EAGAIN:       {"EAGAIN", "resource temporarily unavailable"},
	ENOMEM:       {"ENOMEM", "not enough memory"},
	EACCES:       {"EACCES", "permission denied"},
	EBUSY:        {"EBUSY", "resource busy or locked"},
	EEXIST:       {"EEXIST", "file already exists"},
	EXDEV:        {"EXDEV", "cross-device link not permitted"},
	ENODEV:       {"ENODEV", "no such device"},
	ENOTDIR:      {"ENOTDIR", "not a directory"},
	EISDIR:       {"EISDIR", "illegal operation on a directory"},
	EINVAL:       {"EINVAL", "invalid argument"},
	ENFILE:       {"ENFILE", "file table overflow"},
	EMFILE:       {"EMFILE", "too many open files"},
	ENOTTY:       {"ENOTTY", "inappropriate ioctl for device"},
	ETXTBSY:      {"ETXTBSY", "text file is busy"},
	EFBIG:        {"EFBIG", "file too large"},
	ENOSPC:       {"ENOSPC", "no space left on device"},
	ESPIPE:       {"ESPIPE", "invalid seek"},
	EROFS:        {"EROFS", "read-only file system"},
	EMLINK:       {"EMLINK", "too many links"},
	EPIPE:        {"EPIPE", "broken pipe"},
	ERANGE:       {"ERANGE", "result too large"},
	ENAMETOOLONG: {"ENAMETOOLONG", "name too long"},
	ENOSYS:       {"ENOSYS", "function not implemented"},
	ENOTEMPTY:    {"ENOTEMPTY", "directory not empty"},
	ELOOP:        {"ELOOP", "too many symbolic links encountered"},
	ENODATA:      {"ENODATA", "no data available"},
	EOVERFLOW:    {"EOVERFLOW", "value too large for defined data type"},
	EOPNOTSUPP:   {"EOPNOTSUPP", "operation not supported on socket"},
	ETIMEDOUT:    {"ETIMEDOUT", "connection timed out"},
	ESTALE:       {"ESTALE", "stale file handle"},
	EDQUOT:       {"EDQUOT", "disk quota exceeded"},
	ECANCELED:    {"ECANCELED", "operation canceled"},
}

// String returns the symbolic name, "ENOENT", or "E<number>" for an errno that
// ctxfs does not know.
func (c Code) String() string {
	if n, ok := names[c]; ok {
		return n[0]
	}
	return "E" + strconv.Itoa(int(c))
}

// Text returns the errno's text as Node prints it.
func (c Code) Text() string {
	if n, ok := names[c]; ok {
		return n[1]
	}
	return "unknown error"
}

// Error makes a Code an error: "ENOENT: no such file or directory".
func (c Code) Error() string { return c.String() + ": " + c.Text() }

// Is matches the sentinel errors of io/fs, errors and context that mean the same.
func (c Code) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return c == ENOENT
	case fs.ErrExist:
		return c == EEXIST || c == ENOTEMPTY
	case fs.ErrPermission:
		return c == EACCES || c == EPERM
	case fs.ErrInvalid:
		return c == EINVAL
	case fs.ErrClosed:
		return c == EBADF
	case errors.ErrUnsupported:
		return c == EOPNOTSUPP || c == ENOSYS
	case context.Canceled:
		return c == ECANCELED
	case context.DeadlineExceeded:
		return c == ETIMEDOUT
	}
	return target == error(c)
}

// ParseCode returns the Code of a symbolic name; ok is false for an unknown one.
func ParseCode(name string) (code Code, ok bool) {
	for c, n := range names {
		if n[0] == name {
			return c, true
		}
	}
	return 0, false
}
