package ledger

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

// templates is how many there are; each puts the workspace's own commit at another place.
const templates = 3

func templateFolder(n int) string { return fmt.Sprintf("templates/%d", n) }

// addTemplates makes the workspace a repository with one commit of all that is there, and writes the templates.
func (w *workspace) addTemplates(t testing.TB) {
	t.Helper()
	servertest.Git(t, w.dir, "init", "-q", "-b", "main")
	servertest.Git(t, w.dir, "add", "-A")
	servertest.Git(t, w.dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "all")
	var err error
	w.committed, err = w.content()
	must(t, err)
	for n := range templates {
		w.write(t, path.Join(templateFolder(n), template.FileName), fmt.Sprintf("deps:\n  /at/%d: {repo: .}\n", n))
	}
}

// resolveTemplates asks, once, by which hashes the templates are built.
func (w *workspace) resolveTemplates(ctx context.Context, c *client.Client) error {
	if w.templates != nil {
		return nil
	}
	all := map[string]tree{}
	for n := range templates {
		r, err := c.ExplainTemplate(ctx, templateFolder(n))
		if err != nil {
			return err
		}
		top := fmt.Sprintf("at/%d", n)
		want := tree{"at": dir(0o755), top: dir(0o755)}
		for p, n := range w.committed {
			want[path.Join(top, p)] = n
		}
		all[r.GetTemplate().GetHash()] = want
	}
	w.templates = all
	return nil
}

// wholeTemplate checks a template's layer. What has no mark that it is ready is none, whatever else is there: the next build
// or collection removes it.
func wholeTemplate(dir string, want tree) error {
	if !template.IsLayer(dir) {
		return nil
	}
	m, err := seed.ReadManifest(filepath.Join(dir, layer.ManifestName))
	if err != nil {
		return fmt.Errorf("a template is half made: %w", err)
	}
	if m.Template != filepath.Base(dir) {
		return fmt.Errorf("template %.12s has the manifest of another", filepath.Base(dir))
	}
	got, err := scan(filepath.Join(dir, "tree"))
	if err != nil {
		return err
	}
	if d := differ(want, got); d != "" {
		return fmt.Errorf("template %.12s: %s", filepath.Base(dir), d)
	}
	return nil
}
