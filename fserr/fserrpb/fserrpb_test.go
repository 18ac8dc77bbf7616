package fserrpb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// travel sends err as a handler does and returns what a client makes of it.
func travel(t *testing.T, err error) (*fserr.Error, *status.Status) {
	t.Helper()
	st := status.Convert(fserrpb.ToStatus(err))
	got, ok := fserrpb.FromStatus(status.ErrorProto(st.Proto()))
	if !ok {
		t.Fatalf("%v does not come back from %v", err, st)
	}
	return got, st
}

func info(t *testing.T, st *status.Status) *errdetails.ErrorInfo {
	t.Helper()
	for _, d := range st.Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return i
		}
	}
	t.Fatalf("no ErrorInfo in %v", st)
	return nil
}

var ignoreCause = cmpopts.IgnoreFields(fserr.Error{}, "Err")

// TestEveryCodeTravels sends each number, known or not.
func TestEveryCodeTravels(t *testing.T) {
	want := map[string]codes.Code{
		"ENOENT": codes.NotFound, "ESTALE": codes.NotFound, "EEXIST": codes.AlreadyExists,
		"EACCES": codes.PermissionDenied, "EPERM": codes.PermissionDenied,
		"ENOTDIR": codes.FailedPrecondition, "EISDIR": codes.FailedPrecondition, "ENOTEMPTY": codes.FailedPrecondition,
		"EXDEV": codes.FailedPrecondition, "ELOOP": codes.FailedPrecondition, "EBADF": codes.FailedPrecondition,
		"EROFS": codes.FailedPrecondition, "EBUSY": codes.FailedPrecondition, "ETXTBSY": codes.FailedPrecondition,
		"EMLINK": codes.FailedPrecondition, "ESPIPE": codes.FailedPrecondition,
		"EINVAL": codes.InvalidArgument, "ENAMETOOLONG": codes.InvalidArgument, "ERANGE": codes.InvalidArgument, "EOVERFLOW": codes.InvalidArgument,
		"ENOSPC": codes.ResourceExhausted, "EDQUOT": codes.ResourceExhausted, "EMFILE": codes.ResourceExhausted,
		"ENFILE": codes.ResourceExhausted, "EFBIG": codes.ResourceExhausted, "ENOMEM": codes.ResourceExhausted,
		"EOPNOTSUPP": codes.Unimplemented, "ENOSYS": codes.Unimplemented,
		"EAGAIN": codes.Unavailable, "ECANCELED": codes.Canceled, "ETIMEDOUT": codes.DeadlineExceeded,
	}
	for code := fserr.Code(1); code < 140; code++ {
		sent := fserr.Error{
			Op: "rename", Path: "/a", Dest: "/b", Code: code, Detail: "what", Hint: "do",
			Kind: fserr.KindContext, RetryAfter: 1500 * time.Millisecond, Written: 7, Err: io.EOF,
		}
		got, st := travel(t, fmt.Errorf("/srv/secret: %w", &sent))
		if d := cmp.Diff(sent, *got, ignoreCause); d != "" {
			t.Errorf("%s: %s", code.String(), d)
		}
		grpcCode, ok := want[code.String()]
		if !ok {
			grpcCode = codes.Internal
		}
		if st.Code() != grpcCode || st.Message() != sent.Error() {
			t.Errorf("%s: %s %q, want %s %q", code.String(), st.Code(), st.Message(), grpcCode, sent.Error())
		}
		if i := info(t, st); i.GetReason() != code.String() || i.GetDomain() != "ctxfs" {
			t.Errorf("%s: %v", code.String(), i)
		}
	}
}

func TestMetadataHoldsWhatIsSet(t *testing.T) {
	for _, c := range []struct {
		name string
		err  fserr.Error
		want map[string]string
	}{
		{"code alone", fserr.Error{Code: fserr.ENOENT, Written: -1}, map[string]string{"errno": "2"}},
		{
			"a path that is not UTF-8", fserr.Error{Code: fserr.ENOENT, Path: "/\xff\\é", Dest: "/d\\é"},
			map[string]string{"errno": "2", "path": `/\xff\\\u00e9`, "dest": `/d\é`, "escaped": "path"},
		},
		{
			"a dest that is not", fserr.Error{Code: fserr.ENOENT, Path: "/a", Dest: "/\xff"},
			map[string]string{"errno": "2", "path": "/a", "dest": `/\xff`, "escaped": "dest"},
		},
		{
			"neither is", fserr.Error{Code: fserr.ENOENT, Path: "\xfe", Dest: "\xff"},
			map[string]string{"errno": "2", "path": `\xfe`, "dest": `\xff`, "escaped": "path,dest"},
		},
		{
			"words that are not", fserr.Error{Code: fserr.ENOENT, Op: "o\xff", Detail: "d\xff", Hint: "h\xff", Kind: "k\xff"},
			map[string]string{"errno": "2", "syscall": `o\xff`, "detail": `d\xff`, "hint": `h\xff`, "kind": `k\xff`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, st := travel(t, &c.err)
			if d := cmp.Diff(c.want, info(t, st).GetMetadata()); d != "" {
				t.Error(d)
			}
			if got.Path != c.want["path"] || got.Dest != c.want["dest"] || !utf8.ValidString(st.Message()) {
				t.Errorf("came back as %+v, %q", got, st.Message())
			}
		})
	}
}

func TestLongValuesAreCut(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{"1 KiB stays", strings.Repeat("a", 1024), strings.Repeat("a", 1024)},
		{"a byte more", strings.Repeat("a", 1025), strings.Repeat("a", 1021) + "…"},
		{"between the bytes of a rune", strings.Repeat("é", 600), strings.Repeat("é", 510) + "…"},
		{"of four bytes", "abc" + strings.Repeat("😀", 300), "abc" + strings.Repeat("😀", 254) + "…"},
		{"escaped", strings.Repeat("\xff", 600), strings.Repeat(`\xff`, 255) + `\` + "…"},
	} {
		got, st := travel(t, &fserr.Error{Code: fserr.EIO, Path: c.path, Dest: c.path, Hint: "h", Detail: c.path})
		if got.Path != c.want || got.Dest != c.want || strings.Contains(st.Message(), "'"+c.path+"'") != (c.path == c.want) {
			t.Errorf("%s: %d bytes, ends in %q", c.name, len(got.Path), got.Path[len(got.Path)-10:])
		}
		for key, value := range info(t, st).GetMetadata() {
			if len(value) > 1024 {
				t.Errorf("%s: %s has %d bytes", c.name, key, len(value))
			}
		}
	}
}

func TestOtherErrorsBecomeEIOWithoutTheirText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fserr.Code
	}{
		{errors.New("open /srv/secret: odd"), fserr.EIO},
		{fmt.Errorf("/srv/secret: %w", context.Canceled), fserr.ECANCELED},
		{fmt.Errorf("/srv/secret: %w", fserr.ELOOP), fserr.ELOOP},
	} {
		got, st := travel(t, c.err)
		if got.Code != c.want || strings.Contains(st.String(), "secret") {
			t.Errorf("%v: %v", c.err, st)
		}
	}
	if err := fserrpb.ToStatus(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestWhatTheMachineRefusesHasARemedy(t *testing.T) {
	for _, c := range []struct {
		err        fserr.Error
		want, code string
	}{
		{fserr.Error{Code: fserr.ENOSPC}, "free some space", "ENOSPC"},
		{fserr.Error{Code: fserr.EMFILE, Hint: "close some"}, "close some", "EMFILE"},
		{fserr.Error{Code: fserr.ENOENT}, "", "ENOENT"},
	} {
		got, st := travel(t, &c.err)
		if !strings.Contains(got.Hint, c.want) || (c.want == "") != (got.Hint == "") || !strings.Contains(st.Message(), got.Hint) {
			t.Errorf("%s: hint %q, message %q, want %q in both", c.code, got.Hint, st.Message(), c.want)
		}
	}
}

func TestAStatusStaysAsItIs(t *testing.T) {
	foreign := status.Error(codes.Unauthenticated, "who?")
	if got := fserrpb.ToStatus(foreign); !errors.Is(got, foreign) || status.Code(got) != codes.Unauthenticated {
		t.Errorf("got %v", got)
	}
}

func withDetails(t *testing.T, details ...protoadapt.MessageV1) error {
	t.Helper()
	st, err := status.New(codes.NotFound, "x").WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return st.Err()
}

func TestForeignStatuses(t *testing.T) {
	for name, err := range map[string]error{
		"nil":                  nil,
		"no status":            io.EOF,
		"no details":           status.Error(codes.NotFound, "x"),
		"of another domain":    withDetails(t, &errdetails.ErrorInfo{Reason: "ENOENT", Domain: "googleapis.com", Metadata: map[string]string{"errno": "2"}}),
		"of another kind":      withDetails(t, &errdetails.BadRequest{}),
		"RetryInfo by itself ": withDetails(t, &errdetails.RetryInfo{}),
	} {
		if e, ok := fserrpb.FromStatus(err); ok || e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// TestOddErrnos is about servers of another version.
func TestOddErrnos(t *testing.T) {
	for _, c := range []struct {
		name, reason, errno string
		want                fserr.Code
	}{
		{"number before name", "ENOENT", "17", fserr.EEXIST},
		{"no number", "ENOENT", "", fserr.ENOENT},
		{"an unknown number and name", "EWHAT", "x", fserr.EIO},
		{"a reason of a later server", "WHAT", "", fserr.ENOENT},
		{"no number in it", "ELOOP", "x", fserr.ELOOP},
		{"negative", "ELOOP", "-40", fserr.ELOOP},
		{"beyond 32 bits", "ELOOP", "4294967298", fserr.ELOOP},
	} {
		e, ok := fserrpb.FromStatus(withDetails(t, &errdetails.ErrorInfo{
			Reason: c.reason, Domain: "ctxfs", Metadata: map[string]string{"errno": c.errno, "written": "x"},
		}))
		if !ok || e.Code != c.want || e.Written != 0 {
			t.Errorf("%s: %+v, %v", c.name, e, ok)
		}
	}
}

func TestFromContext(t *testing.T) {
	if err := fserrpb.FromContext(t.Context()); err != nil {
		t.Errorf("a context that lasts: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fserrpb.FromContext(cancelled); !errors.Is(err, fserr.ECANCELED) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if err := fserrpb.FromContext(late); !errors.Is(err, fserr.ETIMEDOUT) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("late: %v", err)
	}
}
