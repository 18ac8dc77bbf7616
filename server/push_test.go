package server

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/git/gittest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// push pushes, and returns the result and how many phases were reported.
func (h *house) push(ctx context.Context, req *ctxfsv1.PushRequest) (result *ctxfsv1.PushResult, phases int, err error) {
	h.t.Helper()
	stream, err := h.gitService().Push(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return result, phases, nil
		case err != nil:
			return nil, phases, err
		case m.GetResult() != nil:
			result = m.GetResult()
		default:
			phases++
		}
	}
}

// On each driver: a panel stages, and a host pushes to the branch that is checked out. The user's dirty and staged files stay, and the context has
// no changes any more.
func TestPushToTheWorkingTree(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		panel := h.reviewed()
		shell(t, h.in("app"), "echo staged > staged; git add staged; echo more >> staged; echo dirty > dirty")
		as := with(t, "authorization", bearerOf(panel.GetToken()))
		folder := filepath.Join(h.folder(panel.GetContextId()), "app")
		shell(t, folder, "sed -i s/9/agent/ src/main.go; mkdir -p new/deep; echo n > new/deep/file; chmod +x new/deep/file")
		s := h.mustStage(as, &ctxfsv1.StageRequest{Repo: "/app", Branch: h.gitOutput("app", "branch", "--show-current")})
		req := &ctxfsv1.PushRequest{Id: s.GetId(), ExpectedCommit: s.GetCommit(), Target: ctxfsv1.PushTarget_PUSH_TARGET_WORKTREE}
		_, _, err := h.push(as, req)
		wantError(t, err, codes.PermissionDenied, "EACCES", "no right to push")
		before := h.gitOutput("app", "status", "--porcelain")
		result, phases, err := h.push(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if result.GetCommit() != s.GetCommit() || result.GetPrevious() != s.GetParent() || result.GetUrl() != "/app" || result.GetPushedNs() == 0 || phases != 3 {
			t.Errorf("the result is %v, after %d phases", result, phases)
		}
		if got := h.gitOutput("app", "status", "--porcelain"); got != before {
			t.Errorf("the status is %q, was %q", got, before)
		}
		if got := h.gitOutput("app", "rev-parse", "HEAD"); got != s.GetCommit() {
			t.Errorf("HEAD is %s", got)
		}
		if changes, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: panel.GetContextId()}); len(changes) != 0 {
			t.Errorf("these changes are left: %v", changes)
		}
		h.serve()
		list, err := h.gitService().ListStaged(t.Context(), &ctxfsv1.ListStagedRequest{WithPushed: true})
		if err != nil || len(list.GetStaged()) != 1 || list.GetStaged()[0].GetPushed().GetCommit() != s.GetCommit() {
			t.Errorf("listed %v (%v)", list, err)
		}
	})
}

// A panel with the right pushes what it staged itself, and only to remotes that the operator names.
func TestWhoPushes(t *testing.T) {
	t.Parallel()
	remote := gittest.New(t)
	cfg := testConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit")
	h := newHouse(t, cfg)
	if err := os.Mkdir(remote.In("team"), 0o755); err != nil {
		t.Fatal(err)
	}
	remote.Git("", nil, "clone", "-q", "--bare", h.in("app"), "team/app.git")
	address := strings.Replace(remote.ServePrivate("user", "s3cret", nil).URL, "://", "://user:s3cret@", 1) + "/team/app.git"
	h.gitOutput("app", "remote", "add", "origin", address)
	h.serve()
	right := []ctxfsv1.PanelRight{ctxfsv1.PanelRight_PANEL_RIGHT_GIT_PUSH}
	panel := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/editor", Rights: right})
	editor := with(t, "authorization", bearerOf(panel.GetToken()))
	other := with(t, "authorization", bearerOf(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/other", Rights: right}).GetToken()))
	beside := with(t, "authorization", bearerOf(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/beside", ContextId: panel.GetContextId(), Rights: right}).GetToken()))
	shell(t, filepath.Join(h.folder(panel.GetContextId()), "app"), "echo n > new")
	s := h.mustStage(editor, &ctxfsv1.StageRequest{Repo: "/app"})
	req := &ctxfsv1.PushRequest{Id: s.GetId(), ExpectedCommit: s.GetCommit()}
	_, _, err := h.push(other, req)
	wantGit(t, "another context's panel", err, "GIT_NO_STAGED", codes.NotFound)
	_, _, err = h.push(beside, req)
	wantError(t, err, codes.PermissionDenied, "EACCES", "did not stage")
	_, _, err = h.push(editor, &ctxfsv1.PushRequest{Id: s.GetId(), ExpectedCommit: strings.Repeat("1", 40)})
	meta := wantGit(t, "another commit", err, "GIT_STALE_BASE", codes.Aborted)
	if meta["expected"] != strings.Repeat("1", 40) || meta["actual"] != s.GetCommit() || meta["repo"] != "/app" {
		t.Errorf("the metadata is %v", meta)
	}
	if _, _, err := h.push(editor, req); err != nil {
		t.Errorf("the panel cannot push its own commit to a branch: %v", err)
	}
	toRemote := &ctxfsv1.PushRequest{Id: s.GetId(), ExpectedCommit: s.GetCommit(), Target: ctxfsv1.PushTarget_PUSH_TARGET_REMOTE}
	_, _, err = h.push(editor, toRemote)
	wantError(t, err, codes.PermissionDenied, "EACCES", "is not allowed")
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error shows the password: %v", err)
	}
	result, _, err := h.push(t.Context(), toRemote)
	if err != nil || strings.Contains(result.GetUrl(), "s3cret") {
		t.Errorf("a host pushes to a remote: %v (%v)", result, err)
	}
	if got := remote.Git("team/app.git", nil, "rev-parse", s.GetBranch()); got != s.GetCommit() {
		t.Errorf("the remote has %s", got)
	}
	audit, err := os.ReadFile(cfg.AuditLog)
	if err != nil || !strings.Contains(string(audit), `"op":"Push"`) || !strings.Contains(string(audit), s.GetId()) || strings.Contains(string(audit), "s3cret") {
		t.Errorf("the audit log is %s (%v)", audit, err)
	}

	h.cfg.GitRemote = []string{strings.Replace(address, "user:s3cret@", "", 1)}
	h.serve()
	if _, _, err := h.push(editor, toRemote); err != nil {
		t.Errorf("the panel cannot push to a remote that the operator names: %v", err)
	}
}

// The credentials are those of the user who runs the server: a helper of that user's configuration, and not of the repository's.
func TestPushUsesTheOperatorsCredentials(t *testing.T) {
	remote, home := gittest.New(t), t.TempDir()
	h := newHouse(t, testConfig(t))
	if err := os.Mkdir(remote.In("team"), 0o755); err != nil {
		t.Fatal(err)
	}
	remote.Git("", nil, "clone", "-q", "--bare", h.in("app"), "team/app.git")
	base := remote.ServePrivate("user", "s3cret", nil).URL
	planted := filepath.Join(home, "planted")
	h.gitOutput("app", "remote", "add", "origin", base+"/team/app.git")
	h.gitOutput("app", "config", "credential.helper", "!touch "+planted+"; echo username=evil; echo password=evil; true")
	panel := h.reviewed()
	h.edit(panel.GetContextId())
	s := h.mustStage(t.Context(), &ctxfsv1.StageRequest{ContextId: panel.GetContextId(), Files: []string{"app/run"}})
	toRemote := &ctxfsv1.PushRequest{Id: s.GetId(), ExpectedCommit: s.GetCommit(), Target: ctxfsv1.PushTarget_PUSH_TARGET_REMOTE}
	t.Setenv("HOME", home)
	_, _, err := h.push(t.Context(), toRemote)
	wantGit(t, "without credentials", err, "GIT_AUTH", codes.FailedPrecondition)
	write(t, filepath.Join(home, ".gitconfig"), "[credential]\n\thelper = store --file="+filepath.Join(home, "credentials")+"\n")
	write(t, filepath.Join(home, "credentials"), strings.Replace(base, "://", "://user:s3cret@", 1)+"\n")
	if _, _, err := h.push(t.Context(), toRemote); err != nil {
		t.Errorf("with the user's helper: %v", err)
	}
	if _, err := os.Stat(planted); err == nil {
		t.Error("the repository's credential helper ran")
	}
}

// A running git command has the index: the push waits a moment, and leaves the lock.
func TestPushWaitsForTheIndex(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	h.edit(panel.GetContextId())
	s := h.mustStage(t.Context(), &ctxfsv1.StageRequest{ContextId: panel.GetContextId(), Files: []string{"app/run"}, Branch: h.gitOutput("app", "branch", "--show-current")})
	req := &ctxfsv1.PushRequest{Id: s.GetId(), ExpectedCommit: s.GetCommit(), Target: ctxfsv1.PushTarget_PUSH_TARGET_WORKTREE}
	lock := write(t, filepath.Join(h.in("app"), ".git", "index.lock"), "")
	_, _, err := h.push(t.Context(), req)
	wantGit(t, "a locked index", err, "GIT_LOCKED", codes.Unavailable)
	if err := os.Remove(lock); err != nil {
		t.Fatalf("the lock was removed: %v", err)
	}
	holder := exec.Command("sh", "-c", "touch .git/index.lock; echo locked; read _; rm .git/index.lock")
	holder.Dir = h.in("app")
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("locked\n"))); err != nil {
		t.Fatal(err)
	}
	stream, err := h.gitService().Push(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for looked := 0; looked < 2; { // it looks at the branch again after it found the lock
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetPhase() == ctxfsv1.PushPhase_PUSH_PHASE_CHECKING {
			looked++
		}
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	var result *ctxfsv1.PushResult
	for result == nil {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		result = m.GetResult()
	}
	if result.GetCommit() != s.GetCommit() {
		t.Errorf("the result is %v", result)
	}
}
