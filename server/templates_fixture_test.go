package server

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// house is a workspace with real repositories and templates, and a server on it.
type house struct {
	t   *testing.T
	cfg Config
	r   *running
	cc  *grpc.ClientConn
	// runner is Deps.Runner.
	runner []string
	// now is Deps.Now.
	now func() time.Time
}

// newHouse has the repositories app, tools and data.
func newHouse(t *testing.T, cfg Config) *house {
	t.Helper()
	h := &house{t: t, cfg: cfg}
	for _, repo := range []string{"app", "tools", "data"} {
		h.write(repo+"/"+repo+".txt", repo)
		h.git(repo, "init", "-q", "-b", "main")
		h.commit(repo)
	}
	return h
}

func (h *house) in(p string) string { return filepath.Join(h.cfg.Workspace, filepath.FromSlash(p)) }

func (h *house) write(p, content string) {
	h.t.Helper()
	write(h.t, h.in(p), content)
}

// template writes a template into the folder p.
func (h *house) template(p string, lines ...string) {
	h.t.Helper()
	h.write(p+"/context-template.yml", strings.Join(lines, "\n")+"\n")
}

func (h *house) git(repo string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-C", h.in(repo)}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits everything in a repository and returns the commit.
func (h *house) commit(repo string) string {
	h.t.Helper()
	h.git(repo, "add", "-A")
	h.git(repo, "commit", "-q", "--allow-empty", "-m", "c")
	return h.git(repo, "rev-parse", "HEAD")
}

// serve starts the server, or starts it again.
func (h *house) serve() *house {
	h.t.Helper()
	if h.r != nil {
		h.stop()
	}
	deps := Deps{Log: zaptest.NewLogger(h.t, zaptest.Level(zap.ErrorLevel)), Runner: h.runner, Now: h.now}
	h.r = startDeps(h.t, h.cfg, deps, func(*Server) {})
	h.cc = h.r.host(h.t)
	return h
}

// stop ends the server.
func (h *house) stop() {
	h.t.Helper()
	h.r.stop()
	if err := h.r.wait(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) tryOpen(req *ctxfsv1.OpenPanelRequest) (*ctxfsv1.OpenPanelResponse, error) {
	return ctxfsv1.NewPanelServiceClient(h.cc).OpenPanel(h.t.Context(), req)
}

func (h *house) open(req *ctxfsv1.OpenPanelRequest) *ctxfsv1.OpenPanelResponse {
	h.t.Helper()
	o, err := h.tryOpen(req)
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

func (h *house) templates() ctxfsv1.TemplateServiceClient {
	return ctxfsv1.NewTemplateServiceClient(h.cc)
}

// built lists the hashes of the templates that are built.
func (h *house) built() []*ctxfsv1.BuiltTemplate {
	h.t.Helper()
	l, err := h.templates().ListTemplates(h.t.Context(), &ctxfsv1.ListTemplatesRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	return l.GetTemplates()
}

// tryRead reads a file with the identity of ctx.
func (h *house) tryRead(ctx context.Context, path string) (string, error) {
	r, err := ctxfsv1.NewFsServiceClient(h.cc).ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: path, Encoding: "utf8"})
	return r.GetText(), err
}

// wants checks that a panel's context has exactly these files.
func (h *house) wants(panel *ctxfsv1.OpenPanelResponse, want map[string]string) {
	h.t.Helper()
	ctx := with(h.t, "authorization", bearerOf(panel.GetToken()))
	list, err := ctxfsv1.NewFsServiceClient(h.cc).Readdir(ctx, &ctxfsv1.ReaddirRequest{Path: "/", Recursive: true, WithFileTypes: true})
	if err != nil {
		h.t.Fatal(err)
	}
	files := 0
	for _, e := range list.GetEntries() {
		if e.GetType() == ctxfsv1.FileType_FILE_TYPE_FILE {
			files++
		}
	}
	if files != len(want) {
		h.t.Errorf("%s holds %v, want the %d files %v", panel.GetContextId(), list.GetEntries(), len(want), want)
	}
	for path, content := range want {
		if got, err := h.tryRead(ctx, path); err != nil || got != content {
			h.t.Errorf("%s: %s is %q, %v; want %q", panel.GetContextId(), path, got, err, content)
		}
	}
}

// leftovers lists what lies in staging.
func (h *house) leftovers() []string {
	h.t.Helper()
	var out []string
	err := filepath.WalkDir(h.in(".contexts/.ctxfs/staging"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() != "CACHEDIR.TAG" && filepath.Base(filepath.Dir(p)) == "staging" {
			out = append(out, e.Name())
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return out
}

// careless runs git in tools as it comes; whether it succeeds does not matter.
func (h *house) careless(args ...string) {
	cmd := exec.CommandContext(h.t.Context(), "git", append([]string{"-C", h.in("tools")}, args...)...)
	_ = cmd.Run() // as said
}
