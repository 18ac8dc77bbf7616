package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestChangesThatWereNotAppliedAreNotLost tries all that ends the content of a context, before its changes are applied and after.
func TestChangesThatWereNotAppliedAreNotLost(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		h.cfg.Pool, h.cfg.GCInterval, h.cfg.ContextTTL, h.cfg.ContextIdleTTL = 0, 100*time.Hour, time.Hour, time.Hour
		pass := h.setClock()
		h.serve()
		ctx, cs := t.Context(), h.contexts()
		app := func(id string) string { return filepath.Join(h.r.Info().ContextsDir, id, "app") }
		// Ignored files and files without a change are no changes; each of the others is.
		shell(t, h.in("app"), "echo '*.log' > .gitignore")
		edits := map[string]string{
			"ctx_edited": "echo more >> app.txt", "ctx_new": "mkdir d; echo new > d/new", "ctx_deleted": "rm app.txt", "ctx_mode": "chmod +x app.txt",
			"ctx_link": "ln -s app.txt link", "ctx_setuid": "echo more >> app.txt; chmod 4755 app.txt", "ctx_fifo": "rm app.txt; mkfifo app.txt",
			"ctx_rules": "mkfifo new; mkdir -p .ctxfs; echo x > .ctxfs/x", "ctx_same": "touch app.txt; echo log > x.log; mkdir node_modules; echo x > node_modules/x", "ctx_git": "git init -q .",
			"ctx_commit":  "git init -q . && git add -A && git -c user.name=a -c user.email=a@example.com commit -q -m base",
			"ctx_ignored": "mkdir d.log; cd d.log; git init -q . && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m one",
		}
		unchanged := []string{"ctx_same", "ctx_git", "ctx_rules"}
		for id, edit := range edits {
			h.open(&ctxfsv1.OpenPanelRequest{PanelId: id[len("ctx_"):]})
			_, err := cs.Snapshot(ctx, &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"})
			must(t, err)
			shell(t, app(id), edit)
		}
		refused := func(what, id string, err error) {
			t.Helper()
			wantRefusal(t, err, codes.FailedPrecondition, "NOT_APPLIED")
			if _, err := os.Lstat(app(id)); err != nil {
				t.Errorf("%s of %s: %v", what, id, err)
			}
		}
		for id := range edits {
			if slices.Contains(unchanged, id) {
				continue
			}
			_, err := cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: id})
			refused("delete", id, err)
			_, err = cs.Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: id, Name: "s"})
			refused("restore", id, err)
			_, err = cs.Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: id, Name: "none"})
			wantCode(t, "restore of a snapshot that is not there", err, codes.NotFound)
		}
		pass(3 * time.Hour)
		rules := func(req *ctxfsv1.CollectGarbageRequest) map[string]string {
			t.Helper()
			req.ServerRules = true
			return h.verdicts(req)
		}
		for _, req := range []*ctxfsv1.CollectGarbageRequest{{DryRun: true}, {}, {Force: true}} {
			for id, got := range rules(req) {
				want := "CHANGES"
				if slices.Contains(unchanged, id) {
					want = "IDLE_TTL"
				}
				if got != want {
					t.Errorf("collection %v: %s: %s, want %s", req, id, got, want)
				}
			}
		}
		_, err := h.reviews().Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: "ctx_edited", Approve: true, Selection: selectAll})
		must(t, err)
		_, err = cs.Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: "ctx_edited", Name: "s"})
		must(t, err)
		_, err = h.reviews().Discard(ctx, &ctxfsv1.DiscardRequest{ContextId: "ctx_new", Selection: selectAll})
		must(t, err)
		_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_new"})
		must(t, err)
		_, err = cs.Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: "ctx_mode", Name: "s", DiscardChanges: true})
		must(t, err)
		_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_link", DiscardChanges: true})
		must(t, err)
		pass(3 * time.Hour)
		if got := rules(&ctxfsv1.CollectGarbageRequest{DiscardChanges: true})["ctx_deleted"]; got != "IDLE_TTL" {
			t.Errorf("with discard_changes: %s", got)
		}
	})
}

// TestSnapshotsOfChangesAreNotLost has contexts without changes. Their snapshots hold changes that were not applied, until these are applied, or the
// snapshots are deleted.
func TestSnapshotsOfChangesAreNotLost(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		h.cfg.Pool, h.cfg.GCInterval, h.cfg.ContextTTL, h.cfg.ContextIdleTTL, h.cfg.ContextsMaxBytes = 0, 100*time.Hour, time.Hour, time.Hour, 1
		pass := h.setClock()
		h.serve()
		ctx, cs := t.Context(), h.contexts()
		app := func(id string) string { return filepath.Join(h.r.Info().ContextsDir, id, "app") }
		for _, id := range []string{"ctx_applied", "ctx_deleted", "ctx_dropped", "ctx_clean"} {
			h.open(&ctxfsv1.OpenPanelRequest{PanelId: id[len("ctx_"):]})
			snapshot := func(name string) {
				_, err := cs.Snapshot(ctx, &ctxfsv1.SnapshotRequest{ContextId: id, Name: name})
				must(t, err)
			}
			snapshot("clean")
			if id == "ctx_clean" {
				continue
			}
			shell(t, app(id), "echo more >> app.txt; echo new > new")
			snapshot("work")
			_, err := h.reviews().Discard(ctx, &ctxfsv1.DiscardRequest{ContextId: id, Selection: selectAll})
			must(t, err)
		}
		refused := func(id string) {
			t.Helper()
			_, err := cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: id})
			wantRefusal(t, err, codes.FailedPrecondition, "NOT_APPLIED")
			if !strings.Contains(err.Error(), "work (files: 2)") || strings.Contains(err.Error(), "clean") {
				t.Errorf("the refusal names other snapshots: %v", err)
			}
		}
		refused("ctx_applied")
		pass(3 * time.Hour)
		for _, req := range []*ctxfsv1.CollectGarbageRequest{{DryRun: true}, {DryRun: true, Force: true}, {}, {Force: true}} {
			req.ServerRules = true
			for id, got := range h.verdicts(req) {
				if want := map[bool]string{true: "IDLE_TTL", false: "SNAPSHOTS"}[id == "ctx_clean"]; got != want {
					t.Errorf("collection %v: %s: %s, want %s", req, id, got, want)
				}
			}
		}
		// A restore loses no snapshot.
		_, err := cs.Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: "ctx_applied", Name: "work"})
		must(t, err)
		_, err = h.reviews().Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: "ctx_applied", Approve: true, Selection: selectAll})
		must(t, err)
		_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_applied"})
		must(t, err)
		_, err = cs.DeleteSnapshot(ctx, &ctxfsv1.DeleteSnapshotRequest{ContextId: "ctx_deleted", Name: "work"})
		must(t, err)
		_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_deleted"})
		must(t, err)
		refused("ctx_dropped")
		_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_dropped", DiscardChanges: true})
		must(t, err)
	})
}

// TestApprovalsAreNotLost has contexts that took back what was approved. The review alone has it, and Apply would write it.
func TestApprovalsAreNotLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.cfg.Pool = 0
	pass := h.setClock()
	h.serve()
	ctx, cs := t.Context(), h.contexts()
	for _, id := range []string{"ctx_applied", "ctx_rejected", "ctx_dropped"} {
		h.open(&ctxfsv1.OpenPanelRequest{PanelId: id[len("ctx_"):]})
		_, err := cs.Snapshot(ctx, &ctxfsv1.SnapshotRequest{ContextId: id, Name: "clean"})
		must(t, err)
		h.edit(id)
		_, err = h.reviews().Decide(ctx, &ctxfsv1.DecideRequest{ContextId: id, Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_APPROVED})
		must(t, err)
		_, err = h.reviews().Discard(ctx, &ctxfsv1.DiscardRequest{ContextId: id, Selection: selectAll})
		must(t, err)
		refused := func(err error) {
			t.Helper()
			wantRefusal(t, err, codes.FailedPrecondition, "NOT_APPLIED")
			if !strings.Contains(err.Error(), "approved and not applied") || !strings.Contains(err.Error(), "app/run") {
				t.Errorf("the refusal does not name the approval: %v", err)
			}
		}
		_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: id})
		refused(err)
		_, err = cs.Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: id, Name: "clean"})
		refused(err)
	}
	pass(3 * time.Hour)
	for _, req := range []*ctxfsv1.CollectGarbageRequest{{DryRun: true}, {}, {Force: true}} {
		req.ContextIdleSeconds = 3600
		for id, got := range h.verdicts(req) {
			if got != "DECISIONS" {
				t.Errorf("collection %v: %s: %s", req, id, got)
			}
		}
	}
	_, err := h.reviews().Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: "ctx_applied"})
	must(t, err)
	// The context has the base's content of before, which is a change by now.
	_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_applied"})
	if wantRefusal(t, err, codes.FailedPrecondition, "NOT_APPLIED"); strings.Contains(err.Error(), "approved") {
		t.Errorf("what was applied is named as an approval: %v", err)
	}
	_, err = h.reviews().Decide(ctx, &ctxfsv1.DecideRequest{ContextId: "ctx_rejected", Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_REJECTED})
	must(t, err)
	_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_rejected"})
	must(t, err)
	_, err = cs.Restore(ctx, &ctxfsv1.RestoreRequest{ContextId: "ctx_dropped", Name: "clean", DiscardChanges: true})
	must(t, err)
	_, err = cs.DeleteContext(ctx, &ctxfsv1.DeleteContextRequest{ContextId: "ctx_dropped"})
	must(t, err)
}

// TestAReviewNamesDecisionsThatAreGone: reviewers see who decided, the panel sees the decision.
func TestAReviewNamesDecisionsThatAreGone(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.cfg.Pool = 0
	h.serve()
	panel := with(t, "authorization", bearerOf(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "p"}).GetToken()))
	h.edit("ctx_p")
	_, err := h.reviews().Decide(t.Context(), &ctxfsv1.DecideRequest{ContextId: "ctx_p", Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_APPROVED, Comment: "good"})
	must(t, err)
	_, err = h.reviews().Discard(panel, &ctxfsv1.DiscardRequest{Selection: selectAll})
	must(t, err)
	check := func(what string, s *ctxfsv1.ChangesSummary, actor string) {
		t.Helper()
		if g := s.GetGone(); len(g) != 1 || s.GetGoneCount() != 1 || g[0].GetPath() != "/app/run" || g[0].GetDecision() != ctxfsv1.Decision_DECISION_APPROVED ||
			g[0].GetComment() != "good" || g[0].GetActor() != actor || g[0].GetDecidedNs() == 0 || g[0].GetReplaced() {
			t.Errorf("%s: %v", what, s)
		}
	}
	host, err := h.reviews().GetReview(t.Context(), &ctxfsv1.GetReviewRequest{ContextId: "ctx_p"})
	must(t, err)
	check("GetReview", host.GetSummary(), "host")
	own, err := h.reviews().GetReview(panel, &ctxfsv1.GetReviewRequest{})
	must(t, err)
	check("GetReview of the panel", own.GetSummary(), "")
	_, listed := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: "ctx_p"})
	check("ListChanges", listed, "host")
	stream, err := h.reviews().GetDiff(t.Context(), &ctxfsv1.GetDiffRequest{ContextId: "ctx_p"})
	must(t, err)
	m, err := stream.Recv()
	must(t, err)
	check("GetDiff", m.GetSummary(), "host")
	_, err = h.reviews().Decide(t.Context(), &ctxfsv1.DecideRequest{ContextId: "ctx_p", Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_UNSPECIFIED})
	must(t, err)
	if _, listed = h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: "ctx_p"}); listed.GetGoneCount() != 0 || len(listed.GetGone()) != 0 {
		t.Errorf("after the decision was withdrawn: %v", listed)
	}
}
