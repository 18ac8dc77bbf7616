package fserr

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCodesAreNodes compares with what util.getSystemErrorMap() of Node 20 holds on
// Linux. Node calls 95 ENOTSUP, and does not know ESTALE and EDQUOT: theirs are Linux's.
func TestCodesAreNodes(t *testing.T) {
	rows := []struct {
		code   Code
		number int32
		name   string
		text   string
	}{
		{EPERM, 1, "EPERM", "operation not permitted"},
		{ENOENT, 2, "ENOENT", "no such file or directory"},
		{EINTR, 4, "EINTR", "interrupted system call"},
		{EIO, 5, "EIO", "i/o error"},
		{ENXIO, 6, "ENXIO", "no such device or address"},
		{E2BIG, 7, "E2BIG", "argument list too long"},
		{EBADF, 9, "EBADF", "bad file descriptor"},
		{EAGAIN, 11, "EAGAIN", "resource temporarily unavailable"},
		{ENOMEM, 12, "ENOMEM", "not enough memory"},
		{EACCES, 13, "EACCES", "permission denied"},
		{EBUSY, 16, "EBUSY", "resource busy or locked"},
		{EEXIST, 17, "EEXIST", "file already exists"},
		{EXDEV, 18, "EXDEV", "cross-device link not permitted"},
		{ENODEV, 19, "ENODEV", "no such device"},
		{ENOTDIR, 20, "ENOTDIR", "not a directory"},
		{EISDIR, 21, "EISDIR", "illegal operation on a directory"},
		{EINVAL, 22, "EINVAL", "invalid argument"},
		{ENFILE, 23, "ENFILE", "file table overflow"},
		{EMFILE, 24, "EMFILE", "too many open files"},
		{ENOTTY, 25, "ENOTTY", "inappropriate ioctl for device"},
		{ETXTBSY, 26, "ETXTBSY", "text file is busy"},
		{EFBIG, 27, "EFBIG", "file too large"},
		{ENOSPC, 28, "ENOSPC", "no space left on device"},
		{ESPIPE, 29, "ESPIPE", "invalid seek"},
		{EROFS, 30, "EROFS", "read-only file system"},
		{EMLINK, 31, "EMLINK", "too many links"},
		{EPIPE, 32, "EPIPE", "broken pipe"},
		{ERANGE, 34, "ERANGE", "result too large"},
		{ENAMETOOLONG, 36, "ENAMETOOLONG", "name too long"},
		{ENOSYS, 38, "ENOSYS", "function not implemented"},
		{ENOTEMPTY, 39, "ENOTEMPTY", "directory not empty"},
		{ELOOP, 40, "ELOOP", "too many symbolic links encountered"},
		{ENODATA, 61, "ENODATA", "no data available"},
		{EOVERFLOW, 75, "EOVERFLOW", "value too large for defined data type"},
		{EOPNOTSUPP, 95, "EOPNOTSUPP", "operation not supported on socket"},
		{ETIMEDOUT, 110, "ETIMEDOUT", "connection timed out"},
		{ESTALE, 116, "ESTALE", "stale file handle"},
		{EDQUOT, 122, "EDQUOT", "disk quota exceeded"},
		{ECANCELED, 125, "ECANCELED", "operation canceled"},
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			if int32(c.code) != c.number || c.code.String() != c.name || c.code.Text() != c.text {
				t.Errorf("got %d %s %q, want %d %s %q", c.code, c.code.String(), c.code.Text(), c.number, c.name, c.text)
			}
			if want := c.name + ": " + c.text; c.code.Error() != want {
				t.Errorf("Error: %q, want %q", c.code.Error(), want)
			}
			if got, ok := ParseCode(c.name); !ok || got != c.code {
				t.Errorf("ParseCode(%q) = %d, %v", c.name, got, ok)
			}
		})
	}
	if len(rows) != len(names) {
		t.Errorf("%d codes are compared, there are %d", len(rows), len(names))
	}
}

func TestAnUnknownCode(t *testing.T) {
	if got := Code(71).Error(); got != "E71: unknown error" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"", "E71", "enoent", "ENOENT "} {
		if code, ok := ParseCode(name); ok {
			t.Errorf("ParseCode(%q) = %v", name, code)
		}
	}
}

func TestACodeIsAnError(t *testing.T) {
	if !errors.Is(ENOENT, ENOENT) || errors.Is(ENOENT, EIO) {
		t.Error("a Code is not itself, or is another")
	}
}
