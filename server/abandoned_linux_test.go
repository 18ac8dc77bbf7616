package server

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestAbandonedLooksKeepNobodyOut has a panel make a file of 1 TiB that takes no space, and abandons calls that look at all of it. Then the panel and
// the host change the context, copy it and delete it.
func TestAbandonedLooksKeepNobodyOut(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		h.serve()
		fs, reviews, cs := ctxfsv1.NewFsServiceClient(h.cc), h.reviews(), h.contexts()
		for name, look := range map[string]func(ctx context.Context, id string) error{
			"ListChanges": func(ctx context.Context, id string) error {
				s, err := reviews.ListChanges(ctx, &ctxfsv1.ListChangesRequest{ContextId: id})
				for err == nil {
					_, err = s.Recv()
				}
				return err
			},
			"GetDiff against the workspace": func(ctx context.Context, id string) error {
				s, err := reviews.GetDiff(ctx, &ctxfsv1.GetDiffRequest{ContextId: id, Against: &ctxfsv1.Against{What: &ctxfsv1.Against_Workspace{Workspace: true}}})
				for err == nil {
					_, err = s.Recv()
				}
				return err
			},
			"SubmitReview": func(ctx context.Context, id string) error {
				_, err := reviews.SubmitReview(ctx, &ctxfsv1.SubmitReviewRequest{ContextId: id})
				return err
			},
			"DeleteContext": func(ctx context.Context, id string) error {
				_, err := cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: id})
				return err
			},
			"CopyFile": func(ctx context.Context, id string) error {
				_, err := fs.CopyFile(ctx, &ctxfsv1.CopyFileRequest{ContextId: id, Path: "/huge", Dest: "/copy"})
				return err
			},
			"Cp": func(ctx context.Context, id string) error {
				_, err := fs.Cp(ctx, &ctxfsv1.CpRequest{ContextId: id, Path: "/huge", Dest: "/cp"})
				return err
			},
			"Grep": func(ctx context.Context, id string) error {
				s, err := fs.Grep(ctx, &ctxfsv1.GrepRequest{ContextId: id, Pattern: "x"})
				for err == nil {
					_, err = s.Recv()
				}
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				id := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "p"}).GetContextId()
				huge := filepath.Join(h.r.Info().ContextsDir, id, "huge")
				must(t, os.WriteFile(huge, []byte("data"), 0o600))
				if err := os.Truncate(huge, 1<<40); err != nil {
					t.Skipf("the file system has no file of 1 TiB: %v", err)
				}
				if st, err := os.Stat(huge); err != nil || st.Sys().(*syscall.Stat_t).Blocks > 1<<10 { //nolint:forcetypeassert // a system with such a stat
					t.Skipf("the file system has no sparse files (%v)", err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- look(ctx, id) }()
				select {
				case err := <-done: // it needed no longer
					done <- err
				case <-time.After(200 * time.Millisecond): // clock: the call must be under way; one that is not yet passes too
				}
				cancel()
				<-done

				ctx = t.Context()
				_, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{ContextId: id, Path: "/new", Content: &ctxfsv1.WriteFileRequest_Text{Text: "new"}})
				must(t, err)
				_, err = cs.Fork(ctx, &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"})
				must(t, err)
				_, err = cs.Snapshot(ctx, &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"})
				must(t, err)
				s, err := reviews.ListChanges(ctx, &ctxfsv1.ListChangesRequest{ContextId: id})
				for err == nil {
					_, err = s.Recv()
				}
				if err != io.EOF { //nolint:errorlint // gRPC returns it as it is
					t.Error(err)
				}
				_, err = fs.Rm(ctx, &ctxfsv1.RmRequest{ContextId: id, Path: "/huge"})
				must(t, err)
				for _, id := range []string{id, "ctx_fork"} {
					_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: id, DiscardChanges: true})
					must(t, err)
				}
			})
		}
	})
}
