package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// auditBook is an audit log whose entries are numbered by their request IDs.
type auditBook struct {
	*testing.T
	*auditLog
	written int
}

func newAuditBook(t *testing.T, maxSize int64, keep int) *auditBook {
	t.Helper()
	file, err := openRotated(filepath.Join(t.TempDir(), "audit.log"), maxSize, keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &auditBook{T: t, auditLog: &auditLog{file: file, metrics: newMetrics("test")}}
}

// writeMany writes entries of two contexts in turn.
func (b *auditBook) writeMany(n int) {
	for range n {
		b.written++
		b.write(auditEntry{Time: time.Unix(int64(b.written), 0), Role: "host", Context: fmt.Sprint("ctx_", b.written%2), Op: "Mkdir", Result: "ok", RequestID: fmt.Sprint(b.written)})
	}
}

// page returns the numbers of the entries of a page, and its end.
func (b *auditBook) page(req *ctxfsv1.ReadAuditRequest) (ids []string, ready *ctxfsv1.AuditReady) {
	b.Helper()
	err := b.Read(b.Context(), req, func(r *ctxfsv1.ReadAuditResponse) error {
		if e := r.GetEntry(); e != nil {
			ids = append(ids, e.GetRequestId())
		}
		ready = r.GetReady()
		return nil
	})
	if err != nil {
		b.Errorf("Read(%v): %v", req, err)
	}
	return ids, ready
}

// all reads the log page by page.
func (b *auditBook) all(req *ctxfsv1.ReadAuditRequest) (ids []string) {
	b.Helper()
	for {
		page, ready := b.page(req)
		ids = append(ids, page...)
		if ready.GetComplete() || ready.GetBefore() == "" {
			return ids
		}
		req.Before = ready.GetBefore()
	}
}

// countDown returns the numbers from one down to another, by a step.
func countDown(from, to, step int) (out []string) {
	for i := from; i >= to; i -= step {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func TestAuditIsReadBackwards(t *testing.T) {
	t.Parallel()
	b := newAuditBook(t, 40_000, 9) // about 300 entries a file
	if ids, ready := b.page(&ctxfsv1.ReadAuditRequest{}); len(ids) > 0 || !ready.GetComplete() {
		t.Errorf("an empty log: %v, %v", ids, ready)
	}
	b.writeMany(1200)
	if files, err := filepath.Glob(b.file.path + "*"); err != nil || len(files) < 3 {
		t.Fatalf("the log has the files %v, %v", files, err)
	}
	for limit, want := range map[int32]int{0: 100, 1: 1, 7: 7, 1000: 1000} {
		if ids, ready := b.page(&ctxfsv1.ReadAuditRequest{Limit: limit}); !slices.Equal(ids, countDown(1200, 1201-want, 1)) || ready.GetComplete() {
			t.Errorf("limit %d: %d entries, %v", limit, len(ids), ready)
		}
	}
	if ids := b.all(&ctxfsv1.ReadAuditRequest{Limit: 111}); !slices.Equal(ids, countDown(1200, 1, 1)) {
		t.Errorf("all pages have %d entries", len(ids))
	}
	if ids := b.all(&ctxfsv1.ReadAuditRequest{Limit: 111, ContextId: "ctx_1"}); !slices.Equal(ids, countDown(1199, 1, 2)) {
		t.Errorf("of one context there are %d", len(ids))
	}
	for _, none := range []*ctxfsv1.ReadAuditRequest{{Op: "Rmdir"}, {PanelId: "panels/a"}, {ContextId: "ctx"}} {
		if ids, ready := b.page(none); len(ids) > 0 || !ready.GetComplete() {
			t.Errorf("%v: %v", none, ids)
		}
	}
	_, ready := b.page(&ctxfsv1.ReadAuditRequest{Limit: 10})
	b.writeMany(700) // the file of the cursor is renamed meanwhile
	if ids, _ := b.page(&ctxfsv1.ReadAuditRequest{Limit: 10, Before: ready.GetBefore()}); !slices.Equal(ids, countDown(1190, 1181, 1)) {
		t.Errorf("after a rotation: %v", ids)
	}
	b.writeMany(4000)
	if err := b.Read(t.Context(), &ctxfsv1.ReadAuditRequest{Before: ready.GetBefore()}, nil); fserr.CodeOf(err) != fserr.ENOENT {
		t.Errorf("of a file that was removed: %v", err)
	}
}

func TestAuditLeavesOutWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	b := newAuditBook(t, 1<<30, 1)
	b.writeMany(2)
	f, err := os.OpenFile(b.file.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), 3<<20)
	for _, text := range []string{"\n\nhalf {\n", string(long), "\n"} {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b.writeMany(2)
	if ids, ready := b.page(&ctxfsv1.ReadAuditRequest{}); !slices.Equal(ids, countDown(4, 1, 1)) || !ready.GetComplete() {
		t.Errorf("%v, %v", ids, ready)
	}
}

// TestAuditIsFollowed reads live through rotations, and loses and repeats nothing.
func TestAuditIsFollowed(t *testing.T) {
	t.Parallel()
	b := newAuditBook(t, 4_000, 50)
	b.writeMany(60)
	const most = 500
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	var past, live []string
	ready := false
	go func() {
		ended <- b.Read(ctx, &ctxfsv1.ReadAuditRequest{Limit: 5, Follow: true}, func(r *ctxfsv1.ReadAuditResponse) error {
			switch {
			case r.GetReady() != nil:
				ready = true
				close(begun)
			case ready:
				live = append(live, r.GetEntry().GetRequestId())
			default:
				past = append(past, r.GetEntry().GetRequestId())
			}
			if len(live) == most {
				cancel()
			}
			return nil
		})
	}()
	<-begun
	b.writeMany(most)
	if err := <-ended; err == nil {
		t.Error("a stream that was cancelled ends without an error")
	}
	slices.Reverse(live)
	if !slices.Equal(past, countDown(60, 56, 1)) || !slices.Equal(live, countDown(60+most, 61, 1)) {
		t.Errorf("past %v, live %d: %v", past, len(live), live)
	}
}

func TestBadAuditRequests(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.AuditLog = filepath.Join(cfg.Workspace, "audit.log")
	r := start(t, cfg)
	cc := r.host(t)
	for name, c := range map[string]struct {
		req   *ctxfsv1.ReadAuditRequest
		code  codes.Code
		errno string
	}{
		"negative":        {&ctxfsv1.ReadAuditRequest{Limit: -1}, codes.InvalidArgument, "EINVAL"},
		"too many":        {&ctxfsv1.ReadAuditRequest{Limit: 1001}, codes.InvalidArgument, "EINVAL"},
		"no cursor":       {&ctxfsv1.ReadAuditRequest{Before: "x"}, codes.InvalidArgument, "EINVAL"},
		"a path":          {&ctxfsv1.ReadAuditRequest{Before: "../../etc/passwd-0"}, codes.NotFound, "ENOENT"},
		"negative offset": {&ctxfsv1.ReadAuditRequest{Before: "0-" + strings.Repeat("9", 30)}, codes.InvalidArgument, "EINVAL"},
		"both":            {&ctxfsv1.ReadAuditRequest{Before: "0-0", Follow: true}, codes.InvalidArgument, "EINVAL"},
		"another file":    {&ctxfsv1.ReadAuditRequest{Before: "0123-0"}, codes.NotFound, "ENOENT"},
	} {
		stream, err := ctxfsv1.NewConsoleServiceClient(cc).ReadAudit(t.Context(), c.req)
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		wantError(t, err, c.code, c.errno, "")
	}
}
