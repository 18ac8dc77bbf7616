package contexts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/long"
)

func threeRepos(t *testing.T, modules int) *workspace {
	w := newWorkspace(t)
	w.write("app/main.go", "package main")
	w.write("app/run.sh", "#!/bin/sh")
	w.write("lib/core/core.go", "package core")
	w.write("lib/loose.txt", "in no repository")
	w.write("tools/search/s.go", "package s")
	for _, r := range []string{"app", "lib/core", "tools/search"} {
		w.repo(r)
	}
	w.fill("app/node_modules", modules)
	w.write("app/.cache/c", "c")
	w.write("app/sub/.databases/d", "d")
	w.write("app/dirty.txt", "not committed")
	must(t, os.Chmod(filepath.Join(w.dir, "app/run.sh"), 0o750))
	must(t, os.Symlink("../main.go", filepath.Join(w.dir, "app/sub/link")))
	must(t, os.Symlink("/nowhere", filepath.Join(w.dir, "app/dangling")))
	must(t, os.Chtimes(filepath.Join(w.dir, "app/main.go"), time.Unix(1, 2), time.Unix(1234567890, 123456789)))
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSeedingCopiesTheRepositories(t *testing.T) {
	t.Parallel()
	w := threeRepos(t, 2000)
	m := w.open()
	e := ensure(t, m, "ctx_a")
	if !e.Seeded || e.State != StateReady || e.Files != 7 {
		t.Errorf("got %+v, want 7 files seeded", e)
	}
	want := treeOf(t, w.dir, ".git", "node_modules", ".cache", ".databases", ".contexts", "loose.txt")
	sameTree(t, treeOf(t, e.Folder), want)

	again := ensure(t, m, "ctx_a")
	if again.Seeded {
		t.Error("the second access seeded again")
	}
}

func TestSeedingManyModules(t *testing.T) {
	t.Parallel()
	w := threeRepos(t, long.Of(4_000, 20_000))
	m := w.open()
	e := ensure(t, m, "ctx_a")
	want := treeOf(t, w.dir, ".git", "node_modules", ".cache", ".databases", ".contexts", "loose.txt")
	sameTree(t, treeOf(t, e.Folder), want)
}

func TestWorkspaceItselfARepository(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("README", "hi")
	w.write("nested/x.go", "package x")
	w.repo("nested")
	w.repo("")
	m := w.open()
	e := ensure(t, m, "ctx_a")
	sameTree(t, treeOf(t, e.Folder), treeOf(t, w.dir, ".git", ".contexts"))
	plan, err := m.PlanSeed(context.Background(), PlanOptions{})
	must(t, err)
	if len(plan.Repositories) != 2 || plan.Repositories[0].Path != "." || plan.Repositories[1].Path != "nested" {
		t.Errorf("got repositories %+v, want . and nested", plan.Repositories)
	}
	if plan.Repositories[0].Branch != "main" || len(plan.Repositories[0].Head) != 40 {
		t.Errorf("got %+v, want branch main and a commit", plan.Repositories[0])
	}
}

func TestWorkspaceWithoutRepositories(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("notes.txt", "n")
	e := ensure(t, w.open(), "ctx_a")
	if len(treeOf(t, e.Folder)) != 0 || e.Layer != "" {
		t.Errorf("want an empty context without layer, got %+v", e)
	}
	m := w.open(func(c *Config) { c.Seed.Root = "." })
	e = ensure(t, m, "ctx_b")
	sameTree(t, treeOf(t, e.Folder), treeOf(t, w.dir, ".contexts"))
}

func TestSelections(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		seed     seed.Options
		ignore   string
		has, not []string
	}{
		{"all", seed.Options{}, "", []string{"tracked", "untracked", "out/built"}, nil},
		{"unignored", seed.Options{Select: seed.SelectUnignored}, "", []string{"tracked", "untracked", "inner/in"}, []string{"out/built", "out"}},
		{"tracked", seed.Options{Select: seed.SelectTracked}, "", []string{"tracked", "deep/er/t", "inner/in"}, []string{"untracked", "out"}},
		{"excluded", seed.Options{Exclude: []string{"*.log", "/app/deep"}}, "", []string{"tracked"}, []string{"x.log", "deep"}},
		{"contextignore", seed.Options{}, "*.log\n!keep.log\n# c\nout/\n", []string{"tracked", "keep.log"}, []string{"x.log", "out"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorkspace(t)
			w.write("app/tracked", "1")
			w.write("app/deep/er/t", "1")
			w.write("app/.gitignore", "out/\n")
			w.repo("app")
			w.write("app/inner/in", "1")
			w.repo("app/inner")
			w.write("app/untracked", "1")
			w.write("app/x.log", "1")
			w.write("app/keep.log", "1")
			w.write("app/out/built", "1")
			if c.ignore != "" {
				w.write("app/.contextignore", c.ignore)
			}
			e := ensure(t, w.open(func(cfg *Config) { cfg.Seed = c.seed }), "ctx_a")
			got := treeOf(t, filepath.Join(e.Folder, "app"))
			for _, p := range c.has {
				if _, ok := got[p]; !ok {
					t.Errorf("%s is missing in %v", p, got)
				}
			}
			for _, p := range c.not {
				if _, ok := got[p]; ok {
					t.Errorf("%s should not be there", p)
				}
			}
		})
	}
}

// A repository's own configuration must not run programs of its choice.
func TestListingRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("app/f", "1")
	w.repo("app")
	mark := filepath.Join(w.dir, "ran")
	script := filepath.Join(w.dir, "monitor.sh")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch '"+mark+"'\n"), 0o755))
	w.git("app", "config", "core.fsmonitor", script)
	m := w.open(func(c *Config) { c.Seed.Select = seed.SelectUnignored })
	ensure(t, m, "ctx_a")
	_, err := m.PlanSeed(context.Background(), PlanOptions{})
	must(t, err)
	if _, err := os.Lstat(mark); err == nil {
		t.Error("the repository's fsmonitor ran")
	}
}

func TestSizeGuard(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("app/f", "1")
	w.repo("app")
	w.fill("app/target", 30)
	m := w.open(func(c *Config) { c.Seed.MaxFiles = 20 })
	_, err := m.Ensure(context.Background(), "ctx_a", EnsureOptions{}, nil)
	wantCode(t, err, fserr.EFBIG, "31 files", "20 files", "Largest: app/target 30 files", ".contextignore", "--seed-select=unignored", "--seed-max-files")
	info, err := m.Get(context.Background(), "ctx_a")
	must(t, err)
	if info.State != StateFailed || info.LastError == "" {
		t.Errorf("got %+v, want failed with its reason", info)
	}
	plan, err := m.PlanSeed(context.Background(), PlanOptions{})
	must(t, err)
	if plan.TooLarge == "" || plan.Files != 31 || plan.Largest[0].Path != "app/target" {
		t.Errorf("got %+v, want the plan to say that it is too large", plan)
	}
	if _, err := os.Lstat(m.cat.Layout.Folder("ctx_a")); err == nil {
		t.Error("a refused seeding left a folder")
	}
	// The remedy helps without a restart.
	w.write("app/.contextignore", "target/\n")
	ensure(t, m, "ctx_a")
}

func TestDiskReserve(t *testing.T) {
	t.Parallel()
	w := threeRepos(t, 0)
	m := w.open(func(c *Config) { c.DiskReserve = 1 << 60 })
	_, err := m.Ensure(context.Background(), "ctx_a", EnsureOptions{}, nil)
	wantCode(t, err, fserr.ENOSPC, "ctx_a", "must leave", "are free")
}

func TestLayerIsReusedWhileItHolds(t *testing.T) {
	t.Parallel()
	w := threeRepos(t, 0)
	m := w.open()
	first := ensure(t, m, "ctx_a")
	if second := ensure(t, m, "ctx_b"); second.Layer != first.Layer {
		t.Error("an unchanged workspace made a second layer")
	}
	w.write("app/main.go", "package mine")
	third := ensure(t, m, "ctx_c")
	if third.Layer == first.Layer {
		t.Error("a changed workspace was seeded from the old layer")
	}
	data, err := os.ReadFile(filepath.Join(third.Folder, "app/main.go"))
	if err != nil || string(data) != "package mine" {
		t.Errorf("got %q, %v", data, err)
	}
	man, err := seed.ReadManifest(m.cat.Layout.Manifest("ctx_a"))
	must(t, err)
	if man.Files != first.Files || len(man.Repos) != 3 || !man.Repos[0].Dirty {
		t.Errorf("the manifest says %d files, %+v", man.Files, man.Repos)
	}
}

func TestUnusedLayersGoAtStart(t *testing.T) {
	t.Parallel()
	w := threeRepos(t, 0)
	m := w.open()
	first := ensure(t, m, "ctx_a")
	w.write("app/main.go", "2")
	kept := ensure(t, m, "ctx_b")
	w.write("app/main.go", "3")
	current := ensure(t, m, "ctx_c")
	for _, id := range []ID{"ctx_a", "ctx_c"} {
		_, err := m.Delete(context.Background(), id, nil)
		must(t, err)
	}
	must(t, m.Close())
	m = w.open()
	names, err := os.ReadDir(m.cat.Layout.Layers)
	must(t, err)
	var got []string
	for _, n := range names {
		got = append(got, n.Name())
	}
	if slices.Contains(got, first.Layer) || !slices.Contains(got, kept.Layer) || !slices.Contains(got, current.Layer) {
		t.Errorf("layers left: %v", got)
	}
}

func TestUnsafeContextStartsEmpty(t *testing.T) {
	t.Parallel()
	w := threeRepos(t, 0)
	e := ensure(t, w.open(), "unsafe_noctx_x")
	if e.State != StateReady || len(treeOf(t, e.Folder)) != 0 {
		t.Errorf("got %+v with files, want an empty context", e)
	}
}

func TestContextIsSeparateFromItsLayer(t *testing.T) {
	t.Parallel()
	w := threeRepos(t, 0)
	m := w.open()
	a := ensure(t, m, "ctx_a")
	must(t, os.WriteFile(filepath.Join(a.Folder, "app/main.go"), []byte("edited"), 0o644))
	b := ensure(t, m, "ctx_b")
	data, err := os.ReadFile(filepath.Join(b.Folder, "app/main.go"))
	if err != nil || string(data) != "package main" {
		t.Errorf("an edit in one context shows in another: %q, %v", data, err)
	}
}

func TestContextIsOutsideTheWorkspacesRepository(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("f", "1")
	w.repo("")
	e := ensure(t, w.open(), "ctx_a")
	rel, err := filepath.Rel(w.dir, e.Folder)
	must(t, err)
	if out := w.gitFails(rel, "rev-parse", "--show-toplevel"); !strings.Contains(out, "not a git repository") {
		t.Errorf("git inside a context said %q", out)
	}
	if out := w.git("", "status", "--porcelain"); out != "" {
		t.Errorf("the workspace's git sees the contexts: %q", out)
	}
}
