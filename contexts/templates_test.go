package contexts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// newTemplated is a workspace with the repositories app and lib, and a template t of both.
func newTemplated(t *testing.T) *workspace {
	t.Helper()
	return newWorkspace(t).templated()
}

func (w *workspace) templated() *workspace {
	w.t.Helper()
	w.fill("lib", 150)
	w.repo("lib")
	w.write("main/f", "1")
	w.repo("main")
	w.write("t/"+template.FileName, "deps:\n  /x/lib: {repo: lib}\n  /main: {repo: main}\n")
	return w
}

// commit changes what the template means.
func (w *workspace) commit(content string) {
	w.t.Helper()
	w.write("main/f", content)
	w.git("main", "add", "-A")
	w.git("main", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "next")
}

// templateID resolves the template and returns the ID of one of its contexts, and the hash.
func templateID(t testing.TB, m *Manager, instance string) (ID, string) {
	t.Helper()
	r, err := m.Templates().Resolve(t.Context(), "t")
	must(t, err)
	id, err := TemplateIDForPanel(r.Hash, instance)
	must(t, err)
	return id, r.Hash
}

// wantTemplate checks a context's folder and what is known of it.
func (w *workspace) wantTemplate(m *Manager, id ID, hash, content string) {
	w.t.Helper()
	info, err := m.Get(w.t.Context(), id)
	must(w.t, err)
	if info.State != StateReady || info.Layer != hash || info.Files != 151 {
		w.t.Errorf("%s is %+v, want ready with 151 files, made of %s", id, info, hash)
	}
	for name, want := range map[string]string{"main/f": content, "x/lib/d0/f0.txt": "content 0"} {
		if got, err := os.ReadFile(filepath.Join(m.cat.Layout.Folder(id), name)); err != nil || string(got) != want {
			w.t.Errorf("%s: %s holds %q, %v; want %q", id, name, got, err, want)
		}
	}
}

func TestTemplateContextAndWorkspaceContext(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	m := w.open()
	id, hash := templateID(t, m, "a")
	var phases []Phase
	e, err := m.Ensure(t.Context(), id, EnsureOptions{}, func(p Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
	})
	if err != nil || !e.Seeded || slices.Contains(phases, PhaseScanning) {
		t.Fatalf("ensured %+v, %v, by %v", e, err, phases)
	}
	w.wantTemplate(m, id, hash, "1")
	w.commit("2")
	_, err = m.Templates().Build(t.Context(), "t", nil)
	must(t, err)
	must(t, m.Close())
	// The templates' layers are the newest, but not the workspace's. A start sweeps none, used or not.
	m = w.open()
	if built, err := m.Templates().List(t.Context()); err != nil || len(built) != 2 || built[0].Contexts+built[1].Contexts != 1 {
		t.Errorf("built are %+v, %v", built, err)
	}
	if current, err := m.seeder.Layers.Current(seed.Scope{}); current != nil || err != nil {
		t.Errorf("current is %+v, %v", current, err)
	}
	if a := ensure(t, m, "ctx_a"); a.Layer == hash || a.Files != 151 {
		t.Errorf("ensured %+v", a)
	}
	other, second := templateID(t, m, "b")
	if b := ensure(t, m, other); b.Layer != second || second == hash {
		t.Errorf("ensured %+v", b)
	}
	for _, digest := range []string{hash, second} {
		if l, err := m.cat.Store.Layers().Get(t.Context(), digest); err != nil || l.Kind != "template" {
			t.Errorf("recorded is %+v, %v", l, err)
		}
	}
}

func TestUnknownTemplate(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	m := w.open()
	_, err := m.Ensure(t.Context(), "safe_tpl_0123456789ab_x", EnsureOptions{}, nil)
	wantCode(t, err, fserr.EINVAL, "safe_tpl_0123456789ab_x", "ctxfs template build")
	id, hash := templateID(t, m, "a")
	must(t, m.Close())
	// What was resolved before a stop, and not built, is not known any more.
	m = w.open()
	_, err = m.Ensure(t.Context(), id, EnsureOptions{}, nil)
	wantCode(t, err, fserr.EINVAL, "ctxfs template build")
	if known, err := m.Templates().Known(hash); known || err != nil {
		t.Errorf("it is known: %v, %v", known, err)
	}
	_, _ = templateID(t, m, "a")
	if known, err := m.Templates().Known(hash); !known || err != nil {
		t.Errorf("it is not known: %v, %v", known, err)
	}
	ensure(t, m, id)
}

// TestLostRecordOfTemplateContext finds a context's layer without its record.
func TestLostRecordOfTemplateContext(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	m := w.open()
	id, hash := templateID(t, m, "a")
	ensure(t, m, id)
	must(t, m.Close())
	must(t, w.store.Contexts().Delete(t.Context(), string(id)))
	m = w.open()
	if unused, err := m.Templates().Unused(t.Context()); err != nil || len(unused) != 0 {
		t.Errorf("unused are %v, %v", unused, err)
	}
	r, err := m.Repair(t.Context())
	if err != nil || len(r.Recovered) != 1 {
		t.Fatalf("repaired %+v, %v", r, err)
	}
	w.wantTemplate(m, id, hash, "1")
}

func TestRemoveTemplate(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	m := w.open()
	id, hash := templateID(t, m, "a")
	ensure(t, m, id)
	remove := func(hash string, want bool) {
		t.Helper()
		got, err := m.Templates().Remove(t.Context(), hash, filepath.Join(m.cat.Layout.Staging, "trash-"+hash))
		if err != nil || got != want {
			t.Errorf("removed: %v, %v; want %v", got, err, want)
		}
	}
	remove(hash, false)
	w.commit("2")
	second, err := m.Templates().Build(t.Context(), "t", nil)
	if err != nil || !second.Made {
		t.Fatalf("built %+v, %v", second, err)
	}
	// While a context of it is being made, whose record does not name the layer yet.
	making := metadata.Context{ID: "safe_tpl_" + second.Hash[:12] + "_x", State: metadata.ContextSeeding, Driver: "copy"}
	must(t, w.store.Contexts().Create(t.Context(), making))
	remove(second.Hash, false)
	making.State = metadata.ContextFailed
	must(t, w.store.Contexts().Update(t.Context(), making))
	unused, err := m.Templates().Unused(t.Context())
	if err != nil || len(unused) != 1 || unused[0].Hash != second.Hash {
		t.Errorf("unused are %v, %v", unused, err)
	}
	remove(second.Hash, true)
	remove(second.Hash, false)
	if _, err := os.Stat(second.Dir); !os.IsNotExist(err) {
		t.Errorf("the layer is there: %v", err)
	}
	if _, err := w.store.Layers().Get(t.Context(), second.Hash); err == nil {
		t.Error("the layer's record is there")
	}
	if _, err := m.Delete(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	remove(hash, true)
	_, err = m.Templates().Remove(t.Context(), "x", "")
	wantCode(t, err, fserr.EINVAL)
}

func TestTemplateDiskReserve(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	m := w.open(func(c *Config) { c.DiskReserve = 1 << 60 })
	id, hash := templateID(t, m, "a")
	_, err := m.Ensure(t.Context(), id, EnsureOptions{}, nil)
	wantCode(t, err, fserr.ENOSPC, hash[:12], "--disk-reserve")
	_, err = m.Templates().Build(t.Context(), "t", nil)
	wantCode(t, err, fserr.ENOSPC, hash[:12])
	if built, err := m.Templates().List(t.Context()); err != nil || len(built) != 0 {
		t.Errorf("built are %v, %v", built, err)
	}
}

func TestTemplateSizeGuard(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	m := w.open(func(c *Config) { c.Seed.MaxFiles = 10 })
	id, _ := templateID(t, m, "a")
	_, err := m.Ensure(t.Context(), id, EnsureOptions{}, nil)
	wantCode(t, err, fserr.EFBIG, "t/context-template.yml:2:3")
}

func TestStoppedManagerAsksNoRepository(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	m := w.open()
	must(t, m.Close())
	_, err := m.Templates().Resolve(t.Context(), "t")
	wantCode(t, err, fserr.ECANCELED, "stopping")
}

// templatePhases are the steps of seeding from a template that a kill may hit; those within the build are template's to test.
var templatePhases = []string{"locked", "recorded", "building", "built", "copying", "copying-midway", "copied", "manifested", "renamed", "ready"}

func TestKillTemplateSeeding(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	w.sqlite()
	for _, phase := range templatePhases {
		w.killTemplate("at "+phase, phase)
	}
}

// killTemplate kills a process that makes a context of a new commit, and makes it then.
func (w *workspace) killTemplate(content, phase string) {
	t := w.t
	t.Helper()
	w.commit(content)
	m := w.open()
	id, hash := templateID(t, m, "p")
	must(t, m.Close())
	w.killAt(id, phase)
	m = w.open()
	if phase == "locked" { // whether it was built is not said
		_, err := m.Ensure(context.Background(), id, EnsureOptions{}, nil)
		wantCode(t, err, fserr.EINVAL, "unknown")
	}
	_, _ = templateID(t, m, "p")
	ensure(t, m, id)
	w.wantTemplate(m, id, hash, content)
	wantSwept(t, m)
	if unused, err := m.Templates().Unused(context.Background()); err != nil || len(unused) != 0 {
		t.Errorf("%s: unused are %v, %v", phase, unused, err)
	}
	must(t, m.Close())
	if names, err := filepath.Glob(filepath.Join(w.dir, ".contexts/.ctxfs/locks/"+template.LockPrefix+"*")); err != nil || len(names) > 1 {
		t.Errorf("locks that nobody needs: %v, %v", names, err)
	}
}

func TestUnreachableRepositoryIsLogged(t *testing.T) {
	t.Parallel()
	w := newTemplated(t)
	core, logs := observer.New(zap.WarnLevel)
	m := w.open(func(c *Config) {
		c.Templates.GitBase, c.Log = "http://user:secret@127.0.0.1:1/git", zap.New(core)
	})
	w.write("t/"+template.FileName, "deps: {/x: {repo: elsewhere}}\n")
	_, err := m.Templates().Resolve(t.Context(), "t")
	wantCode(t, err, fserr.EIO, "t/context-template.yml:1", "git base URL")
	if strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("an address travels: %v", err)
	}
	told := logs.FilterMessageSnippet("could not be reached").All()
	if len(told) != 1 {
		t.Fatalf("logged %v", logs.All())
	}
	if said := told[0].ContextMap()["git"].(string); !strings.Contains(said, "127.0.0.1") || strings.Contains(said, "secret") {
		t.Errorf("git said %q", said)
	}
}
