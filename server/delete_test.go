package server

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// manyFiles fills a workspace with more names and text than a connection buffers for a
// client that does not read.
func manyFiles(t *testing.T, dir string) {
	t.Helper()
	for i := range 3000 {
		write(t, filepath.Join(dir, fmt.Sprintf("%0200d", i)), fmt.Sprintf("needle %0400d\n", i))
	}
}

// TestDeleteIsNotHeldUpByAClientThatDoesNotRead opens streams and reads nothing of them.
func TestDeleteIsNotHeldUpByAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	manyFiles(t, cfg.Workspace)
	write(t, filepath.Join(cfg.Workspace, ".git", "HEAD"), "ref: refs/heads/main\n")
	cfg.SeedSelect = "all"
	r := start(t, cfg)
	cs := ctxfsv1.NewContextServiceClient(r.host(t))
	for name, open := range map[string]func(ctxfsv1.FsServiceClient, string) error{
		"Opendir": func(c ctxfsv1.FsServiceClient, id string) error {
			_, err := c.Opendir(t.Context(), &ctxfsv1.OpendirRequest{ContextId: id, Path: "/", WithStats: true})
			return err
		},
		"Glob": func(c ctxfsv1.FsServiceClient, id string) error {
			_, err := c.Glob(t.Context(), &ctxfsv1.GlobRequest{ContextId: id, Patterns: []string{"**"}})
			return err
		},
		"Export": func(c ctxfsv1.FsServiceClient, id string) error {
			_, err := c.Export(t.Context(), &ctxfsv1.ExportRequest{ContextId: id})
			return err
		},
		"Import": func(c ctxfsv1.FsServiceClient, id string) error {
			_, err := stalledImport(t, c, id)
			return err
		},
		"Grep": func(c ctxfsv1.FsServiceClient, id string) error {
			_, err := c.Grep(t.Context(), &ctxfsv1.GrepRequest{ContextId: id, Pattern: "needle"})
			return err
		},
		"ReadVersion": func(c ctxfsv1.FsServiceClient, id string) error {
			_, err := c.WriteFile(t.Context(), &ctxfsv1.WriteFileRequest{ContextId: id, Path: "/large", Content: &ctxfsv1.WriteFileRequest_Data{Data: make([]byte, 8<<20)}})
			if err == nil {
				_, err = ctxfsv1.NewReviewServiceClient(r.host(t)).ReadVersion(t.Context(), &ctxfsv1.ReadVersionRequest{ContextId: id, Path: "/large", Version: ctxfsv1.Version_VERSION_CONTEXT})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened := r.openPanel(t, "p")
			before := r.streams.count()
			if err := open(ctxfsv1.NewFsServiceClient(r.host(t)), opened.GetContextId()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the stream runs", func() bool { return r.streams.count() > before })
			if _, err := cs.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: opened.GetContextId(), DiscardChanges: true}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// tarOfFile returns a tar archive of one file.
func tarOfFile(t *testing.T, name, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// stalledImport sends an archive but for its end.
func stalledImport(t *testing.T, c ctxfsv1.FsServiceClient, id string) (grpc.ClientStreamingClient[ctxfsv1.ImportRequest, ctxfsv1.ImportResponse], error) {
	t.Helper()
	s, err := c.Import(t.Context())
	if err != nil {
		return nil, err
	}
	archive := tarOfFile(t, "imported", strings.Repeat("x", 1<<20))
	return s, errors.Join(
		s.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: &ctxfsv1.ImportOpen{ContextId: id}}}),
		s.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: archive[:len(archive)-1024]}}))
}

// TestForkAndDeleteDoNotWaitForAnImport forks a context in the middle of an import, and then deletes it. The fork has nothing of the import.
func TestForkAndDeleteDoNotWaitForAnImport(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	p := r.openPanel(t, "p")
	cs := ctxfsv1.NewContextServiceClient(r.host(t))
	folder := filepath.Join(r.claim.layout.Dir, p.GetContextId())
	s, err := stalledImport(t, ctxfsv1.NewFsServiceClient(r.host(t)), p.GetContextId())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the draft has the file", func() bool {
		found, _ := filepath.Glob(filepath.Join(folder, ".ctxfs-tmp-*/tree/imported")) // the pattern is good
		return len(found) == 1
	})
	if _, err := cs.Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: p.GetContextId(), NewContextId: "ctx_fork"}); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(r.claim.layout.Dir, "ctx_fork/.ctxfs-tmp-*")); err != nil || len(found) > 0 {
		t.Errorf("the fork has %v, %v", found, err)
	}
	if _, err := cs.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: p.GetContextId(), DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	_ = s.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: make([]byte, 1024)}}) // CloseAndRecv says why not
	_, err = s.CloseAndRecv()
	if e, ok := fserrpb.FromStatus(err); !ok || e.Code != fserr.ESTALE {
		t.Errorf("the import ended with %v, want ESTALE", err)
	}
	if _, err := os.Lstat(folder); !os.IsNotExist(err) {
		t.Errorf("the context is there again: %v", err)
	}
}

// TestADeletedContextStaysDeleted has a panel's call wait while its context is being deleted:
// it must not be taken for a first access, which would make the context anew.
func TestADeletedContextStaysDeleted(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	p := r.openPanel(t, "p")
	access, err := r.parts.contexts.Acquire(t.Context(), contexts.ID(p.GetContextId()), contexts.Write)
	if err != nil {
		t.Fatal(err)
	}
	fs, host := ctxfsv1.NewFsServiceClient(r.host(t)), r.host(t)
	var deletion, calls sync.WaitGroup
	deletion.Go(func() {
		_, err := ctxfsv1.NewContextServiceClient(host).DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: p.GetContextId(), DiscardChanges: true})
		if err != nil {
			t.Error(err)
		}
	})
	<-access.Closing().Done()
	for range 20 {
		calls.Go(func() {
			_, err := fs.Stat(with(t, "authorization", bearerOf(p.GetToken())), &ctxfsv1.StatRequest{Path: "/"})
			wantError(t, err, codes.Unauthenticated, "EACCES", "unknown")
		})
	}
	eventually(t, "the calls run", func() bool { return r.metrics.running() >= 21 })
	access.Release()
	deletion.Wait()
	calls.Wait()
	if _, err := os.Lstat(filepath.Join(r.claim.layout.Dir, p.GetContextId())); !os.IsNotExist(err) {
		t.Errorf("the context is there again: %v", err)
	}
}
