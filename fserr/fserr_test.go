package fserr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestErrorIsFormattedAsNodes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  fserr.Error
		want string
	}{
		{"code alone", fserr.Error{Code: fserr.EIO}, "EIO: i/o error"},
		{"op", fserr.Error{Code: fserr.EBADF, Op: "read"}, "EBADF: bad file descriptor, read"},
		{"path", *fserr.New("open", "/a.txt", fserr.ENOENT), "ENOENT: no such file or directory, open '/a.txt'"},
		{
			"path and dest", fserr.Error{Code: fserr.EXDEV, Op: "rename", Path: "/a", Dest: "/b"},
			"EXDEV: cross-device link not permitted, rename '/a' -> '/b'",
		},
		{"detail in the text's place", fserr.Error{Code: fserr.EINVAL, Detail: "bad mode", Op: "chmod", Path: "/a"}, "EINVAL: bad mode, chmod '/a'"},
		{
			"hint before the op", fserr.Error{Code: fserr.EFBIG, Hint: "use a stream", Op: "read", Path: "/a"},
			"EFBIG: file too large; use a stream, read '/a'",
		},
		{
			"detail and hint", fserr.Error{Code: fserr.ESTALE, Detail: "context 'ctx_x' does not exist", Hint: "call OpenPanel"},
			"ESTALE: context 'ctx_x' does not exist; call OpenPanel",
		},
		{"unknown code", fserr.Error{Code: 71, Op: "open", Path: "/a"}, "E71: unknown error, open '/a'"},
		{"the cause stays", fserr.Error{Code: fserr.EIO, Err: errors.New("/srv/secret")}, "EIO: i/o error"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWhatAnErrorIs holds every Code to every sentinel, as a Code and as an Error.
func TestWhatAnErrorIs(t *testing.T) {
	matches := []struct {
		target error
		codes  []fserr.Code
	}{
		{fs.ErrNotExist, []fserr.Code{fserr.ENOENT}},
		{fs.ErrExist, []fserr.Code{fserr.EEXIST, fserr.ENOTEMPTY}},
		{fs.ErrPermission, []fserr.Code{fserr.EACCES, fserr.EPERM}},
		{fs.ErrInvalid, []fserr.Code{fserr.EINVAL}},
		{fs.ErrClosed, []fserr.Code{fserr.EBADF}},
		{errors.ErrUnsupported, []fserr.Code{fserr.EOPNOTSUPP, fserr.ENOSYS}},
		{context.Canceled, []fserr.Code{fserr.ECANCELED}},
		{context.DeadlineExceeded, []fserr.Code{fserr.ETIMEDOUT}},
		{fserr.ESTALE, []fserr.Code{fserr.ESTALE}},
		{&fserr.Error{Code: fserr.EXDEV}, []fserr.Code{fserr.EXDEV}},
		{io.EOF, nil},
	}
	for _, m := range matches {
		want := map[fserr.Code]bool{}
		for _, code := range m.codes {
			want[code] = true
		}
		for code := fserr.Code(1); code < 140; code++ {
			e := fmt.Errorf("wrapped: %w", &fserr.Error{Code: code, Op: "open", Path: "/a"})
			if got := errors.Is(e, m.target); got != want[code] {
				t.Errorf("errors.Is(%v, %v) = %v", code.String(), m.target, got)
			}
			if !errors.As(m.target, new(*fserr.Error)) && errors.Is(code, m.target) != want[code] {
				t.Errorf("the Code %s: errors.Is(%v) = %v", code.String(), m.target, !want[code])
			}
		}
	}
}

func TestAnErrorIsNoOtherErrorOfItsCode(t *testing.T) {
	e := fserr.New("open", "/a", fserr.ENOENT)
	for name, other := range map[string]*fserr.Error{
		"other path": fserr.New("open", "/b", fserr.ENOENT),
		"nil":        nil,
	} {
		if errors.Is(e, other) {
			t.Errorf("is %s", name)
		}
	}
	cause := errors.New("cause")
	if !errors.Is(&fserr.Error{Code: fserr.EIO, Err: cause}, cause) {
		t.Error("the cause is not found")
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want fserr.Code
	}{
		{"nil", nil, 0},
		{"an Error", fserr.New("open", "/a", fserr.EXDEV), fserr.EXDEV},
		{"a wrapped Error", fmt.Errorf("x: %w", fserr.New("open", "/a", fserr.EXDEV)), fserr.EXDEV},
		{"an Error before its cause", &fserr.Error{Code: fserr.ESTALE, Err: fs.ErrNotExist}, fserr.ESTALE},
		{"a Code", fmt.Errorf("x: %w", fserr.ELOOP), fserr.ELOOP},
		{"fs.ErrNotExist", &fs.PathError{Err: fs.ErrNotExist}, fserr.ENOENT},
		{"fs.ErrExist", fs.ErrExist, fserr.EEXIST},
		{"fs.ErrPermission", fs.ErrPermission, fserr.EACCES},
		{"fs.ErrInvalid", fs.ErrInvalid, fserr.EINVAL},
		{"os.ErrClosed", os.ErrClosed, fserr.EBADF},
		{"errors.ErrUnsupported", errors.ErrUnsupported, fserr.EOPNOTSUPP},
		{"cancelled", fmt.Errorf("x: %w", context.Canceled), fserr.ECANCELED},
		{"late", context.DeadlineExceeded, fserr.ETIMEDOUT},
		{"joined", errors.Join(errors.New("x"), fs.ErrExist), fserr.EEXIST},
		{"anything else", io.ErrUnexpectedEOF, fserr.EIO},
	} {
		if got := fserr.CodeOf(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.String(), c.want.String())
		}
	}
}

func TestCodeOfTheSystemsErrors(t *testing.T) {
	dir := t.TempDir()
	_, missing := os.Open(dir + "/missing")
	if got := fserr.CodeOf(missing); got != fserr.ENOENT {
		t.Errorf("a missing file: %s", got.String())
	}
	if got := fserr.CodeOf(os.Mkdir(dir, 0o700)); got != fserr.EEXIST {
		t.Errorf("an existing directory: %s", got.String())
	}
}

func TestWrap(t *testing.T) {
	full := &fserr.Error{
		Op: "read", Path: "/old", Dest: "/olddest", Code: fserr.EFBIG, Detail: "too much", Hint: "less",
		Kind: fserr.KindContext, RetryAfter: time.Second, Written: 7,
	}
	kept := *full
	kept.Op, kept.Path, kept.Dest = "rename", "/a", "/b"
	cause := &fs.PathError{Op: "open", Path: "/srv/secret", Err: fs.ErrNotExist}
	for _, c := range []struct {
		name string
		err  error
		want fserr.Error
	}{
		{"an Error keeps all but where", fmt.Errorf("x: %w", full), kept},
		{"a Code", fserr.ELOOP, fserr.Error{Op: "rename", Path: "/a", Dest: "/b", Code: fserr.ELOOP, Err: fserr.ELOOP}},
		{"another is reduced", cause, fserr.Error{Op: "rename", Path: "/a", Dest: "/b", Code: fserr.ENOENT, Err: cause}},
	} {
		var got *fserr.Error
		if err := fserr.Wrap(c.err, "rename", "/a", "/b"); !errors.As(err, &got) {
			t.Errorf("%s: %v", c.name, err)
		} else if d := cmp.Diff(c.want, *got, cmpopts.EquateErrors()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	if full.Path != "/old" {
		t.Error("Wrap changed the error it was given")
	}
	if err := fserr.Wrap(nil, "open", "/a", ""); err != nil {
		t.Errorf("Wrap of nil: %v", err)
	}
}
