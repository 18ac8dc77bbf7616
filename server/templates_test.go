package server

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// chained is a house with three templates that extend one another.
func chained(t *testing.T, cfg Config) *house {
	t.Helper()
	h := newHouse(t, cfg)
	h.template("templates/base", "deps:", "  /app: {repo: app}")
	h.template("templates/mid", "extends: templates/base", "deps:", "  /lib/tools: {repo: tools, ref: main}")
	h.template("templates/top", "extends: ../mid", "deps:", "  /data: {repo: data}", "  /app: {repo: app, ref: main}")
	return h
}

var chainFiles = map[string]string{"/app/app.txt": "app", "/lib/tools/tools.txt": "tools", "/data/data.txt": "data"}

func TestTemplateChainMakesAContext(t *testing.T) {
	t.Parallel()
	h := chained(t, testConfig(t)).serve()
	explained, err := h.templates().ExplainTemplate(t.Context(), &ctxfsv1.ExplainTemplateRequest{Template: "templates/top"})
	if err != nil {
		t.Fatal(err)
	}
	tpl := explained.GetTemplate()
	if explained.GetBuilt() || len(tpl.GetChain()) != 3 || len(tpl.GetDeps()) != 3 || !strings.Contains(explained.GetMerged(), tpl.GetDeps()[0].GetCommit()) {
		t.Errorf("explained %v", explained)
	}
	from := tpl.GetDeps()[0].GetFrom() // /app, which two say
	if len(from) != 2 || from[0].GetTemplate() != "templates/base/context-template.yml" || from[0].GetLine() != 2 || from[1].GetLine() != 4 {
		t.Errorf("/app comes from %v", from)
	}
	o := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/a", Template: "templates/top"})
	if want := "safe_tpl_" + tpl.GetHash()[:12] + "_panels~a"; o.GetContextId() != want || !o.GetSeeded() || o.GetFiles() != 3 || o.GetPartition() != "persist:"+want {
		t.Errorf("opened %v, want context %s", o, want)
	}
	h.wants(o, chainFiles)
	info, err := ctxfsv1.NewContextServiceClient(h.cc).GetContext(t.Context(), &ctxfsv1.GetContextRequest{ContextId: o.GetContextId()})
	if err != nil || info.GetContext().GetLayer() != tpl.GetHash() {
		t.Errorf("the context is %v, %v; its layer should be %s", info, err, tpl.GetHash())
	}
	if list := h.built(); len(list) != 1 || list[0].GetContexts() != 1 || list[0].GetFiles() != 3 || list[0].GetTemplate().GetHash() != tpl.GetHash() {
		t.Errorf("built are %v", list)
	}
	// A reload that says nothing of the template, and a second panel.
	if again := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/a"}); again.GetContextId() != o.GetContextId() || again.GetSeeded() {
		t.Errorf("a reload gets %v", again)
	}
	h.wants(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "b", Template: "templates/top/context-template.yml"}), chainFiles)
	if list := h.built(); len(list) != 1 || list[0].GetContexts() != 2 {
		t.Errorf("built are %v", list)
	}
	if left := h.leftovers(); len(left) != 0 {
		t.Errorf("staging holds %v", left)
	}
}

// TestTemplateErrorsNameTheLines opens panels whose templates are wrong.
func TestTemplateErrorsNameTheLines(t *testing.T) {
	t.Parallel()
	h := chained(t, testConfig(t)).serve()
	h.write("tools/other.txt", "x")
	h.commit("tools")
	h.template("same", "extends: templates/base", "deps:", "  /app: {repo: tools}")
	h.template("within", "extends: templates/base", "deps:", "", "  /app/inner: {repo: tools}")
	h.template("c1", "extends: c2")
	h.template("c2", "deps: {}", "extends: c1")
	h.template("ref", "deps:", "  /app:", "    repo: app", "    ref: nope")
	h.template("key", "deps:", "  /app: {repo: app, branch: main}")
	for _, c := range []struct {
		template string
		code     codes.Code
		errno    string
		words    []string
	}{
		{"same", codes.InvalidArgument, "EINVAL", []string{"templates/base/context-template.yml:2:3", "same/context-template.yml:3:3", "conflict"}},
		{"within", codes.InvalidArgument, "EINVAL", []string{"templates/base/context-template.yml:2:3", "within/context-template.yml:4:3", "contains"}},
		{"c1", codes.InvalidArgument, "EINVAL", []string{"c2/context-template.yml:2:10", "cycle", "c1/context-template.yml -> c2/context-template.yml -> c1/context-template.yml"}},
		{"ref", codes.NotFound, "ENOENT", []string{"ref/context-template.yml:2:3", `"nope"`}},
		{"key", codes.InvalidArgument, "EINVAL", []string{"key/context-template.yml:2:21", "branch"}},
		{"../x", codes.PermissionDenied, "EACCES", []string{"out of the workspace"}},
		{"templates", codes.NotFound, "ENOENT", []string{"templates"}},
	} {
		t.Run(c.template, func(t *testing.T) {
			_, err := h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "p", Template: c.template})
			_, explainErr := h.templates().ExplainTemplate(t.Context(), &ctxfsv1.ExplainTemplateRequest{Template: c.template})
			_, buildErr := h.build(t.Context(), c.template)
			for _, words := range c.words {
				wantError(t, err, c.code, c.errno, words)
				wantError(t, explainErr, c.code, c.errno, words)
				wantError(t, buildErr, c.code, c.errno, words)
			}
			if err != nil && strings.Contains(err.Error(), h.cfg.Workspace) {
				t.Errorf("a server path travels: %v", err)
			}
		})
	}
	if panels, err := ctxfsv1.NewPanelServiceClient(h.cc).ListPanels(t.Context(), &ctxfsv1.ListPanelsRequest{}); err != nil || len(panels.GetPanels()) != 0 {
		t.Errorf("panels were bound: %v, %v", panels, err)
	}
}

// build builds a template and returns the last message, having checked that progress came before.
func (h *house) build(ctx context.Context, template string) (*ctxfsv1.TemplateReady, error) {
	s, err := h.templates().BuildTemplate(ctx, &ctxfsv1.BuildTemplateRequest{Template: template})
	if err != nil {
		return nil, err
	}
	for progress := 0; ; progress++ {
		m, err := s.Recv()
		if err != nil {
			return nil, err
		}
		if r := m.GetReady(); r != nil {
			if _, err := s.Recv(); !errors.Is(err, io.EOF) || (r.GetBuilt() && progress < 2) {
				h.t.Errorf("%d messages of progress, then ready, then %v", progress, err)
			}
			return r, nil
		}
	}
}

func TestBuildTemplate(t *testing.T) {
	t.Parallel()
	h := chained(t, testConfig(t)).serve()
	first, err := h.build(t.Context(), "templates/top")
	if err != nil || !first.GetBuilt() || first.GetTemplate().GetFiles() != 3 {
		t.Fatalf("built %v, %v", first, err)
	}
	second, err := h.build(t.Context(), "templates/top")
	if err != nil || second.GetBuilt() || second.GetTemplate().GetTemplate().GetHash() != first.GetTemplate().GetTemplate().GetHash() {
		t.Errorf("built again: %v, %v", second, err)
	}
	// What was built is known to EnsureContext and OpenPanel by its hash, and nothing else is.
	id := "safe_tpl_" + first.GetTemplate().GetTemplate().GetHash()[:12] + "_shared"
	h.wants(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "p", ContextId: id}), chainFiles)
	_, err = h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "q", ContextId: "safe_tpl_0123456789ab_x"})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "ctxfs template build")
	s, err := ctxfsv1.NewContextServiceClient(h.cc).EnsureContext(t.Context(), &ctxfsv1.EnsureContextRequest{ContextId: "safe_tpl_0123456789ab_x"})
	for err == nil {
		_, err = s.Recv()
	}
	wantError(t, err, codes.InvalidArgument, "EINVAL", "ctxfs template build")
	_, err = h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "q", ContextId: id, Template: "templates/base"})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "is not of template")
	_, err = h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "q", ContextId: "ctx_q", Template: "templates/base"})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "is not made from a template")
	h.wants(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "q", ContextId: id, Template: "templates/top"}), chainFiles)
}

func TestMovedBranchGivesANewContext(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.template("panels/p", "deps:", "  /app: {repo: app, ref: main}")
	h.serve()
	old := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/p"})
	oldCtx := with(t, "authorization", bearerOf(old.GetToken()))
	fsc := ctxfsv1.NewFsServiceClient(h.cc)
	if _, err := fsc.WriteFile(oldCtx, &ctxfsv1.WriteFileRequest{Path: "/mine", Content: &ctxfsv1.WriteFileRequest_Text{Text: "work"}}); err != nil {
		t.Fatal(err)
	}
	reload := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/p"})
	if reload.GetContextId() != old.GetContextId() || reload.GetSeeded() {
		t.Errorf("a reload gets %v", reload)
	}
	h.write("app/app.txt", "moved")
	h.commit("app")
	moved := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/p"})
	if moved.GetContextId() == old.GetContextId() || !strings.HasSuffix(moved.GetContextId(), "_panels~p") || !moved.GetSeeded() {
		t.Fatalf("opened %v", moved)
	}
	h.wants(moved, map[string]string{"/app/app.txt": "moved"})
	// Panels in the old context must open again; the context itself stays.
	_, err := h.tryRead(oldCtx, "/mine")
	wantError(t, err, codes.Unauthenticated, "EACCES", "OpenPanel")
	if data, err := os.ReadFile(h.in(".contexts/" + old.GetContextId() + "/mine")); err != nil || string(data) != "work" {
		t.Errorf("the old context has %q, %v", data, err)
	}
	if list := h.built(); len(list) != 2 || list[0].GetContexts() != 1 || list[1].GetContexts() != 1 {
		t.Errorf("built are %v", list)
	}
	panels, err := ctxfsv1.NewPanelServiceClient(h.cc).ListPanels(t.Context(), &ctxfsv1.ListPanelsRequest{})
	if err != nil || len(panels.GetPanels()) != 1 || panels.GetPanels()[0].GetContextId() != moved.GetContextId() || panels.GetPanels()[0].GetTokens() != 1 {
		t.Errorf("panels %v, %v", panels, err)
	}
	// Back to the old commit is back to the old work.
	h.git("app", "reset", "-q", "--hard", "HEAD~1")
	back := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/p"})
	if back.GetContextId() != old.GetContextId() || back.GetSeeded() {
		t.Errorf("opened %v, want the old context", back)
	}
	h.wants(back, map[string]string{"/app/app.txt": "app", "/mine": "work"})
}

// ensured ensures the context of a panel, and returns its ID.
func (h *house) ensured(panel string) string {
	h.t.Helper()
	s, err := ctxfsv1.NewContextServiceClient(h.cc).EnsureContext(h.t.Context(), &ctxfsv1.EnsureContextRequest{PanelId: panel})
	for err == nil {
		var m *ctxfsv1.EnsureContextResponse
		if m, err = s.Recv(); m.GetReady() != nil {
			return m.GetReady().GetContext().GetContextId()
		}
	}
	h.t.Fatalf("%s was not ensured: %v", panel, err)
	return ""
}

// TestPanelsOwnTemplate opens a panel by each way that a first access can come.
func TestPanelsOwnTemplate(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	for _, p := range []string{"opened", "asked", "ensured"} {
		h.template("panels/"+p, "deps:", "  /t: {repo: tools}")
	}
	h.serve()
	h.wants(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/opened"}), map[string]string{"/t/tools.txt": "tools"})
	if got, err := h.tryRead(with(t, panelKey, "panels/asked"), "/t/tools.txt"); err != nil || got != "tools" {
		t.Errorf("as panels/asked: %q, %v", got, err)
	}
	if id := h.ensured("panels/ensured"); !strings.HasPrefix(id, "safe_tpl_") || !strings.HasSuffix(id, "_panels~ensured") {
		t.Errorf("ensured %s", id)
	}
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/bound", ContextId: "ctx_named"})
	if id := h.ensured("panels/bound"); id != "ctx_named" {
		t.Errorf("ensured %s, want the context that the panel is bound to", id)
	}
	e, err := h.templates().ExplainTemplate(t.Context(), &ctxfsv1.ExplainTemplateRequest{PanelId: "panels/opened"})
	if err != nil || !e.GetBuilt() || e.GetTemplate().GetChain()[0] != "panels/opened/context-template.yml" {
		t.Errorf("explained %v, %v", e, err)
	}
	_, err = h.templates().ExplainTemplate(t.Context(), &ctxfsv1.ExplainTemplateRequest{PanelId: "panels/none"})
	wantError(t, err, codes.NotFound, "ENOENT", "context-template.yml")
	if o := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/none"}); o.GetContextId() != "ctx_panels~none" {
		t.Errorf("opened %v", o)
	}
	if list := h.built(); len(list) != 1 || list[0].GetContexts() != 3 {
		t.Errorf("built are %v", list)
	}
}

func TestConcurrentPanelsBuildOnce(t *testing.T) {
	t.Parallel()
	h := chained(t, testConfig(t))
	h.serve()
	const n = 8
	var wg sync.WaitGroup
	ids := make([]string, n)
	for i := range n {
		wg.Go(func() {
			o, err := h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "p" + string(rune('a'+i/2)), Template: "templates/top"})
			if err != nil {
				t.Error(err)
			}
			ids[i] = o.GetContextId()
		})
	}
	wg.Wait()
	if list := h.built(); len(list) != 1 || list[0].GetContexts() != n/2 {
		t.Errorf("built are %v", list)
	}
	for i := range ids {
		if ids[i] == "" || ids[i] != ids[i/2*2] {
			t.Errorf("the panels got %v", ids)
		}
	}
}

// TestRestartKeepsTemplateContexts starts the server again twice, once without its database.
func TestRestartKeepsTemplateContexts(t *testing.T) {
	t.Parallel()
	h := chained(t, testConfig(t)).serve()
	o := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a", Template: "templates/top"})
	unused, err := h.build(t.Context(), "templates/mid")
	if err != nil {
		t.Fatal(err)
	}
	h.serve()
	h.wants(o, chainFiles)
	if list := h.built(); len(list) != 2 {
		t.Errorf("a start removed templates: %v", list)
	}
	h.stop()
	for _, name := range []string{"ctxfs.db", "ctxfs.db-wal", "ctxfs.db-shm"} {
		if err := os.Remove(h.in(".contexts/.ctxfs/" + name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	h.r = nil
	h.serve()
	again := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a", Template: "templates/top"})
	if again.GetContextId() != o.GetContextId() || again.GetSeeded() {
		t.Errorf("opened %v", again)
	}
	h.wants(again, chainFiles)
	for _, b := range h.built() {
		want := int32(1)
		if b.GetTemplate().GetHash() == unused.GetTemplate().GetTemplate().GetHash() {
			want = 0
		}
		if b.GetContexts() != want {
			t.Errorf("%v, want %d contexts", b, want)
		}
	}
}

func TestUnsafeContextsAreForUnsafePanels(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.template("u", "deps:", "  /t: {repo: tools}")
	h.serve()
	for _, req := range []*ctxfsv1.OpenPanelRequest{
		{PanelId: "safe", ContextId: "unsafe_noctx_x"},
		{PanelId: "safe", ContextId: "unsafe_noctx_safe"},
		{PanelId: "u", Unsafe: true, Template: "u"},
		{PanelId: "u", Unsafe: true, ContextId: "unsafe_tpl_0123456789ab_u"},
	} {
		_, err := h.tryOpen(req)
		wantError(t, err, codes.InvalidArgument, "EINVAL", "")
	}
	if _, err := os.Stat(h.in(".contexts/unsafe_noctx_x")); !os.IsNotExist(err) {
		t.Errorf("the refused context is there: %v", err)
	}
	o := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "u", Unsafe: true})
	if o.GetContextId() != "unsafe_noctx_u" || o.GetFiles() != 0 {
		t.Errorf("opened %v", o)
	}
	h.wants(o, nil)
	_, err := h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "u"})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "set unsafe")
	if again := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "u", Unsafe: true}); again.GetContextId() != o.GetContextId() {
		t.Errorf("a reload gets %v", again)
	}
}

// TestTemplateContextOnOverlay is skipped, and says why, where overlay cannot work.
func TestTemplateContextOnOverlay(t *testing.T) {
	t.Parallel()
	h := chained(t, overlaid(t)).serve()
	o := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a", Template: "templates/top"})
	h.wants(o, chainFiles)
	ctx := with(t, "authorization", bearerOf(o.GetToken()))
	_, err := ctxfsv1.NewFsServiceClient(h.cc).WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/app/app.txt", Content: &ctxfsv1.WriteFileRequest_Text{Text: "mine"}})
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]string{"/app/app.txt": "mine", "/lib/tools/tools.txt": "tools", "/data/data.txt": "data"}
	h.wants(o, changed)
	layer := h.in(".contexts/.ctxfs/layers/" + h.built()[0].GetTemplate().GetHash() + "/tree/app/app.txt")
	if data, err := os.ReadFile(layer); err != nil || string(data) != "app" {
		t.Errorf("the layer has %q, %v", data, err)
	}
	h.serve()
	h.wants(o, changed)
	h.stop()
	if left := mounts(t, h.cfg); len(left) != 0 {
		t.Errorf("%v stay mounted", left)
	}
	// The layer is never taken for the workspace's.
	h.r = nil
	h.serve()
	h.wants(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "w"}), h.workspaceFiles())
}

// workspaceFiles is what a seeding of the repositories gives.
func (h *house) workspaceFiles() map[string]string {
	out := map[string]string{}
	for _, repo := range []string{"app", "tools", "data"} {
		out["/"+repo+"/"+repo+".txt"] = repo
	}
	return out
}
