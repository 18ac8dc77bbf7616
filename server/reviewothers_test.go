package server

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// A reviewer learns which other contexts change the same paths, and which conflicts are not resolved. The panel learns neither.
func TestReviewNamesOtherContextsAndUnresolvedPaths(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	id := panel.GetContextId()
	other := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/other"}).GetContextId()
	for _, one := range []string{id, other} {
		shell(t, filepath.Join(h.r.Info().ContextsDir, one, "app"), "sed -i 's/line 3/"+one+"/' src/main.go; echo edited > run")
	}
	shell(t, h.in("app"), "sed -i 's/line 3/user/' src/main.go")
	h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: other})
	if _, err := h.reviews().Rebase(t.Context(), &ctxfsv1.RebaseRequest{ContextId: id, OnConflict: ctxfsv1.OnConflict_ON_CONFLICT_RECORD}); err != nil {
		t.Fatal(err)
	}
	reviewer := h.reviewer("panels/page")
	own := with(t, "authorization", bearerOf(panel.GetToken()))
	for name, c := range map[string]struct {
		ctx   context.Context
		knows bool
	}{"host": {t.Context(), true}, "reviewer": {reviewer.ctx, true}, "panel": {own, false}} {
		all, listed := h.changes(c.ctx, &ctxfsv1.ListChangesRequest{ContextId: id})
		got, err := h.reviews().GetReview(c.ctx, &ctxfsv1.GetReviewRequest{ContextId: id})
		if err != nil {
			t.Fatal(err)
		}
		if all["/app/src/main.go"].GetUnresolved() != c.knows || all["/app/run"].GetUnresolved() {
			t.Errorf("%s: unresolved are main.go %v and run %v", name, all["/app/src/main.go"].GetUnresolved(), all["/app/run"].GetUnresolved())
		}
		for _, s := range []*ctxfsv1.ChangesSummary{listed, got.GetSummary()} {
			if !c.knows {
				if s.GetUnresolved() != 0 || len(s.GetOtherContexts()) != 0 || len(got.GetUnresolved()) != 0 {
					t.Errorf("%s: learns %v and %v", name, s, got.GetUnresolved())
				}
				continue
			}
			others := s.GetOtherContexts()
			if len(others) != 1 || others[0].GetContextId() != other || !slices.Equal(others[0].GetPaths(), []string{"/app/run", "/app/src/main.go"}) || others[0].GetListedNs() == 0 {
				t.Errorf("%s: the other contexts are %v", name, others)
			}
			if s.GetUnresolved() != 1 || !slices.Equal(got.GetUnresolved(), []string{"/app/src/main.go"}) {
				t.Errorf("%s: unresolved are %d, %v", name, s.GetUnresolved(), got.GetUnresolved())
			}
		}
	}
}
