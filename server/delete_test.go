package server

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/contexts"
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
		"Grep": func(c ctxfsv1.FsServiceClient, id string) error {
			_, err := c.Grep(t.Context(), &ctxfsv1.GrepRequest{ContextId: id, Pattern: "needle"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened := r.openPanel(t, "p")
			before := r.streams.count()
			if err := open(ctxfsv1.NewFsServiceClient(r.host(t)), opened.GetContextId()); err != nil {
				t.Fatal(err)
			}
			for r.streams.count() == before {
				time.Sleep(time.Millisecond) // the server has no event to wait for
			}
			begun := time.Now()
			if _, err := cs.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: opened.GetContextId()}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("deleting took %s", took)
			}
		})
	}
}

// TestADeletedContextStaysDeleted has a panel's call wait while its context is being deleted:
// it must not be taken for a first access, which would make the context anew.
func TestADeletedContextStaysDeleted(t *testing.T) {
	r := start(t, testConfig(t))
	p := r.openPanel(t, "p")
	access, err := r.parts.contexts.Acquire(t.Context(), contexts.ID(p.GetContextId()), contexts.Write)
	if err != nil {
		t.Fatal(err)
	}
	fs, host := ctxfsv1.NewFsServiceClient(r.host(t)), r.host(t)
	var deletion, calls sync.WaitGroup
	deletion.Go(func() {
		_, err := ctxfsv1.NewContextServiceClient(host).DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: p.GetContextId()})
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
	for r.metrics.running() < 21 {
		time.Sleep(time.Millisecond) // the server has no event to wait for
	}
	access.Release()
	deletion.Wait()
	calls.Wait()
	if _, err := os.Lstat(filepath.Join(r.claim.layout.Dir, p.GetContextId())); !os.IsNotExist(err) {
		t.Errorf("the context is there again: %v", err)
	}
}
