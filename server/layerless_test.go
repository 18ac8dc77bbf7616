package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// first receives the first message of a stream.
func first[M any](stream grpc.ServerStreamingClient[M], err error) error {
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// TestContextWithoutItsLayer restores a context from a backup that left the layers out. It works but for its review, which says why, until the layer is back.
func TestContextWithoutItsLayer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, sessionConfig(t))
	id := h.reviewed().GetContextId()
	ctx, reviews := t.Context(), h.reviews()
	shell(t, h.folder(id), "sed -i 's/line 3/panel/' app/src/main.go")
	changes := func() error {
		return first(reviews.ListChanges(ctx, &ctxfsv1.ListChangesRequest{ContextId: id}))
	}
	must(t, changes())
	layers, aside := filepath.Join(h.r.Info().ContextsDir, ".ctxfs", "layers"), filepath.Join(t.TempDir(), "layers")
	must(t, os.Rename(layers, aside))
	must(t, os.Mkdir(layers, 0o700))
	for name, call := range map[string]func() error{
		"changes": changes,
		"diff": func() error {
			return first(reviews.GetDiff(ctx, &ctxfsv1.GetDiffRequest{ContextId: id}))
		},
		"apply": func() error {
			_, err := reviews.Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: selectAll})
			return err
		},
		"rebase": func() error {
			_, err := reviews.Rebase(ctx, &ctxfsv1.RebaseRequest{ContextId: id})
			return err
		},
		"discard": func() error {
			_, err := reviews.Discard(ctx, &ctxfsv1.DiscardRequest{ContextId: id, Selection: selectAll})
			return err
		},
		"git status": func() error {
			return first(h.gitService().GitStatus(ctx, &ctxfsv1.GitStatusRequest{ContextId: id, Repo: "/app"}))
		},
		"stage": func() error {
			_, err := h.gitService().Stage(ctx, &ctxfsv1.StageRequest{ContextId: id, Repo: "/app", Message: "m"})
			return err
		},
		"delete": func() error {
			_, err := h.contexts().DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: id})
			if !strings.Contains(err.Error(), "discard_changes") {
				t.Errorf("the refusal of a deletion: %v", err)
			}
			return err
		},
	} {
		err := call()
		if wantRefusal(t, err, codes.FailedPrecondition, "LAYER_MISSING"); err == nil || !strings.Contains(err.Error(), "restore .ctxfs/layers") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.Remove(layers))
	must(t, os.Rename(aside, layers))
	must(t, changes())
}
