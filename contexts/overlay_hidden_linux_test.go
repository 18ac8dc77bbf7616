package contexts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestFolderShowsTheContextAfterARestart looks at the folder whose path a host has, before any call uses the context.
func TestFolderShowsTheContextAfterARestart(t *testing.T) {
	for name, show := range map[string]func(m *Manager) error{
		"ensured": func(m *Manager) error { ensure(t, m, "ctx_a"); return nil },
		"shown":   func(m *Manager) error { return m.Show(t.Context(), "ctx_a") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newOverlaid(t)
			m := w.open()
			ensure(t, m, "ctx_a")
			want := treeOf(t, filepath.Join(w.dir, "app"), ".git")
			must(t, m.Close())
			m = w.open()
			must(t, show(m))
			sameFiles(t, filepath.Join(w.folder("ctx_a"), "app"), want)
			must(t, m.Close())
		})
	}
}

// TestDeletionKeepsWhatAMountHides deletes a context over whose folder root wrote while no server had it mounted.
func TestDeletionKeepsWhatAMountHides(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	e := ensure(t, m, "ctx_a")
	must(t, m.Close())
	file := filepath.Join(e.Folder, "work")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Skipf("not tested: nobody but root can write below a mount: %v", err)
	}
	m = w.open()
	ensure(t, m, "ctx_a")
	may := func(context.Context) error { return nil }
	_, err := m.Delete(t.Context(), "ctx_a", may)
	if fserr.CodeOf(err) != fserr.ENOTEMPTY || !strings.Contains(err.Error(), "work") {
		t.Errorf("the deletion: %v", err)
	}
	must(t, m.Show(t.Context(), "ctx_a"))
	w.wantMounted("after the refusal", 1)
	must(t, m.Close())
	must(t, os.Remove(file))
	m = w.open()
	_, err = m.Delete(t.Context(), "ctx_a", may)
	must(t, err)
	must(t, m.Close())
}
