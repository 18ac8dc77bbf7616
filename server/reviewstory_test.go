package server

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// origins are the ways in which a context is made. Each returns the ID of one that is as it was seeded.
var origins = map[string]func(h *house) string{
	"seeded": func(h *house) string {
		return h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"}).GetContextId()
	},
	"fork": func(h *house) string {
		id := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"}).GetContextId()
		if _, err := h.contexts().Fork(h.t.Context(), &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"}); err != nil {
			h.t.Fatal(err)
		}
		return "ctx_fork"
	},
	"restored": func(h *house) string {
		id := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"}).GetContextId()
		if _, err := h.contexts().Snapshot(h.t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"}); err != nil {
			h.t.Fatal(err)
		}
		shell(h.t, h.folder(id), "echo forgotten > app/story; rm app/app.txt; mkdir more")
		if _, err := h.contexts().Restore(h.t.Context(), &ctxfsv1.RestoreRequest{ContextId: id, Name: "s", DiscardChanges: true}); err != nil {
			h.t.Fatal(err)
		}
		return id
	},
	"template": func(h *house) string {
		h.template("templates/a", "deps:", "  /app: {repo: app}")
		return h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor", Template: "templates/a"}).GetContextId()
	},
	"older than reviews": func(h *house) string {
		id := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"}).GetContextId()
		h.stop()
		if err := os.RemoveAll(h.r.claim.layout.Review); err != nil {
			h.t.Fatal(err)
		}
		h.r = nil
		h.serve()
		h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"})
		return id
	},
}

func storyOf(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func (h *house) contexts() ctxfsv1.ContextServiceClient {
	return ctxfsv1.NewContextServiceClient(h.cc)
}

func (h *house) folder(id string) string { return filepath.Join(h.r.Info().ContextsDir, id) }

// TestReviewOfEveryOrigin changes a file of a context, approves one of two hunks, applies and undoes it, on contexts of every origin and driver.
// TestInNamespaces runs it with the driver overlay-userns.
func TestReviewOfEveryOrigin(t *testing.T) {
	t.Parallel()
	settings := map[string]func(t *testing.T) Config{"mounted": overlaid, DriverCopy: func(t *testing.T) Config {
		t.Helper()
		cfg := testConfig(t)
		cfg.Driver = DriverCopy
		return cfg
	}}
	for driver, settings := range settings {
		for name, seeded := range origins {
			t.Run(driver+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, settings(t))
				h.write("app/story", storyOf(30))
				h.commit("app")
				h.serve()
				h.reviewStory(seeded(h))
			})
		}
	}
}

func (h *house) reviewStory(id string) {
	h.t.Helper()
	before := treeOf(h.t, h.cfg.Workspace)
	shell(h.t, h.folder(id), "sed -i -e '5s/.*/five/' -e '25s/.*/twenty-five/' app/story")
	hunks := h.hunks(id)
	if len(hunks) != 2 {
		h.t.Fatalf("there are the hunks %v", hunks)
	}
	second := &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: &ctxfsv1.SelectedChanges{
		Changes: []*ctxfsv1.SelectedChange{{Path: "/app/story", HunkIds: []string{hunks[1].GetHunkId()}}},
	}}}
	if _, err := h.reviews().Decide(h.t.Context(), &ctxfsv1.DecideRequest{ContextId: id, Selection: second, Decision: ctxfsv1.Decision_DECISION_APPROVED}); err != nil {
		h.t.Fatal(err)
	}
	applied, err := h.reviews().Apply(h.t.Context(), &ctxfsv1.ApplyRequest{ContextId: id})
	if err != nil {
		h.t.Fatal(err)
	}
	want := maps.Clone(before)
	want["app/story"] = strings.Replace(storyOf(30), "line 25\n", "twenty-five\n", 1)
	wantTree(h.t, "applied", treeOf(h.t, h.cfg.Workspace), want)
	if left := h.hunks(id); len(left) != 1 || left[0].GetHunkId() != hunks[0].GetHunkId() {
		h.t.Errorf("after the apply there are the hunks %v", left)
	}
	if _, err := h.reviews().Undo(h.t.Context(), &ctxfsv1.UndoRequest{JournalId: applied.GetJournalId()}); err != nil {
		h.t.Fatal(err)
	}
	wantTree(h.t, "undone", treeOf(h.t, h.cfg.Workspace), before)
	if again := h.hunks(id); len(again) != 2 {
		h.t.Errorf("after the undo there are the hunks %v", again)
	}
}

// hunks lists all hunks of a context's changes.
func (h *house) hunks(id string) (out []*ctxfsv1.Hunk) {
	h.t.Helper()
	stream, err := h.reviews().GetDiff(h.t.Context(), &ctxfsv1.GetDiffRequest{ContextId: id})
	for err == nil {
		var m *ctxfsv1.GetDiffResponse
		if m, err = stream.Recv(); m.GetHunk() != nil {
			out = append(out, m.GetHunk())
		}
		if m.GetSummary() != nil {
			return out
		}
	}
	h.t.Fatal(err)
	return nil
}

// A template can put a repository at another path than it has in the workspace. Its changes must not be written to that path there.
func TestApplyRefusesRepositoriesThatATemplatePutElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.template("templates/a", "deps:", "  /app: {repo: app}", "  /data: {repo: tools}")
	h.serve()
	id := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor", Template: "templates/a"}).GetContextId()
	shell(t, h.folder(id), "echo new > data/new; echo new > app/new; echo new > new")
	before := treeOf(t, h.cfg.Workspace)
	_, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}})
	wantCode(t, "apply", err, codes.PermissionDenied)
	if err == nil || !strings.Contains(err.Error(), "workspace:tools") || !strings.Contains(err.Error(), "/data") {
		t.Errorf("the error is %v", err)
	}
	wantTree(t, "the workspace", treeOf(t, h.cfg.Workspace), before)
	rest := &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{{Path: "/app"}, {Path: "/new"}}}
	if _, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: id, Approve: true, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: rest}}}); err != nil {
		t.Fatal(err)
	}
	before["app/new"], before["new"] = "new\n", "new\n"
	wantTree(t, "the workspace", treeOf(t, h.cfg.Workspace), before)
}
