package contexts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/killtest"
)

// holdTrees keeps layers' trees from getting their names until let is called.
func holdTrees(t *testing.T) (change func(*Config), let func()) {
	held, done := make(chan struct{}), false
	let = func() {
		if !done {
			close(held)
		}
		done = true
	}
	t.Cleanup(let)
	return func(c *Config) {
		c.Events.Step = func(phase string) {
			if phase == "unpacked" {
				<-held
			}
		}
	}, let
}

// coldWorkspace has one repository, and returns what is in it.
func coldWorkspace(t *testing.T) (*workspace, map[string]string) {
	w := newWorkspace(t)
	w.fill("app", 200)
	must(t, os.Symlink("d1/f1.txt", filepath.Join(w.dir, "app/link")))
	must(t, os.Link(filepath.Join(w.dir, "app/d1/f1.txt"), filepath.Join(w.dir, "app/hard")))
	w.repo("app")
	return w, treeOf(t, filepath.Join(w.dir, "app"), ".git")
}

// The first context and those after it are ready before their layer has a tree. Only a review waits for the tree.
func TestContextsDoNotWaitForTheLayersTree(t *testing.T) {
	t.Parallel()
	w, want := coldWorkspace(t)
	change, let := holdTrees(t)
	m := w.open(change)
	for _, id := range []ID{"ctx_a", "ctx_b"} {
		ensure(t, m, id)
		sameTree(t, treeOf(t, filepath.Join(m.cat.Layout.Folder(id), "app")), want)
	}
	info, err := m.Get(t.Context(), "ctx_b")
	must(t, err)
	if !m.seeder.Layers.Packed(info.Layer) {
		t.Fatal("the layer has a tree already")
	}
	// The panel writes at once: the base must not show it.
	w.writeTo(m, "ctx_a", "app/d1/f1.txt", "changed")
	w.writeTo(m, "ctx_b", "app/d2/f2.txt", "changed")
	w.write("app/d3/f3.txt", "changed in the workspace")

	// clock: the caller gives up, whenever that is
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if o, err := m.Origin(ctx, "ctx_a"); err == nil {
		t.Errorf("a review got the base %s, which is not written yet", o.Tree)
	}
	let()
	o, err := m.Origin(t.Context(), "ctx_a")
	must(t, err)
	sameTree(t, treeOf(t, filepath.Join(o.Tree, "app")), want)
	must(t, m.Close())
	wantSwept(t, m)
}

func (w *workspace) writeTo(m *Manager, id ID, name, content string) {
	w.t.Helper()
	must(w.t, os.WriteFile(filepath.Join(m.cat.Layout.Folder(id), name), []byte(content), 0o644))
}

// TestKillDuringAColdSeeding kills a process at each step of a first access that makes the context and its layer at once.
func TestKillDuringAColdSeeding(t *testing.T) {
	for _, phase := range slices.Concat(killPhases, treePhases) {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			w, want := coldWorkspace(t)
			w.sqlite()
			killtest.At(t, w.childOf("ctx_a", phase, plainCopies), phase)
			w.afterKill("ctx_a", want)
			m := w.open()
			o, err := m.Origin(t.Context(), "ctx_a")
			must(t, err)
			sameTree(t, treeOf(t, filepath.Join(o.Tree, "app")), want)
			entries, err := os.ReadDir(filepath.Dir(o.Tree))
			if must(t, err); len(entries) != 2 {
				t.Errorf("the layer has %v, want the tree and the manifest", entries)
			}
		})
	}
}
