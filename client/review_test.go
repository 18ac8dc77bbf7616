package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// A panel with CanReview reviews another one's changes, and gets conflicts as data. A panel without it does not.
func TestPanelReviews(t *testing.T) {
	t.Parallel()
	workspace := servertest.Workspace(t)
	c, err := client.Dial(t.Context(), client.WithAddress(servertest.Start(t, workspace, nil)), client.WithGetenv(func(string) string { return "" }))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	editor, err := c.OpenPanel(t.Context(), "panels/editor")
	must(t, err)
	reviewer, err := c.OpenPanel(t.Context(), "panels/reviewer", client.CanReview(), client.ReadOnly())
	must(t, err)
	must(t, editor.FS().WriteFile("README.md", []byte("# The agent's\n"), 0o644))
	if changes, _, err := editor.Review("").Changes(t.Context(), nil); err != nil || len(changes) != 1 {
		t.Fatalf("the editor's own changes: %v, %v", changes, err)
	}
	must(t, os.WriteFile(filepath.Join(workspace, "README.md"), []byte("# The user's\n"), 0o644))

	apply := &ctxfsv1.ApplyRequest{Approve: true, Selection: client.SelectAll()}
	_, err = reviewer.Review(editor.ContextID()).Apply(t.Context(), apply)
	var refused *client.ReviewError
	if !errors.As(err, &refused) || refused.Reason != client.ReasonConflict || len(refused.Files.GetFiles()) != 1 ||
		refused.Files.GetFiles()[0].GetPath() != "/README.md" || refused.Files.GetFiles()[0].GetKind() != ctxfsv1.ConflictKind_CONFLICT_KIND_CONTENT {
		t.Errorf("a conflict is %v, %+v", err, refused)
	}
	must(t, os.WriteFile(filepath.Join(workspace, "README.md"), []byte("# A workspace\n"), 0o644))
	_, err = reviewer.Review(editor.ContextID()).Apply(t.Context(), apply)
	must(t, err)
	entries, err := reviewer.Review(editor.ContextID()).Journal(t.Context(), "", 10)
	if err != nil || len(entries) != 1 || entries[0].GetActor() != "panels/reviewer" {
		t.Errorf("the journal is %v, %v", entries, err)
	}
	for name, r := range map[string]*client.Review{"its own": reviewer.Review(""), "without the right": editor.Review(reviewer.ContextID())} {
		if _, err := r.Apply(t.Context(), apply); !errors.Is(err, fserr.EACCES) {
			t.Errorf("a review of %s: %v, want EACCES", name, err)
		}
	}
}
