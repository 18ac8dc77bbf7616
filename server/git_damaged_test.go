package server

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The record of a staged commit is damaged. It is listed, keeps its own context and no other, and a host discards it.
func TestDamagedStagedCommit(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Pool = 0 // filling it would hold up a collection
	h := newHouse(t, cfg)
	pass := h.setClock()
	h.serve()
	token := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "staged"}).GetToken()
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "free"})
	h.edit("ctx_staged")
	s := h.mustStage(t.Context(), &ctxfsv1.StageRequest{ContextId: "ctx_staged", Repo: "app"})
	must(t, os.WriteFile(filepath.Join(cfg.Workspace, ".contexts", ".ctxfs", "git", s.GetId()+".git", "staged.json"), []byte("{"), 0o600))
	list, err := h.gitService().ListStaged(t.Context(), &ctxfsv1.ListStagedRequest{})
	if err != nil || len(list.GetStaged()) != 1 || list.GetStaged()[0].GetDamaged() == "" || list.GetStaged()[0].GetContextId() != "ctx_staged" {
		t.Errorf("listed %v (%v)", list, err)
	}
	pass(2 * time.Hour)
	if got, want := h.verdicts(&ctxfsv1.CollectGarbageRequest{ContextIdleSeconds: 3600}), (map[string]string{"ctx_free": "REQUEST", "ctx_staged": "STAGED"}); !maps.Equal(got, want) {
		t.Errorf("the collection said %v, want %v", got, want)
	}
	panel := with(t, "authorization", bearerOf(token))
	discard := func(ctx context.Context, force bool) error {
		_, err := h.gitService().DiscardStaged(ctx, &ctxfsv1.DiscardStagedRequest{Id: s.GetId(), Force: force})
		return err
	}
	wantError(t, discard(panel, false), codes.Internal, "EIO", "let a host discard it")
	wantError(t, discard(panel, true), codes.PermissionDenied, "EACCES", "a host does")
	must(t, discard(t.Context(), false))
	if list, err := h.gitService().ListStaged(t.Context(), &ctxfsv1.ListStagedRequest{}); err != nil || len(list.GetStaged()) != 0 {
		t.Errorf("after the discard, listed are %v (%v)", list, err)
	}
}

// A collection removes objects that a push has left.
func TestGarbageOfPushedCommits(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	h := newHouse(t, cfg)
	panel := h.reviewed()
	h.edit(panel.GetContextId())
	s := h.mustStage(t.Context(), &ctxfsv1.StageRequest{ContextId: panel.GetContextId(), Repo: "app"})
	stream, err := h.gitService().Push(t.Context(), &ctxfsv1.PushRequest{Id: s.GetId(), ExpectedCommit: s.GetCommit()})
	for err == nil {
		_, err = stream.Recv()
	}
	left := filepath.Join(cfg.Workspace, ".contexts", ".ctxfs", "git", s.GetId()+".git", "objects", "pack", "pack-left.pack")
	must(t, os.WriteFile(left, nil, 0o600))
	h.verdicts(&ctxfsv1.CollectGarbageRequest{DryRun: true})
	if _, err := os.Stat(left); err != nil {
		t.Errorf("after a dry run: %v", err)
	}
	h.verdicts(&ctxfsv1.CollectGarbageRequest{})
	if _, err := os.Stat(left); err == nil {
		t.Error("objects of a pushed commit are left")
	}
}
