package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// dialTemplated connects to a server whose workspace has the template base, which puts the workspace at /ws.
func dialTemplated(t *testing.T) (c *client.Client, workspace string) {
	t.Helper()
	workspace = servertest.Workspace(t)
	writeTemplate(t, workspace, "base", "deps: {/ws: {repo: ., ref: main}}\n")
	address := servertest.Start(t, workspace, nil)
	c, err := client.Dial(t.Context(), client.WithAddress(address), client.WithGetenv(func(string) string { return "" }))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c, workspace
}

func writeTemplate(t *testing.T, workspace, folder, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(workspace, folder), 0o755))
	must(t, os.WriteFile(filepath.Join(workspace, folder, "context-template.yml"), []byte(text), 0o644))
}

func TestTemplatesAdmin(t *testing.T) {
	t.Parallel()
	c, workspace := dialTemplated(t)
	explained, err := c.ExplainTemplate(t.Context(), "base")
	must(t, err)
	hash := explained.GetTemplate().GetHash()
	if len(hash) != 64 || explained.GetBuilt() || !strings.Contains(explained.GetMerged(), `"/ws":`) {
		t.Errorf("explained %v", explained)
	}
	var last *ctxfsv1.TemplateProgress
	ready, err := c.BuildTemplate(t.Context(), "base", func(p *ctxfsv1.TemplateProgress) { last = p })
	must(t, err)
	if !ready.GetBuilt() || ready.GetTemplate().GetFiles() != 2 || last.GetDepsDone() != 1 || last.GetDepsTotal() != 1 || last.GetFiles() != 2 {
		t.Errorf("built %v, after %v", ready, last)
	}
	p, err := c.OpenPanel(t.Context(), "panels/x", client.FromTemplate("base"))
	must(t, err)
	if want := "safe_tpl_" + hash[:12] + "_panels~x"; p.ContextID() != want {
		t.Errorf("opened %s, want %s", p.ContextID(), want)
	}
	if data, err := p.FS().ReadFile("ws/README.md"); err != nil || string(data) != "# A workspace\n" {
		t.Errorf("read %q, %v", data, err)
	}
	list, err := c.ListTemplates(t.Context())
	if err != nil || len(list) != 1 || list[0].GetContexts() != 1 || list[0].GetTemplate().GetHash() != hash {
		t.Errorf("listed %v, %v", list, err)
	}
	writeTemplate(t, workspace, "wrong", "extends: base\ndeps: {/ws/sub: {repo: .}}\n")
	_, err = c.BuildTemplate(t.Context(), "wrong", nil)
	var e *fserr.Error
	if !errors.As(err, &e) || e.Code != fserr.EINVAL || !strings.Contains(e.Detail, "base/context-template.yml:1") || !strings.Contains(e.Detail, "wrong/context-template.yml:2") {
		t.Errorf("a conflict is %v", err)
	}
	_, err = c.ExplainTemplate(t.Context(), "")
	if !errors.Is(err, fserr.ENOENT) {
		t.Errorf("a workspace without template: %v", err)
	}
}

func TestUnsafePanel(t *testing.T) {
	t.Parallel()
	c, _ := dialTemplated(t)
	_, err := c.OpenPanel(t.Context(), "tool", client.InContext("unsafe_noctx_x"))
	if !errors.Is(err, fserr.EINVAL) {
		t.Errorf("a safe panel in an unsafe context: %v", err)
	}
	p, err := c.OpenPanel(t.Context(), "tool", client.Unsafe())
	must(t, err)
	if list, err := p.FS().ReadDir("."); err != nil || len(list) != 0 || p.ContextID() != "unsafe_noctx_tool" {
		t.Errorf("%s holds %v, %v", p.ContextID(), list, err)
	}
}
