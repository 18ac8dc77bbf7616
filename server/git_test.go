package server

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (h *house) gitService() ctxfsv1.GitServiceClient { return ctxfsv1.NewGitServiceClient(h.cc) }

// stage stages changes with a message and an author.
func (h *house) stage(ctx context.Context, req *ctxfsv1.StageRequest) (*ctxfsv1.StagedCommit, error) {
	h.t.Helper()
	if req.GetMessage() == "" {
		req.Message = "Change it"
	}
	if req.GetAuthor() == "" {
		req.Author = "Agent <agent@example.com>"
	}
	out, err := h.gitService().Stage(ctx, req)
	return out.GetStaged(), err
}

func (h *house) mustStage(ctx context.Context, req *ctxfsv1.StageRequest) *ctxfsv1.StagedCommit {
	h.t.Helper()
	s, err := h.stage(ctx, req)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// gitDiff returns a diff as a whole.
func (h *house) gitDiff(ctx context.Context, req *ctxfsv1.GitDiffRequest) (string, error) {
	h.t.Helper()
	stream, err := h.gitService().GitDiff(ctx, req)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		if len(m.GetData()) > 256<<10 {
			h.t.Errorf("a message has %d bytes", len(m.GetData()))
		}
		out.Write(m.GetData())
	}
}

// wantGit checks a refusal of GitService, and returns its metadata.
func wantGit(t *testing.T, what string, err error, reason string, code codes.Code) map[string]string {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == reason && status.Code(err) == code && info.GetMetadata()["kind"] == "git" {
			return info.GetMetadata()
		}
	}
	t.Errorf("%s: got %v, want %s with %v", what, err, reason, code)
	return nil
}

// A panel stages what it changed, whatever the driver, and the workspace does not notice. The staged commit survives a restart.
func TestStageHoldsWhatTheContextHolds(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		panel := h.reviewed()
		shell(t, h.in("app"), "sed -i s/9/user/ src/main.go; echo staged > staged; git add staged")
		as := with(t, "authorization", bearerOf(panel.GetToken()))
		folder := filepath.Join(h.folder(panel.GetContextId()), "app")
		shell(t, folder, edits)
		want := treeOf(t, folder)
		before := treeOf(t, h.cfg.Workspace+"/app")
		stream, err := h.gitService().GitStatus(as, &ctxfsv1.GitStatusRequest{Repo: "/app"})
		if err != nil {
			t.Fatal(err)
		}
		var sum *ctxfsv1.GitSummary
		count := int32(0)
		for sum == nil {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if sum = m.GetSummary(); sum == nil {
				count++
			}
		}
		if sum.GetRepo() != "/app" || sum.GetCreated()+sum.GetUpdated()+sum.GetDeleted() != count || sum.GetCreated() == 0 || sum.GetDeleted() == 0 {
			t.Errorf("the summary of %d files is %v", count, sum)
		}
		s := h.mustStage(as, &ctxfsv1.StageRequest{Repo: "/app"})
		if s.GetPanelId() != "panels/editor" || s.GetContextId() != panel.GetContextId() || s.GetRepo() != "/app" || s.GetBranch() != "ctxfs/editor/change-it" || s.GetFileCount() != int32(len(s.GetFiles())) || s.GetFileCount() != count {
			t.Errorf("staged %v", s)
		}
		shell(t, folder, "echo later > later")
		copied := t.TempDir()
		h.gitOutput("app", "worktree", "add", "-q", "--detach", filepath.Join(copied, "out"))
		patch, err := h.gitDiff(as, &ctxfsv1.GitDiffRequest{StagedId: s.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(copied, "patch"), patch)
		shell(t, filepath.Join(copied, "out"), "git apply --whitespace=nowarn ../patch")
		wantTree(t, "the diff of the staged commit", without(treeOf(t, filepath.Join(copied, "out")), ".git"), want)
		h.gitOutput("app", "worktree", "remove", "--force", filepath.Join(copied, "out"))
		wantTree(t, "the workspace", treeOf(t, h.cfg.Workspace+"/app"), before)

		h.serve()
		got, err := h.gitService().GetStaged(t.Context(), &ctxfsv1.GetStagedRequest{Id: s.GetId()})
		if err != nil || got.GetStaged().GetCommit() != s.GetCommit() || got.GetStaged().GetFiles()[0].GetDiff() != s.GetFiles()[0].GetDiff() {
			t.Errorf("after a restart the staged commit is %v (%v)", got, err)
		}
		list, err := h.gitService().ListStaged(t.Context(), &ctxfsv1.ListStagedRequest{})
		if err != nil || len(list.GetStaged()) != 1 || list.GetStaged()[0].GetFiles()[0].GetDiff() != "" {
			t.Errorf("listed %v (%v)", list, err)
		}
		if _, err := h.gitService().DiscardStaged(t.Context(), &ctxfsv1.DiscardStagedRequest{Id: s.GetId()}); err != nil {
			t.Error(err)
		}
	})
}

// A panel has the staged commits of its own context alone, of the context that there is now. Hosts have all of them.
func TestWhoSeesStagedCommits(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	id := panel.GetContextId()
	editor := with(t, "authorization", bearerOf(panel.GetToken()))
	h.edit(id)
	s := h.mustStage(editor, &ctxfsv1.StageRequest{Files: []string{"app/run"}})
	other := with(t, "authorization", bearerOf(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/other"}).GetToken()))
	calls := func(ctx context.Context) map[string]error {
		_, show := h.gitService().GetStaged(ctx, &ctxfsv1.GetStagedRequest{Id: s.GetId()})
		_, diff := h.gitDiff(ctx, &ctxfsv1.GitDiffRequest{StagedId: s.GetId()})
		_, discard := h.gitService().DiscardStaged(ctx, &ctxfsv1.DiscardStagedRequest{Id: s.GetId()})
		return map[string]error{"GetStaged": show, "GitDiff": diff, "DiscardStaged": discard}
	}
	listed := func(ctx context.Context, req *ctxfsv1.ListStagedRequest) int {
		t.Helper()
		list, err := h.gitService().ListStaged(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return len(list.GetStaged())
	}
	for name, err := range calls(other) {
		wantGit(t, name+" by another panel", err, "GIT_NO_STAGED", codes.NotFound)
	}
	if n := listed(other, &ctxfsv1.ListStagedRequest{}); n != 0 {
		t.Errorf("another panel sees %d", n)
	}
	_, err := h.gitService().ListStaged(other, &ctxfsv1.ListStagedRequest{ContextId: id})
	wantCode(t, "ListStaged of another context", err, codes.PermissionDenied)
	_, err = h.stage(other, &ctxfsv1.StageRequest{ContextId: id})
	wantCode(t, "Stage of another context", err, codes.PermissionDenied)
	if n, all := listed(editor, &ctxfsv1.ListStagedRequest{}), listed(t.Context(), &ctxfsv1.ListStagedRequest{}); n != 1 || all != 1 {
		t.Errorf("the panel sees %d, and a host %d", n, all)
	}

	reader := with(t, "authorization", bearerOf(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/reader", ContextId: id, ReadOnly: true}).GetToken()))
	_, err = h.stage(reader, &ctxfsv1.StageRequest{})
	wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
	_, err = h.gitService().DiscardStaged(reader, &ctxfsv1.DiscardStagedRequest{Id: s.GetId()})
	wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
	if n := listed(reader, &ctxfsv1.ListStagedRequest{}); n != 1 {
		t.Errorf("a read-only panel of the context sees %d", n)
	}

	if _, err := h.contexts().DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: id, DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	again := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"})
	if again.GetContextId() != id {
		t.Fatalf("the context is %s", again.GetContextId())
	}
	editor = with(t, "authorization", bearerOf(again.GetToken()))
	for name, err := range calls(editor) {
		wantGit(t, name+" by the panel of a later context", err, "GIT_NO_STAGED", codes.NotFound)
	}
	if n, all := listed(editor, &ctxfsv1.ListStagedRequest{}), listed(t.Context(), &ctxfsv1.ListStagedRequest{}); n != 0 || all != 1 {
		t.Errorf("of a deleted context a panel sees %d, and a host %d", n, all)
	}
	for name, err := range calls(t.Context()) {
		if err != nil {
			t.Errorf("%s by a host: %v", name, err)
		}
	}
}

func TestRefusalsOfGitTravel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	as := with(t, "authorization", bearerOf(panel.GetToken()))
	h.gitOutput("app", "checkout", "-q", "-b", "moved")
	h.write("app/src/main.go", "moved\n")
	h.commit("app")
	shell(t, filepath.Join(h.folder(panel.GetContextId()), "app"), "sed -i 's/line 3/panel/' src/main.go; mkdir -p x/.git; echo h > x/.git/HEAD")
	_, err := h.stage(as, &ctxfsv1.StageRequest{Files: []string{"/app/src/main.go"}, Branch: "moved"})
	m := wantGit(t, "a branch that has changed the lines", err, "GIT_CONFLICT", codes.Aborted)
	if m["operation"] != "stage" || m["repo"] != "/app" || fserrpb.FilesOf(err).GetFiles()[0].GetPath() != "/app/src/main.go" || m["ref"] != "refs/heads/moved" || m["hint"] == "" {
		t.Errorf("the metadata is %v", m)
	}
	_, err = h.stage(as, &ctxfsv1.StageRequest{Files: []string{"/app/run"}})
	wantGit(t, "nothing", err, "GIT_NOTHING_TO_COMMIT", codes.FailedPrecondition)
	_, err = h.stage(as, &ctxfsv1.StageRequest{Repo: "/cache"})
	wantGit(t, "an unknown repository", err, "GIT_NO_REPOSITORY", codes.NotFound)
	_, err = h.stage(as, &ctxfsv1.StageRequest{Files: []string{"/cache/x"}})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "belongs to no repository")
	_, err = h.stage(as, &ctxfsv1.StageRequest{Files: []string{"/app/x/.git/HEAD"}})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "BARRED_PATH") {
		t.Errorf("a file of .git: %v", err)
	}
	_, err = h.gitDiff(as, &ctxfsv1.GitDiffRequest{ContextLines: new(int32(1001))})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "between 0 and 1000")
	repos, err := h.gitService().ListRepositories(as, &ctxfsv1.ListRepositoriesRequest{})
	if err != nil || len(repos.GetRepositories()) != 3 || repos.GetRepositories()[0].GetPath() != "/app" || repos.GetRepositories()[0].GetBranch() != "main" || repos.GetRepositories()[0].GetHead() != "" {
		t.Errorf("a panel sees the repositories %v (%v)", repos, err)
	}
	repos, err = h.gitService().ListRepositories(t.Context(), &ctxfsv1.ListRepositoriesRequest{ContextId: panel.GetContextId()})
	if err != nil || repos.GetRepositories()[0].GetHead() != h.gitOutput("app", "rev-parse", "moved") {
		t.Errorf("a host sees the repositories %v (%v)", repos, err)
	}
	_, err = h.gitService().ListRepositories(t.Context(), &ctxfsv1.ListRepositoriesRequest{ContextId: "ctx_missing"})
	wantError(t, err, codes.NotFound, "ESTALE", "")
}
