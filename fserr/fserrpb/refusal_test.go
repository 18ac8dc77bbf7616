package fserrpb_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// refusing starts a server whose calls all fail with err, and returns what a client gets that accepts 8 KiB of trailers.
func refusing(t *testing.T, err error) error {
	t.Helper()
	l, lerr := net.Listen("tcp", "127.0.0.1:0")
	if lerr != nil {
		t.Fatal(lerr)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return fserrpb.ToStatus(err) }))
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	defer func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	cc, cerr := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithMaxHeaderListSize(8<<10))
	if cerr != nil {
		t.Fatal(cerr)
	}
	defer func() { _ = cc.Close() }()
	return cc.Invoke(t.Context(), "/x.X/X", &emptypb.Empty{}, &emptypb.Empty{})
}

func refusedFiles(n int, name string) (files []*ctxfsv1.RefusedFile) {
	for i := range n {
		files = append(files, &ctxfsv1.RefusedFile{Path: fmt.Sprintf("/%s%d", name, i)})
	}
	return files
}

// TestRefusalsFitIntoTrailers sends refusals to a client that accepts 8 KiB.
func TestRefusalsFitIntoTrailers(t *testing.T) {
	long := strings.Repeat("\u00e9", 500)
	for _, c := range []struct {
		name      string
		r         fserrpb.Refusal
		least     int
		all       bool
		text, not string
	}{
		{"none", fserrpb.Refusal{Reason: "CHECK_FAILED", Detail: "d"}, 0, true, "CHECK_FAILED: d", ":  "},
		{"three", fserrpb.Refusal{Reason: "CONFLICT", Detail: "d", Hint: "h", Files: refusedFiles(3, "a")}, 3, true, "CONFLICT: d: a0, a1, a2; h", "more"},
		{"a hundred", fserrpb.Refusal{Reason: "CONFLICT", Detail: "d", Files: refusedFiles(100, "src/file")}, 100, true, "and 97 more", "lists"},
		{"many", fserrpb.Refusal{Reason: "CONFLICT", Detail: "d", Files: refusedFiles(5000, "src/some/directory/file")}, 100, false, "of 5000 files, and ListChanges lists them all", "h;"},
		{"many that the user's git lists", fserrpb.Refusal{Reason: "DIRTY_COMMIT", Detail: "d", Files: refusedFiles(5000, "a")}, 100, false, "of 5000 files, and git status lists them all", "h;"},
		{"long names", fserrpb.Refusal{Reason: "UNRESOLVED", Detail: "d", Hint: "h", Files: refusedFiles(50, long)}, 1, false, "h; this error lists", "  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := refusing(t, fmt.Errorf("of a handler: %w", &c.r))
			files := fserrpb.FilesOf(err)
			n := len(files.GetFiles())
			if status.Code(err) != c.r.Code() || fserrpb.ReasonOf(err) != c.r.Reason || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), c.not) {
				t.Errorf("it arrives as %.300v", err)
			}
			if int(files.GetFileCount()) != len(c.r.Files) || n < c.least || (n == len(c.r.Files)) != c.all || c.all != (files.GetListedBy() == "") {
				t.Errorf("%d of %d files arrive, listed by %q", n, files.GetFileCount(), files.GetListedBy())
			}
			for i, f := range files.GetFiles() {
				if f.GetPath() != c.r.Files[i].GetPath() {
					t.Errorf("file %d is %q", i, f.GetPath())
				}
			}
		})
	}
}

func TestRefusalsComeBack(t *testing.T) {
	cause := errors.New("/srv/secret")
	sent := &fserrpb.Refusal{
		Reason: "GIT_LOCKED", Detail: "d of caf\xe9", Hint: "h", Metadata: map[string]string{"kind": "git", "repo": "/caf\xe9"}, RetryAfter: time.Second,
		Files: []*ctxfsv1.RefusedFile{{RawPath: []byte("/caf\xe9")}}, Err: cause,
	}
	if !errors.Is(fserrpb.ToStatus(sent), cause) {
		t.Error("the cause is lost before the status is made")
	}
	got, st := travel(t, sent)
	want := `GIT_LOCKED: d of caf\xe9: caf\xe9; h`
	if got.Reason != "GIT_LOCKED" || got.Code != fserr.EAGAIN || got.Kind != "git" || got.RetryAfter != time.Second || st.Message() != want || got.Error() != want || st.Code() != codes.Unavailable {
		t.Errorf("%+v comes back as %+v, %v", sent, got, st)
	}
	if files := fserrpb.FilesOf(st.Err()).GetFiles(); len(files) != 1 || string(files[0].GetRawPath()) != "/caf\xe9" {
		t.Errorf("the files are %v", files)
	}
	again := fserrpb.FromSession(fserrpb.ToSession(sent))
	if fserrpb.ReasonOf(again) != "GIT_LOCKED" || len(fserrpb.FilesOf(again).GetFiles()) != 1 || fserrpb.CodeOf(again) != codes.Unavailable {
		t.Errorf("a session has %v", again)
	}
}

// TestReasonOf names what metrics and the audit log count.
func TestReasonOf(t *testing.T) {
	for want, err := range map[string]error{
		"":         nil,
		"ENOENT":   fserrpb.ToStatus(fserr.ENOENT),
		"EIO":      fserrpb.ToStatus(errors.New("odd")),
		"CONFLICT": status.ErrorProto((&fserrpb.Refusal{Reason: "CONFLICT"}).GRPCStatus().Proto()),
	} {
		if got := fserrpb.ReasonOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	if got := fserrpb.ReasonOf(status.Error(codes.Unavailable, "gone")); got != "" {
		t.Errorf("a status of gRPC's own is %q", got)
	}
}
