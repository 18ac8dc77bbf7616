package server

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

var (
	reviewRight = []ctxfsv1.PanelRight{ctxfsv1.PanelRight_PANEL_RIGHT_REVIEW}
	selectAll   = &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}
)

// reviewer is a panel with the right to review.
type reviewer struct {
	*house
	opened *ctxfsv1.OpenPanelResponse
	ctx    context.Context
}

func (h *house) reviewer(id string) reviewer {
	h.t.Helper()
	o := h.open(&ctxfsv1.OpenPanelRequest{PanelId: id, Rights: reviewRight})
	return reviewer{h, o, with(h.t, "authorization", bearerOf(o.GetToken()))}
}

// edit changes a file of a context.
func (h *house) edit(contextID string) {
	h.t.Helper()
	shell(h.t, filepath.Join(h.r.Info().ContextsDir, contextID, "app"), "echo edited > run")
}

func (h *house) fork(from, to, owner string) {
	h.t.Helper()
	_, err := ctxfsv1.NewContextServiceClient(h.cc).Fork(h.t.Context(), &ctxfsv1.ForkRequest{ContextId: from, NewContextId: to, NewPanelId: owner})
	if err != nil {
		h.t.Fatal(err)
	}
}

// tries makes the calls of a reviewer on a context, one after the other. It returns the error of each, by name.
func (v reviewer) tries(ctx context.Context, contextID string, journalID int64) map[string]error {
	reviews := v.reviews()
	errs := map[string]error{}
	list, err := reviews.ListChanges(ctx, &ctxfsv1.ListChangesRequest{ContextId: contextID})
	if err == nil {
		_, err = list.Recv()
	}
	errs["ListChanges"] = err
	diff, err := reviews.GetDiff(ctx, &ctxfsv1.GetDiffRequest{ContextId: contextID})
	if err == nil {
		_, err = diff.Recv()
	}
	errs["GetDiff"] = err
	read, err := reviews.ReadVersion(ctx, &ctxfsv1.ReadVersionRequest{ContextId: contextID, Path: "/app/run", Version: ctxfsv1.Version_VERSION_WORKSPACE})
	if err == nil {
		_, err = read.Recv()
	}
	errs["ReadVersion"] = err
	_, errs["GetReview"] = reviews.GetReview(ctx, &ctxfsv1.GetReviewRequest{ContextId: contextID})
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := reviews.WatchReview(watched, &ctxfsv1.WatchReviewRequest{ContextId: contextID})
	if err == nil {
		_, err = watch.Recv()
	}
	errs["WatchReview"] = err
	_, errs["ListJournal"] = reviews.ListJournal(ctx, &ctxfsv1.ListJournalRequest{ContextId: contextID})
	_, errs["Decide"] = reviews.Decide(ctx, &ctxfsv1.DecideRequest{ContextId: contextID, Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_APPROVED})
	applied, err := reviews.Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: contextID, Approve: true, Selection: selectAll})
	if errs["Apply"] = err; err == nil {
		journalID = applied.GetJournalId()
	}
	_, errs["Undo"] = reviews.Undo(ctx, &ctxfsv1.UndoRequest{JournalId: journalID})
	return errs
}

// refused checks that no call of a reviewer works on a context. journalID is an entry that it may not undo.
func (v reviewer) refused(contextID string, journalID int64, words string) {
	v.t.Helper()
	for name, err := range v.tries(v.ctx, contextID, journalID) {
		if err == nil || name != "Undo" && !strings.Contains(err.Error(), words) {
			v.t.Errorf("%s: %s: %v, want %q", contextID, name, err, words)
		}
		wantCode(v.t, contextID+": "+name, err, codes.PermissionDenied)
	}
}

func TestReviewRight(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit.jsonl")
	h := newHouse(t, cfg)
	editor := h.reviewed().GetContextId()
	v := h.reviewer("panels/reviewer")
	h.edit(editor)
	shell(t, h.in("app"), "echo kept >> app.txt")
	shell(t, filepath.Join(h.r.Info().ContextsDir, editor, "app"), "echo b > bin")

	if !slices.Equal(v.opened.GetRights(), reviewRight) {
		t.Errorf("the response has the rights %v", v.opened.GetRights())
	}
	info, err := ctxfsv1.NewContextServiceClient(h.cc).GetInfo(v.ctx, &ctxfsv1.GetInfoRequest{})
	if err != nil || !slices.Equal(info.GetRights(), reviewRight) {
		t.Errorf("GetInfo: %v, %v", info, err)
	}
	list, err := ctxfsv1.NewPanelServiceClient(h.cc).ListPanels(t.Context(), &ctxfsv1.ListPanelsRequest{})
	if err != nil || len(list.GetPanels()) != 2 || len(list.GetPanels()[0].GetRights()) != 0 || !slices.Equal(list.GetPanels()[1].GetRights(), reviewRight) {
		t.Errorf("ListPanels: %v, %v", list, err)
	}
	for name, err := range v.tries(v.ctx, editor, 0) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, err := h.reviews().ListJournal(v.ctx, &ctxfsv1.ListJournalRequest{ContextId: editor})
	if err != nil || len(entries.GetEntries()) != 2 || entries.GetEntries()[1].GetActor() != "panels/reviewer" {
		t.Errorf("the journal is %v, %v", entries, err)
	}
	shell(t, h.in("app"), "echo drift > run")
	if changes, _ := h.changes(v.ctx, &ctxfsv1.ListChangesRequest{ContextId: editor}); !changes["/app/run"].GetDrifted() {
		t.Errorf("the reviewer does not learn that the workspace has changed: %v", changes)
	}
	session := beginOn(t, h.cc, v.opened.GetToken(), "tab")
	session.works(&ctxfsv1.DecideRequest{ContextId: editor, Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_REJECTED})

	data, err := os.ReadFile(cfg.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"role":"panel","panel":"panels/reviewer","context":"` + editor + `","op":"Apply","right":"review"`,
		`"role":"panel","panel":"panels/reviewer","op":"Undo","right":"review"`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the audit log has no %s:\n%s", want, data)
		}
	}
}

// TestReviewRightShowsTheWorkspaceWhereTheContextChanged has files of the user's that no change concerns, some of which no context gets.
func TestReviewRightShowsTheWorkspaceWhereTheContextChanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	editor := h.reviewed().GetContextId()
	v := h.reviewer("panels/reviewer")
	h.edit(editor)
	shell(t, h.in("app"), "echo .env > .gitignore; echo SECRET=1 > .env; echo later > later; echo mine >> app.txt; echo mine > run")
	// The panel makes files where the user has some that it never got.
	shell(t, filepath.Join(h.r.Info().ContextsDir, editor, "app"), "touch .env later")
	read := func(ctx context.Context, path string) error {
		stream, err := h.reviews().ReadVersion(ctx, &ctxfsv1.ReadVersionRequest{ContextId: editor, Path: path, Version: ctxfsv1.Version_VERSION_WORKSPACE})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for _, path := range []string{"/app/app.txt", "/app/.env", "/app/.gitignore", "/app/.git/config", "/none", "/"} {
		wantError(t, read(v.ctx, path), codes.PermissionDenied, "EACCES", "")
	}
	for _, path := range []string{"/app/run", "/app/later"} {
		if err := read(v.ctx, path); err != nil {
			t.Errorf("a reviewer reads the workspace's %s: %v", path, err)
		}
	}
	if err := read(t.Context(), "/app/app.txt"); err != nil {
		t.Errorf("a host reads a file that no change concerns: %v", err)
	}
	against := &ctxfsv1.Against{What: &ctxfsv1.Against_Workspace{Workspace: true}}
	for _, c := range []struct {
		ctx  context.Context
		want []string
	}{{v.ctx, []string{"/app/later", "/app/run"}}, {t.Context(), []string{"/app/.env", "/app/app.txt", "/app/later", "/app/run"}}} {
		changes, _ := h.changes(c.ctx, &ctxfsv1.ListChangesRequest{ContextId: editor, Against: against})
		if got := slices.Sorted(maps.Keys(changes)); !slices.Equal(got, c.want) {
			t.Errorf("against the workspace %v changed, want %v", got, c.want)
		}
		diff, err := h.reviews().GetDiff(c.ctx, &ctxfsv1.GetDiffRequest{ContextId: editor, Against: against, Paths: []string{"/app/app.txt"}})
		if err != nil {
			t.Fatal(err)
		}
		if first, err := diff.Recv(); err != nil || (first.GetChange() != nil) != slices.Contains(c.want, "/app/app.txt") {
			t.Errorf("the difference of a file that no change concerns is %v, %v", first, err)
		}
	}
}

// A panel with the right to review reads of another context what it reviews.
func TestReviewRightReadsChangesOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	editor := h.reviewed().GetContextId()
	v := h.reviewer("panels/reviewer")
	h.edit(editor)
	folder := filepath.Join(h.r.Info().ContextsDir, editor, "app")
	shell(t, h.in("app"), "echo out/ > .gitignore")
	shell(t, folder, "mkdir -p out .git; echo made > out/made; echo x > .git/x; echo approved > approved")
	decide := &ctxfsv1.DecideRequest{ContextId: editor, Decision: ctxfsv1.Decision_DECISION_APPROVED, Selection: &ctxfsv1.Selection{
		What: &ctxfsv1.Selection_Changes{Changes: &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{{Path: "/app/approved"}}}},
	}}
	if _, err := h.reviews().Decide(v.ctx, decide); err != nil {
		t.Fatal(err)
	}
	shell(t, folder, "rm approved")
	read := func(ctx context.Context, id, path string, version ctxfsv1.Version) error {
		stream, err := h.reviews().ReadVersion(ctx, &ctxfsv1.ReadVersionRequest{ContextId: id, Path: path, Version: version})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	const base, now, approved = ctxfsv1.Version_VERSION_BASE, ctxfsv1.Version_VERSION_CONTEXT, ctxfsv1.Version_VERSION_APPROVED
	for _, version := range []ctxfsv1.Version{base, now, approved} {
		for _, path := range []string{"/app/app.txt", "/app/.git/x", "/none", "/"} {
			wantError(t, read(v.ctx, editor, path, version), codes.PermissionDenied, "EACCES", "a panel that reviews reads nothing else")
		}
		stream, err := h.reviews().ReadVersion(v.ctx, &ctxfsv1.ReadVersionRequest{ContextId: editor, RawPath: []byte("/app/caf\xe9"), Version: version})
		if err == nil {
			_, err = stream.Recv()
		}
		wantError(t, err, codes.PermissionDenied, "EACCES", `/app/caf\xe9`)
		for name, err := range map[string]error{
			"a change": read(v.ctx, editor, "/app/run", version), "a file of the host's": read(t.Context(), editor, "/app/app.txt", version),
			"a file of its own": read(v.ctx, "", "/app/app.txt", version), "a file of its own, named": read(v.ctx, v.opened.GetContextId(), "/app/app.txt", version),
		} {
			if err != nil {
				t.Errorf("%v of %s: %v", version, name, err)
			}
		}
	}
	for path, version := range map[string]ctxfsv1.Version{"/app/out/made": now, "/app/approved": approved} {
		if err := read(v.ctx, editor, path, version); err != nil {
			t.Errorf("%v of %s: %v", version, path, err)
		}
	}
}

// The right to review gives no other access to a context, and none without a context's name.
func TestReviewRightGivesNothingElse(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	editor := h.reviewed().GetContextId()
	v := h.reviewer("panels/reviewer")
	h.edit(editor)
	fs, ctxs, ps := ctxfsv1.NewFsServiceClient(h.cc), ctxfsv1.NewContextServiceClient(h.cc), ctxfsv1.NewPanelServiceClient(h.cc)
	for name, call := range map[string]func() error{
		"ReadFile": func() error {
			_, err := fs.ReadFile(v.ctx, &ctxfsv1.ReadFileRequest{ContextId: editor, Path: "/app/run"})
			return err
		},
		"WriteFile": func() error {
			_, err := fs.WriteFile(v.ctx, &ctxfsv1.WriteFileRequest{ContextId: editor, Path: "/app/run"})
			return err
		},
		"GetInfo": func() error {
			_, err := ctxs.GetInfo(v.ctx, &ctxfsv1.GetInfoRequest{ContextId: editor})
			return err
		},
		"GetContext": func() error {
			_, err := ctxs.GetContext(v.ctx, &ctxfsv1.GetContextRequest{ContextId: editor})
			return err
		},
		"Fork": func() error {
			_, err := ctxs.Fork(v.ctx, &ctxfsv1.ForkRequest{ContextId: editor, NewContextId: "ctx_x"})
			return err
		},
		"DeleteContext": func() error {
			_, err := ctxs.DeleteContext(v.ctx, &ctxfsv1.DeleteContextRequest{ContextId: editor, DiscardChanges: true})
			return err
		},
		"OpenPanel": func() error {
			_, err := ps.OpenPanel(v.ctx, &ctxfsv1.OpenPanelRequest{PanelId: "panels/x", Rights: reviewRight})
			return err
		},
		"ListPanels": func() error {
			_, err := ps.ListPanels(v.ctx, &ctxfsv1.ListPanelsRequest{})
			return err
		},
		"SubmitReview": func() error {
			_, err := h.reviews().SubmitReview(v.ctx, &ctxfsv1.SubmitReviewRequest{ContextId: editor})
			return err
		},
		"Discard": func() error {
			_, err := h.reviews().Discard(v.ctx, &ctxfsv1.DiscardRequest{ContextId: editor, Selection: selectAll})
			return err
		},
		"ListJournal of all contexts": func() error {
			_, err := h.reviews().ListJournal(v.ctx, &ctxfsv1.ListJournalRequest{})
			return err
		},
	} {
		wantCode(t, name, call(), codes.PermissionDenied)
	}
	for _, rights := range [][]ctxfsv1.PanelRight{{ctxfsv1.PanelRight_PANEL_RIGHT_UNSPECIFIED}, {ctxfsv1.PanelRight_PANEL_RIGHT_REVIEW, 99}} {
		_, err := h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "panels/x", Rights: rights})
		wantError(t, err, codes.InvalidArgument, "EINVAL", "unknown right")
	}
	_, err := h.reviews().GetReview(v.ctx, &ctxfsv1.GetReviewRequest{ContextId: "ctx_none"})
	wantError(t, err, codes.NotFound, "ESTALE", "does not exist")
}

func TestPanelNeverReviewsItsOwnWork(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.reviewed()
	v := h.reviewer("panels/reviewer")
	own := v.opened.GetContextId()
	h.edit(own)
	ctxs := ctxfsv1.NewContextServiceClient(h.cc)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	h.fork(own, "ctx_fork", "")
	h.fork("ctx_fork", "ctx_second", "")
	h.fork(own, "ctx_between", "")
	h.fork("ctx_between", "ctx_orphan", "")
	must(ctxs.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_between", DiscardChanges: true}))
	h.fork(own, "ctx_replaced", "")
	h.fork("ctx_replaced", "ctx_child", "")
	must(ctxs.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_replaced", DiscardChanges: true}))
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/x", ContextId: "ctx_replaced"}) // another context of that ID
	must(ctxs.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: "ctx_second", Name: "s"}))
	must(ctxs.Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: "ctx_second", Name: "s", DiscardChanges: true}))
	applied, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: "ctx_second", Approve: true, Selection: selectAll})
	must(applied, err)
	h.edit("ctx_second")

	const work, unknown = "its own work", "not known any more"
	for context, words := range map[string]string{
		"ctx_fork": work, "ctx_second": work, "ctx_orphan": unknown, "ctx_child": unknown, "ctx_" + strings.ToUpper(own[4:]): work,
	} {
		v.refused(context, applied.GetJournalId(), words)
	}
	for name, err := range v.tries(v.ctx, own, applied.GetJournalId()) {
		if slices.Contains([]string{"ListChanges", "GetDiff", "GetReview", "WatchReview"}, name) {
			if err != nil {
				t.Errorf("a panel cannot see its own changes: %s: %v", name, err)
			}
			continue
		}
		wantCode(t, "own context: "+name, err, codes.PermissionDenied)
	}
	for name, err := range v.tries(with(t, panelKey, "panels/reviewer"), "ctx_replaced", applied.GetJournalId()) {
		if slices.Contains([]string{"ListJournal", "Decide", "Apply", "Undo", "ReadVersion"}, name) {
			wantCode(t, "a host for the panel: "+name, err, codes.PermissionDenied)
		}
	}
	// Another panel reviews it, and this one reviews the context that only has the ID of one of its copies.
	other := h.reviewer("panels/other")
	for name, err := range other.tries(other.ctx, "ctx_fork", applied.GetJournalId()) {
		if err != nil {
			t.Errorf("another reviewer: %s: %v", name, err)
		}
	}
	if _, err := h.reviews().GetReview(v.ctx, &ctxfsv1.GetReviewRequest{ContextId: "ctx_replaced"}); err != nil {
		t.Error(err)
	}
}

// The ID of a context that was deleted means another context, whose reviewer may be the one that worked in the first.
func TestUndoOfADeletedContextsEntry(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.reviewed()
	v := h.reviewer("panels/reviewer")
	h.edit(v.opened.GetContextId())
	h.fork(v.opened.GetContextId(), "ctx_copy", "")
	applied, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: "ctx_copy", Approve: true, Selection: selectAll})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ctxfsv1.NewContextServiceClient(h.cc).DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_copy", DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	undo := func() error {
		_, err := h.reviews().Undo(v.ctx, &ctxfsv1.UndoRequest{JournalId: applied.GetJournalId()})
		return err
	}
	wantError(t, undo(), codes.PermissionDenied, "EACCES", "not known any more")
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/x", ContextId: "ctx_copy"})
	wantError(t, undo(), codes.PermissionDenied, "EACCES", "not known any more")
}

// A read-only panel cannot change its context by Discard, and may have the right to review others.
func TestReadOnlyReviewer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	editor := h.reviewed().GetContextId()
	h.edit(editor)
	o := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/page", ReadOnly: true, Rights: reviewRight})
	ctx := with(t, "authorization", bearerOf(o.GetToken()))
	h.edit(o.GetContextId())
	_, err := h.reviews().Discard(ctx, &ctxfsv1.DiscardRequest{Selection: selectAll})
	wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
	_, err = h.reviews().SubmitReview(ctx, &ctxfsv1.SubmitReviewRequest{})
	wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
	if _, err := h.reviews().Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: editor, Approve: true, Selection: selectAll}); err != nil {
		t.Error(err)
	}
}

func TestLostReviewRight(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Listen, cfg.HTTP = []string{"127.0.0.1:0"}, "127.0.0.1:0"
	h := newHouse(t, cfg)
	editor := h.reviewed().GetContextId()
	h.edit(editor)
	plain := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/reviewer"})
	before := with(t, "authorization", bearerOf(plain.GetToken()))
	v := h.reviewer("panels/reviewer")
	decide := &ctxfsv1.DecideRequest{ContextId: editor, Selection: selectAll, Decision: ctxfsv1.Decision_DECISION_APPROVED}
	_, err := h.reviews().Decide(before, decide)
	wantError(t, err, codes.PermissionDenied, "EACCES", "PANEL_RIGHT_REVIEW") // an older token gains nothing

	sessions := map[string]*talk{
		"gRPC":      beginGRPC(t, h.r.Info().Addresses.TCP[0], v.opened.GetToken(), "a"),
		"WebSocket": beginWeb(t, h.r.Info().Addresses.HTTP, v.opened.GetToken(), "b"),
	}
	for _, s := range sessions {
		s.works(decide)
	}
	watch, err := h.reviews().WatchReview(v.ctx, &ctxfsv1.WatchReviewRequest{ContextId: editor})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	again := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/reviewer"})
	_, err = h.reviews().Decide(v.ctx, decide)
	wantCode(t, "the token that lost the right", err, codes.Unauthenticated)
	for name, s := range sessions {
		t.Log(name)
		s.ends(codes.Unauthenticated, "the panel lost a right")
	}
	for err = nil; err == nil; {
		_, err = watch.Recv()
	}
	wantCode(t, "the watch", err, codes.Unauthenticated)
	renewed, err := ctxfsv1.NewPanelServiceClient(h.cc).RenewToken(t.Context(), &ctxfsv1.RenewTokenRequest{PanelId: "panels/reviewer"})
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"opened again": again.GetToken(), "renewed": renewed.GetToken()} {
		_, err := h.reviews().Decide(with(t, "authorization", bearerOf(token)), decide)
		wantCode(t, name, err, codes.PermissionDenied)
	}
	back := h.reviewer("panels/reviewer")
	if _, err := h.reviews().Decide(back.ctx, decide); err != nil {
		t.Error(err)
	}
	h.serve()
	if _, err := h.reviews().Decide(back.ctx, decide); err != nil {
		t.Errorf("after another start: %v", err)
	}
}
