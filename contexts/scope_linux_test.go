package contexts

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
)

// ensureOf makes a context that is seeded from folders.
func ensureOf(t testing.TB, m *Manager, id ID, from ...string) Ensured {
	t.Helper()
	return ensureSpec(t, m, id, madeOf(t, from...))
}

func ensureSpec(t testing.TB, m *Manager, id ID, spec Spec) Ensured {
	t.Helper()
	e, err := m.Ensure(t.Context(), id, EnsureOptions{Spec: spec}, nil)
	must(t, err)
	return e
}

// below returns what a tree has below a directory, with the parents of the directory.
func below(tree map[string]string, dir string) map[string]string {
	tree = maps.Clone(tree)
	maps.DeleteFunc(tree, func(p, _ string) bool {
		return p != dir && !strings.HasPrefix(p, dir+"/") && !strings.HasPrefix(dir, p+"/")
	})
	return tree
}

func TestScopeIsAllThatIsSeeded(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	w.write("app/README", "the app's")
	w.write("lib/core/doc", "beside the scope")
	whole := treeOf(t, w.dir, ".git", ".contexts")
	m := w.open()
	for id, from := range map[ID]string{"ctx_repository": "app", "ctx_folder": "lib/core/src"} {
		e := ensureOf(t, m, id, from)
		got, want := treeOf(t, w.folder(id)), below(whole, from)
		if id == "ctx_folder" {
			if _, there := got["lib/core/doc"]; there || len(got) != 20+30+3 {
				t.Errorf("%s has %d entries, and one beside the scope: %t", id, len(got), there)
			}
		}
		for p := range want { // the time of a directory above the scope is not its own
			if got[p] != want[p] && strings.HasPrefix(p, from) {
				t.Errorf("%s is %s, want %s", p, got[p], want[p])
			}
			delete(got, p)
		}
		if len(got) > 0 {
			t.Errorf("%s has more than the scope: %v", id, got)
		}
		origin, err := m.Origin(t.Context(), id)
		must(t, err)
		repo, _, _ := strings.Cut(from, "/")
		head := strings.TrimSpace(w.git(repo, "rev-parse", "HEAD"))
		if r := origin.Manifest.Repos; len(r) != 1 || r[0].Path != repo || r[0].Head != head || r[0].Branch != "main" {
			t.Errorf("%s is of the repositories %+v, want %s at %s", id, r, repo, head)
		}
		if dirty := origin.Manifest.Repos[0].Dirty; dirty != (id == "ctx_repository") {
			t.Errorf("the scope of %s is dirty: %t", id, dirty)
		}
		if e.Layer != origin.Layer || !slices.Equal(origin.Manifest.Scope.From, []string{from}) {
			t.Errorf("%s is made from layer %s of %v", id, e.Layer, origin.Manifest.Scope)
		}
	}
}

// The kernel reports each file and directory outside of the scope that is opened while a context of the scope is made, whatever opens it.
func TestScopeLooksAtNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorkspaceFor(t)
	w.fill("big/scope", 20)
	w.fill("big/rest/deep", 20)
	w.fill("other/deep", 20)
	for _, repo := range []string{"big", "other"} {
		w.git(repo, "init", "-q", "-b", "main")
		w.repo(repo)
	}
	m := w.open()
	opened := watchOpens(t, w.dir, func(rel string) bool {
		// The scope's repository says what is ignored and committed.
		return rel == "." || rel == "big" || rel == "big/scope" || strings.HasPrefix(rel, "big/scope/") || strings.HasPrefix(rel, "big/.git") || strings.HasPrefix(rel, ".contexts")
	})
	ensureOf(t, m, "ctx_one", "big/scope")
	ensureOf(t, m, "ctx_from_its_layer", "big/scope")
	if all := opened(); len(all) > 0 {
		t.Errorf("these were opened: %q", all)
	}
	ensureOf(t, m, "ctx_all")
	if all := opened(); !slices.Contains(all, "big/rest/deep") || !slices.Contains(all, "other/deep") {
		t.Errorf("the whole workspace was looked at, and only these were opened: %q", all)
	}
}

// watchOpens watches the directories below dir that skip does not name. The function that it returns lists those that were opened since, or of which a file was.
func watchOpens(t *testing.T, dir string, skip func(rel string) bool) (opened func() []string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	names := map[uint32]string{}
	must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		rel, e := filepath.Rel(dir, name)
		if err = errors.Join(err, e); err != nil || !d.IsDir() || skip(rel) {
			return err
		}
		wd, err := unix.InotifyAddWatch(fd, name, unix.IN_OPEN|unix.IN_ACCESS)
		names[uint32(wd)] = rel
		return err
	}))
	read := func() (all []string) {
		buffer := make([]byte, 1<<20)
		for {
			n, err := unix.Read(fd, buffer)
			if errors.Is(err, unix.EAGAIN) {
				slices.Sort(all)
				return slices.Compact(all)
			}
			must(t, err)
			for at := 0; at < n; at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buffer[at+12:])) {
				all = append(all, names[binary.NativeEndian.Uint32(buffer[at:])])
			}
		}
	}
	read() // what the walk above has opened
	return read
}

func TestScopeHasItsOwnLayer(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	m := w.open(func(c *Config) { c.Pool = 1 })
	all := ensure(t, m, "ctx_all")
	one, again := ensureOf(t, m, "ctx_one", "lib/core/src"), ensureOf(t, m, "ctx_again", "lib/core/src")
	app := ensureOf(t, m, "ctx_app", "app")
	if one.Layer != again.Layer || one.Layer == all.Layer || one.Layer == app.Layer {
		t.Errorf("layers: all %.8s, lib/core/src %.8s and %.8s, app %.8s", all.Layer, one.Layer, again.Layer, app.Layer)
	}
	w.write("app/src/d0/f0.txt", "changed outside of the scope")
	if later := ensureOf(t, m, "ctx_later", "lib/core/src"); later.Layer != one.Layer {
		t.Error("a change outside of the scope made another layer")
	}
	w.write("lib/core/src/new", "in the scope")
	if later := ensureOf(t, m, "ctx_changed", "lib/core/src"); later.Layer == one.Layer {
		t.Error("the layer lacks a new file of the scope")
	}
	wantFile(t, m, "ctx_changed", "lib/core/src/new", "in the scope")
	must(t, m.Close())
	m = w.open() // a new process finds the layers of each scope
	if later := ensureOf(t, m, "ctx_restarted", "app"); later.Layer == app.Layer {
		t.Error("the layer lacks a change in the scope")
	}
	current, err := m.seeder.Layers.Current(seed.Scope{From: []string{"lib/core/src"}})
	must(t, err)
	if e := ensureOf(t, m, "ctx_found", "lib/core/src"); current == nil || e.Layer != current.Digest {
		t.Errorf("the layer of the scope was not found: %.8s", e.Layer)
	}
}

func TestGarbageKeepsTheLayersOfScopes(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	m := w.open()
	used, current := ensureOf(t, m, "ctx_used", "app"), ensureOf(t, m, "ctx_current", "lib")
	unused := ensureOf(t, m, "ctx_unused", "lib/core")
	w.write("app/new", "new")
	w.write("lib/core/new", "new")
	newest := ensureOf(t, m, "ctx_newest", "lib/core")
	for _, id := range []ID{"ctx_current", "ctx_unused", "ctx_newest"} {
		_, err := m.Delete(t.Context(), id, nil)
		must(t, err)
	}
	_, err := m.CollectGarbage(t.Context(), GarbageOptions{})
	must(t, err)
	for what, c := range map[string]struct {
		layer string
		kept  bool
	}{
		"used": {used.Layer, true}, "newest of its scope": {current.Layer, true}, "replaced": {unused.Layer, false}, "its successor": {newest.Layer, true},
	} {
		_, err := os.Stat(m.seeder.Layers.Dir(c.layer))
		if kept := err == nil; kept != c.kept {
			t.Errorf("the layer that is %s is kept: %t", what, kept)
		}
	}
}

func TestScopeThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	must(t, os.Symlink("app", filepath.Join(w.dir, "link")))
	must(t, os.Symlink("src", filepath.Join(w.dir, "app/inside")))
	w.write("app/file", "")
	w.write("app/out/f", "")
	w.write(".contextignore", "app/out/\n")
	m := w.open(func(c *Config) { c.Dir = "state" })
	for from, want := range map[string]string{
		"ap":             "'ap': there is no such folder in the workspace; did you mean 'app'?; the workspace has the repositories app, lib",
		"lib/cor/src":    "did you mean 'lib/core/src'?",
		"nothing-near":   "there is no such folder in the workspace; the workspace has the repositories app, lib",
		"app/file":       "'app/file' is no folder",
		"app/file/below": "'app/file' is no folder",
		"link":           "'link' is a symbolic link",
		"link/src":       "'link' is a symbolic link",
		"app/inside":     "'app/inside' is a symbolic link",
		"app/out":        ".contextignore leaves it out",
		"state/ctx_x":    "it lies among the contexts",
		"state":          "it lies among the contexts",
	} {
		_, err := m.Ensure(t.Context(), "ctx_a", EnsureOptions{Spec: madeOf(t, "app/src", from)}, nil)
		if fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want EINVAL with %q", from, err, want)
		}
		if info, err := m.Get(t.Context(), "ctx_a"); err != nil || info.State != StateMissing {
			t.Fatalf("%s: the refused context is %s, %v", from, info.State, err)
		}
	}
	ensure(t, m, "ctx_a") // nothing of what was refused is remembered
	wantSpec(t, m, "ctx_a", Spec{})
}

func TestScopesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	scanning, goOn := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	m := w.open(func(c *Config) {
		c.Events.Step = func(step string) {
			if step == "scanned" && first.CompareAndSwap(false, true) {
				close(scanning)
				<-goOn
			}
		}
	})
	held := make(chan error, 1)
	ctx := t.Context()
	app, lib := madeOf(t, "app"), madeOf(t, "lib")
	go func() {
		_, err := m.Ensure(ctx, "ctx_held", EnsureOptions{Spec: app}, nil)
		held <- err
	}()
	<-scanning
	inTime(t, "a seeding of another scope", func(ctx context.Context) error {
		_, err := m.Ensure(ctx, "ctx_other", EnsureOptions{Spec: lib}, nil)
		return err
	})
	close(goOn)
	must(t, <-held)
}

func TestSeedingIntoAZone(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	m := w.open()
	spec, err := NewSpec([]string{"lib"}, zones.Layout{Mode: zones.Sandboxed, Zones: []zones.Zone{{Path: "/work", From: []string{zones.Repositories}}, {Path: "/work-cache"}}})
	must(t, err)
	e := ensureSpec(t, m, "ctx_a", spec)
	names, err := os.ReadDir(w.folder("ctx_a"))
	must(t, err)
	if len(names) != 2 || names[0].Name() != "work" || names[1].Name() != "work-cache" || e.Files != 30 {
		t.Errorf("the context has %v, and %d files", names, e.Files)
	}
	sameTree(t, treeOf(t, filepath.Join(w.folder("ctx_a"), "work")), below(treeOf(t, w.dir, ".git", ".contexts"), "lib"))
}
