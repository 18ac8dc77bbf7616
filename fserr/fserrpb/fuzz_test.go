package fserrpb_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// FuzzRoundTrip sends errors of any content: they arrive, whole when they are short
// UTF-8, and never break what carries them.
func FuzzRoundTrip(f *testing.F) {
	f.Add(int32(2), "open", "/a.txt", "", "", "", "", int64(0), int64(0))
	f.Add(int32(18), "rename", "/a", "/b\xff", "detail", "hint", "context", int64(1500), int64(7))
	f.Add(int32(22), "", "/\xc3\x28\\n'", "\x00", "d\xff", "h\xfe", "k", int64(1), int64(-1))
	f.Add(int32(-1), "op\xff", strings.Repeat("é", 600), strings.Repeat("\xff", 300), strings.Repeat("x", 1025), "\uFFFD", "", int64(-1), int64(1<<62))
	f.Fuzz(func(t *testing.T, code int32, op, path, dest, detail, hint, kind string, retryMS, written int64) {
		sent := fserr.Error{
			Op: op, Path: path, Dest: dest, Code: fserr.Code(code), Detail: detail, Hint: hint, Kind: fserr.Kind(kind),
			RetryAfter: time.Duration(retryMS) * time.Millisecond, Written: written,
		}
		got, st := travel(t, &sent)
		if !utf8.ValidString(st.Message()) {
			t.Errorf("message %q", st.Message())
		}
		for key, value := range info(t, st).GetMetadata() {
			if len(value) > 1024 || !utf8.ValidString(value) {
				t.Errorf("%s is %q", key, value)
			}
		}
		if d := cmp.Diff(arrives(sent), *got, ignoreCause); d != "" {
			t.Error(d)
		}
	})
}

// arrives returns e as a client gets it.
func arrives(e fserr.Error) fserr.Error {
	e = *e.WithRemedy()
	short := func(s string) string { return fserrpb.Printable(fserrpb.Valid(s)) }
	e.Op, e.Detail, e.Hint, e.Kind = short(e.Op), short(e.Detail), short(e.Hint), fserr.Kind(short(string(e.Kind)))
	e.Path, e.Dest = fserrpb.Printable(e.Path), fserrpb.Printable(e.Dest)
	e.RetryAfter, e.Written = max(0, e.RetryAfter), max(0, e.Written)
	if e.Code <= 0 { // no errno
		e.Code = fserr.EIO
	}
	return e
}
