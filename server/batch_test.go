package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// batched is a panel whose context batches change.
type batched struct {
	*testing.T
	conn   *grpc.ClientConn
	fs     ctxfsv1.FsServiceClient
	ctx    context.Context
	folder string
}

func newBatched(t *testing.T, r *running, panel string) *batched {
	t.Helper()
	p := r.openPanel(t, panel)
	conn := r.host(t)
	return &batched{t, conn, ctxfsv1.NewFsServiceClient(conn), with(t, "authorization", bearerOf(p.GetToken())), r.folder(p.GetContextId())}
}

func (b *batched) run(steps ...*ctxfsv1.BatchStep) (*ctxfsv1.BatchResponse, error) {
	return b.fs.Batch(b.ctx, &ctxfsv1.BatchRequest{Steps: steps})
}

func (b *batched) want(name, want string) {
	b.Helper()
	got, err := os.ReadFile(filepath.Join(b.folder, name))
	if want == "" && os.IsNotExist(err) {
		return
	}
	if err != nil || string(got) != want {
		b.Errorf("%s holds %q (%v), want %q", name, got, err, want)
	}
}

func stepWrite(name, text string) *ctxfsv1.BatchStep {
	return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_WriteFile{WriteFile: &ctxfsv1.WriteFileRequest{
		Path: name, Content: &ctxfsv1.WriteFileRequest_Text{Text: text},
	}}}
}

func stepEdit(name, old, now string) *ctxfsv1.BatchStep {
	return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_EditFile{EditFile: &ctxfsv1.EditFileRequest{
		Path: name, Edits: []*ctxfsv1.TextEdit{{OldText: old, NewText: now}},
	}}}
}

func stepRename(from, to string) *ctxfsv1.BatchStep {
	return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rename{Rename: &ctxfsv1.RenameRequest{Path: from, Dest: to}}}
}

func stepMkdir(name string) *ctxfsv1.BatchStep {
	return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Mkdir{Mkdir: &ctxfsv1.MkdirRequest{Path: name, Recursive: true}}}
}

func stepRemove(name string) *ctxfsv1.BatchStep {
	return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rm{Rm: &ctxfsv1.RmRequest{Path: name}}}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit")
	b := newBatched(t, start(t, cfg), "p")
	must := func(resp *ctxfsv1.BatchResponse, err error) *ctxfsv1.BatchResponse {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first := must(b.run(stepWrite("a.txt", "one\ntwo\n"), stepMkdir("d/e"), stepWrite("d/e/b.txt", "secret content"), stepEdit("a.txt", "two", "2")))
	b.want("a.txt", "one\n2\n")
	b.want("d/e/b.txt", "secret content")
	if len(first.GetResults()) != 4 || first.GetBytesWritten() != 8+14+6 {
		t.Errorf("got %v", first)
	}
	st, err := b.fs.Stat(b.ctx, &ctxfsv1.StatRequest{Path: "a.txt"})
	if err != nil || st.GetEtag() == "" || st.GetEtag() != first.GetResults()[3].GetEtag() {
		t.Errorf("the batch answers etag %q, Stat %q (%v)", first.GetResults()[3].GetEtag(), st.GetEtag(), err)
	}

	t.Run("a step that fails", func(t *testing.T) {
		_, err := b.run(stepWrite("a.txt", "never"), stepWrite("new", "never"), stepRename("missing", "d/x"), stepRemove("d"))
		wantError(t, err, codes.NotFound, "ENOENT", "(steps[2]; nothing was changed)")
		e, _ := fserrpb.FromStatus(err)
		if e.Step != 3 || e.Op != "rename" || e.Path != "missing" || e.Dest != "d/x" {
			t.Errorf("the error names step %d, %s %q %q", e.Step-1, e.Op, e.Path, e.Dest)
		}
		b.want("a.txt", "one\n2\n")
		b.want("new", "")
	})
	t.Run("an edit that fails", func(t *testing.T) {
		_, err := b.run(stepRemove("d/e/b.txt"), stepEdit("a.txt", "nowhere", "x"))
		wantError(t, err, codes.InvalidArgument, "EINVAL", "steps[1]")
		b.want("d/e/b.txt", "secret content")
	})
	t.Run("a condition is of the state before", func(t *testing.T) {
		edit := stepEdit("a.txt", "one", "1")
		edit.GetEditFile().IfMatch = st.GetEtag()
		must(b.run(stepWrite("a.txt", "one\n"), edit))
		b.want("a.txt", "1\n")
		_, err := b.run(stepWrite("a.txt", "one\n"), edit)
		wantError(t, err, codes.Aborted, "ESTALE", "steps[1]")
		b.want("a.txt", "1\n")
		none := stepWrite("d/e/b.txt", "x")
		none.GetWriteFile().IfNoneMatch = "*"
		_, err = b.run(stepRemove("d/e/b.txt"), none)
		wantError(t, err, codes.Aborted, "EEXIST", "steps[1]")
	})
	t.Run("a dry run", func(t *testing.T) {
		resp, err := b.fs.Batch(b.ctx, &ctxfsv1.BatchRequest{DryRun: true, Steps: []*ctxfsv1.BatchStep{
			stepWrite("a.txt", "1\nmore\n"), stepRename("d", "moved"), stepWrite("new", "n\n"),
		}})
		want := "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n 1\n+more\n" +
			"diff --git a/d/e/b.txt b/moved/e/b.txt\nrename from d/e/b.txt\nrename to moved/e/b.txt\n" +
			"diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n"
		if err != nil || resp.GetDiff() != want {
			t.Errorf("got %v,\n%s\nwant\n%s", err, resp.GetDiff(), want)
		}
		b.want("a.txt", "1\n")
		b.want("new", "")
	})
	t.Run("refused", func(t *testing.T) {
		_, err := b.run()
		wantError(t, err, codes.InvalidArgument, "EINVAL", "1 to 1000 steps")
		_, err = b.run(make([]*ctxfsv1.BatchStep, 1001)...)
		wantError(t, err, codes.InvalidArgument, "EINVAL", "this one 1001")
		other := stepWrite("x", "")
		other.GetWriteFile().ContextId = "ctx_other"
		_, err = b.run(stepWrite("y", ""), other)
		wantError(t, err, codes.InvalidArgument, "EINVAL", "steps[1]")
		fd := stepWrite("", "x")
		fd.GetWriteFile().Fd = new(int32)
		_, err = b.run(fd)
		wantError(t, err, codes.InvalidArgument, "EINVAL", "not to handles")
		_, err = b.run(stepWrite("../outside", ""))
		wantError(t, err, codes.PermissionDenied, "EACCES", "outside the context")
		_, err = b.run(stepWrite(".ctxfs-tmp-x", ""))
		wantError(t, err, codes.PermissionDenied, "EACCES", "the service's own")
	})
	audit, err := os.ReadFile(cfg.AuditLog)
	if err != nil || !strings.Contains(string(audit), `"steps":["writeFile a.txt","mkdir d/e","writeFile d/e/b.txt","editFile a.txt"]`) || strings.Contains(string(audit), "secret") {
		t.Errorf("the audit log: %v %s", err, audit)
	}
}

// TestReaderNeverSeesHalfOfABatch moves two files in step, to and fro, beside readers that list both in one call.
func TestReaderNeverSeesHalfOfABatch(t *testing.T) {
	t.Parallel()
	b := newBatched(t, start(t, testConfig(t)), "p")
	if _, err := b.run(stepMkdir("l/x"), stepMkdir("r/x"), stepWrite("l/one", "0"), stepWrite("l/x/two", "0")); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var lists atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				resp, err := b.fs.Readdir(b.ctx, &ctxfsv1.ReaddirRequest{Path: "/", Recursive: true})
				if err != nil {
					t.Error(err)
					return
				}
				var where []string
				for _, e := range resp.GetEntries() {
					if e.GetName() == "one" || e.GetName() == "two" {
						where = append(where, strings.Trim(e.GetParentPath(), "/")[:1])
					}
				}
				if len(where) != 2 || where[0] != where[1] {
					t.Errorf("a reader sees %q", where)
				}
				lists.Add(1)
			}
		})
	}
	from, to := "l", "r"
	for n := 0; n < 40 || lists.Load() < 20 && !t.Failed(); n++ {
		_, err := b.run(stepRename(from+"/one", to+"/one"), stepWrite("count", fmt.Sprint(n)), stepRename(from+"/x/two", to+"/x/two"))
		if err != nil {
			t.Fatal(err)
		}
		from, to = to, from
	}
	stop.Store(true)
	wg.Wait()
}
