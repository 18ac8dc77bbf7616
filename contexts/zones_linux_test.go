package contexts

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata/memory"
)

// zoned makes a context with zones.
func zoned(t *testing.T, m *Manager, id ID, mode zones.Mode, list ...zones.Zone) {
	t.Helper()
	spec, err := NewSpec(nil, zones.Layout{Mode: mode, Zones: list})
	must(t, err)
	_, err = m.Ensure(t.Context(), id, EnsureOptions{Spec: spec}, nil)
	must(t, err)
}

// inside calls f with the root of a context.
func inside(t *testing.T, m *Manager, id ID, f func(root rootfs.Root)) {
	t.Helper()
	a, err := m.Acquire(t.Context(), id, Write)
	must(t, err)
	defer a.Release()
	f(a.Root)
}

func putFile(root rootfs.Root, path, content string) error {
	f, err := root.OpenFile(path, rootfs.O_CREAT|rootfs.O_WRONLY|rootfs.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func top(t *testing.T, root rootfs.Root) (names []string) {
	t.Helper()
	d, err := root.OpenDir("/")
	must(t, err)
	defer d.Close()
	for {
		list, err := d.Next(100, true)
		if errors.Is(err, io.EOF) {
			return names
		}
		must(t, err)
		for _, e := range list {
			names = append(names, e.Name)
		}
	}
}

func wantErrno(t *testing.T, what string, err error, want fserr.Code) {
	t.Helper()
	if fserr.CodeOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestSandboxedZonesAreTheWholeContext(t *testing.T) {
	t.Parallel()
	for name, workspaceFor := range map[string]func(t *testing.T) *workspace{"copied": twoRepositories, "mounted": newOverlaid} {
		t.Run(name, func(t *testing.T) {
			w := workspaceFor(t)
			m := w.open()
			zoned(t, m, "ctx_a", zones.Sandboxed,
				zones.Zone{Path: "/workspace", From: []string{zones.Repositories}}, zones.Zone{Path: "/cache", NeverCommit: true, MaxBytes: 64 << 10}, zones.Zone{Path: "/docs", ReadOnly: true})
			must(t, os.WriteFile(filepath.Join(m.cat.Layout.Folder("ctx_a"), "beside"), nil, 0o644))
			inside(t, m, "ctx_a", func(root rootfs.Root) {
				if got, want := top(t, root), []string{"workspace", "cache", "docs"}; !slices.Equal(got, want) {
					t.Errorf("/ has %v, want %v", got, want)
				}
				if _, err := root.Stat("/workspace/app"); err != nil {
					t.Error(err)
				}
				_, err := root.Stat("/beside")
				wantErrno(t, "a file beside the zones", err, fserr.ENOENT)
				wantErrno(t, "a new file beside the zones", putFile(root, "/new", ""), fserr.EACCES)
				must(t, putFile(root, "/cache/small", "x"))
				wantErrno(t, "rename to another zone", root.Rename("/cache/small", "/workspace/small"), fserr.EXDEV)
				wantErrno(t, "a read-only zone", putFile(root, "/docs/new", "x"), fserr.EROFS)
				wantErrno(t, "more than a zone may have", putFile(root, "/cache/large", strings.Repeat("x", 128<<10)), fserr.EDQUOT)
				must(t, putFile(root, "/workspace/large", strings.Repeat("x", 128<<10)))
			})
			dir, err := m.HostPath(t.Context(), "ctx_a", "/cache/small")
			must(t, err)
			if got, err := os.ReadFile(dir); err != nil || string(got) != "x" {
				t.Errorf("%s has %q, %v", dir, got, err)
			}
			fork(t, m, "ctx_a", "ctx_b")
			inside(t, m, "ctx_b", func(root rootfs.Root) {
				wantErrno(t, "a read-only zone of a fork", putFile(root, "/docs/new", "x"), fserr.EROFS)
			})
		})
	}
}

// directWorkspace is a workspace with the directories reports and downloads, and a Manager that knows a further directory.
func directWorkspace(t *testing.T) (w *workspace, m *Manager, elsewhere string) {
	t.Helper()
	w = twoRepositories(t)
	w.write("reports/.git/config", "config")
	w.write("reports/draft.md", "draft")
	w.write("downloads/page", "page")
	elsewhere = t.TempDir()
	must(t, os.Mkdir(filepath.Join(elsewhere, "sub"), 0o755))
	return w, w.open(func(c *Config) { c.ZoneDirs = []string{elsewhere} }), elsewhere
}

func TestDirectZonesAreTheirDirectories(t *testing.T) {
	t.Parallel()
	w, m, elsewhere := directWorkspace(t)
	zoned(t, m, "ctx_a", zones.Direct, zones.Zone{Path: "/workspace", Dir: "reports"}, zones.Zone{Path: "/cache", Dir: "downloads", NeverCommit: true},
		zones.Zone{Path: "/read", Dir: "lib", ReadOnly: true}, zones.Zone{Path: "/out", Dir: filepath.Join(elsewhere, "sub")})
	inside(t, m, "ctx_a", func(root rootfs.Root) {
		if got := top(t, root); !slices.Equal(got, []string{"workspace", "cache", "read", "out"}) {
			t.Errorf("/ has %v", got)
		}
		_, err := rootfs.Descriptor(root)
		wantErrno(t, "a command's descriptor", err, fserr.EOPNOTSUPP)
		must(t, putFile(root, "/workspace/new.md", "new"))
		must(t, putFile(root, "/out/new", "out"))
		wantErrno(t, "a read-only zone", putFile(root, "/read/new", "x"), fserr.EROFS)
		for _, p := range []string{"/workspace/.git/config", "/workspace/.GIT/config", "/workspace/git~1/config", "/workspace/.git/hooks/pre-commit"} {
			wantErrno(t, p, putFile(root, p, "x"), fserr.EACCES)
		}
		wantErrno(t, "rename to another zone", root.Rename("/workspace/new.md", "/cache/new.md"), fserr.EXDEV)
	})
	for path, want := range map[string]string{filepath.Join(w.dir, "reports/new.md"): "new", filepath.Join(elsewhere, "sub/new"): "out", filepath.Join(w.dir, "reports/.git/config"): "config"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", path, got, err)
		}
	}
	_, err := m.HostPath(t.Context(), "ctx_a", "/workspace/not/../draft.md")
	wantErrno(t, "resolve through a missing directory", err, fserr.ENOENT)
	dir, err := m.HostPath(t.Context(), "ctx_a", "/cache/../workspace/draft.md")
	must(t, err)
	if want := filepath.Join(w.dir, "reports/draft.md"); dir != want {
		t.Errorf("/workspace/draft.md is at %s, want %s", dir, want)
	}
	_, err = m.HostPath(t.Context(), "ctx_a", "/workspace/.git/config")
	wantErrno(t, "resolve .git", err, fserr.EACCES)
}

func TestDirectZonesHaveNoCopies(t *testing.T) {
	t.Parallel()
	_, m, _ := directWorkspace(t)
	zoned(t, m, "ctx_a", zones.Direct, zones.Zone{Path: "/workspace", Dir: "reports"})
	_, err := m.Fork(t.Context(), "ctx_a", "ctx_b", EnsureOptions{})
	wantErrno(t, "fork", err, fserr.EOPNOTSUPP)
	_, err = m.Snapshot(t.Context(), "ctx_a", "s")
	wantErrno(t, "snapshot", err, fserr.EOPNOTSUPP)
	_, err = m.Restore(t.Context(), "ctx_a", "s", nil)
	wantErrno(t, "restore", err, fserr.EOPNOTSUPP)
	_, err = m.Origin(t.Context(), "ctx_a")
	wantErrno(t, "review", err, fserr.EOPNOTSUPP)
	_, err = m.Delete(t.Context(), "ctx_a", nil)
	must(t, err)
}

func TestDeletingAContextKeepsTheDirectoriesOfItsZones(t *testing.T) {
	t.Parallel()
	w, m, _ := directWorkspace(t)
	zoned(t, m, "ctx_a", zones.Direct, zones.Zone{Path: "/workspace", Dir: "reports"})
	inside(t, m, "ctx_a", func(rootfs.Root) {})
	_, err := m.Delete(t.Context(), "ctx_a", nil)
	must(t, err)
	if _, err := os.Stat(filepath.Join(w.dir, "reports/draft.md")); err != nil {
		t.Error(err)
	}
}

func TestWorkspaceAsAZoneHidesTheContexts(t *testing.T) {
	t.Parallel()
	w, m, _ := directWorkspace(t)
	ensure(t, m, "ctx_other")
	zoned(t, m, "ctx_a", zones.Direct, zones.Zone{Path: "/workspace", Dir: "."})
	must(t, os.Symlink(".contexts/ctx_other/app", filepath.Join(w.dir, "shortcut")))
	inside(t, m, "ctx_a", func(root rootfs.Root) {
		for _, p := range []string{"/workspace/.contexts", "/workspace/.contexts/ctx_other/app", "/workspace/.CONTEXTS/ctx_other", "/workspace/shortcut", "/workspace/shortcut/src", "/workspace/app/../.contexts"} {
			_, err := root.Stat(p)
			wantErrno(t, p, err, fserr.EACCES)
		}
		wantErrno(t, "rename", root.Rename("/workspace/.contexts", "/workspace/c"), fserr.EACCES)
		_, err := root.RemoveAll(t.Context(), "/workspace/.contexts")
		wantErrno(t, "rm -r", err, fserr.EACCES)
		must(t, root.Walk(t.Context(), "/", tree.WalkOptions{}, func(rel string, _ rootfs.Entry, err error) error {
			if strings.Contains(rel, ".contexts") || strings.Contains(rel, ".git") {
				t.Errorf("the walk shows %s", rel)
			}
			return err
		}))
	})
}

func TestDirectoryThatAZoneMustNotHave(t *testing.T) {
	t.Parallel()
	w, m, elsewhere := directWorkspace(t)
	must(t, os.Symlink("reports", filepath.Join(w.dir, "link")))
	must(t, os.Symlink(elsewhere, filepath.Join(w.dir, "out")))
	must(t, os.Mkdir(filepath.Join(w.dir, "reports/inner"), 0o755))
	for _, d := range []string{"bare/objects", "bare/refs"} {
		must(t, os.MkdirAll(filepath.Join(w.dir, d), 0o755))
	}
	w.write("bare/HEAD", "ref: refs/heads/main\n")
	for dir, want := range map[string]fserr.Code{
		"reports": 0, "reports/inner": 0, ".": 0, w.dir: 0, filepath.Join(elsewhere, "sub"): 0, elsewhere: 0,
		"none": fserr.ENOENT, "reports/draft.md": fserr.ENOTDIR, "../x": fserr.EACCES, "/etc": fserr.EACCES, "link": fserr.EACCES, "link/inner": fserr.EACCES, "out/sub": fserr.EACCES,
		".contexts": fserr.EACCES, ".contexts/ctx_a": fserr.EACCES, ".Contexts": fserr.EACCES, "reports/.git": fserr.EACCES, "app/.GIT": fserr.EACCES, "bare": fserr.EACCES,
		filepath.Dir(w.dir): fserr.EACCES, w.dir + "x": fserr.EACCES,
	} {
		err := m.ExplainZones(zones.Layout{Mode: zones.Direct, Zones: []zones.Zone{{Path: "/z", Dir: dir}}})
		wantErrno(t, dir, err, want)
		if err != nil && !strings.Contains(err.Error(), "zone /z") {
			t.Errorf("%s: the error does not name the zone: %v", dir, err)
		}
	}
	far := w.open(func(c *Config) { c.Dir, c.Store = filepath.Join(w.dir, "deep/er/contexts"), memory.New() })
	err := far.ExplainZones(zones.Layout{Mode: zones.Direct, Zones: []zones.Zone{{Path: "/z", Dir: "."}}})
	wantErrno(t, "a directory that has the contexts directory further below", err, fserr.EACCES)
}

func TestDirectZonesDoNotOverlap(t *testing.T) {
	t.Parallel()
	w, m, elsewhere := directWorkspace(t)
	for _, row := range []struct {
		a, b string
		want fserr.Code
	}{
		{"reports", "downloads", 0}, {"app", "lib", 0}, {"app/src/d0", "app/src/d1", 0}, {elsewhere, "app", 0},
		{"app", ".", fserr.EINVAL}, {".", "app", fserr.EINVAL}, {"app", "app", fserr.EINVAL}, {"app", "./app/", fserr.EINVAL}, {"app/src", "app", fserr.EINVAL},
		{"app", filepath.Join(w.dir, "app/src"), fserr.EINVAL}, {elsewhere, filepath.Join(elsewhere, "sub"), fserr.EINVAL},
	} {
		layout := zones.Layout{Mode: zones.Direct, Zones: []zones.Zone{{Path: "/sources", Dir: row.a, ReadOnly: true}, {Path: "/workspace", Dir: row.b}}}
		err := m.ExplainZones(layout)
		wantErrno(t, row.a+" and "+row.b, err, row.want)
		if err != nil && (!strings.Contains(err.Error(), "/sources") || !strings.Contains(err.Error(), "/workspace")) {
			t.Errorf("the error does not name both zones: %v", err)
		}
	}
	// A context that was made before is not opened.
	layout := zones.Layout{Mode: zones.Direct, Zones: []zones.Zone{{Path: "/sources", Dir: "app", ReadOnly: true}, {Path: "/workspace", Dir: "lib"}}}
	spec, err := NewSpec(nil, layout)
	must(t, err)
	_, err = m.Ensure(t.Context(), "ctx_a", EnsureOptions{Spec: spec}, nil)
	must(t, err)
	spec.Zones.Zones[1].Dir = "."
	must(t, m.cat.KeepSpec("ctx_a", spec))
	_, err = m.Acquire(t.Context(), "ctx_a", Read)
	wantErrno(t, "a context whose zones overlap", err, fserr.EINVAL)
}

func TestReplacedDirectoryOfAZoneIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("reports/draft.md", "draft")
	now := time.Unix(1_800_000_000, 0)
	m := w.open(func(c *Config) { c.Now = func() time.Time { return now } })
	zoned(t, m, "ctx_a", zones.Direct, zones.Zone{Path: "/workspace", Dir: "reports"})
	a, err := m.Acquire(t.Context(), "ctx_a", Read)
	must(t, err)
	before := a.Generation
	a.Release()
	must(t, os.Rename(filepath.Join(w.dir, "reports"), filepath.Join(w.dir, "old")))
	now = now.Add(2 * recheck)
	_, err = m.Acquire(t.Context(), "ctx_a", Read)
	wantErrno(t, "a missing directory", err, fserr.EIO)
	if strings.Contains(err.Error(), w.dir) {
		t.Errorf("the error has a path of the server: %v", err)
	}
	w.write("reports/second", "second")
	inside(t, m, "ctx_a", func(root rootfs.Root) {
		if _, err := root.Stat("/workspace/second"); err != nil {
			t.Error(err)
		}
	})
	a, err = m.Acquire(t.Context(), "ctx_a", Read)
	must(t, err)
	defer a.Release()
	if a.Generation <= before {
		t.Errorf("the generation is still %d", a.Generation)
	}
}

func TestClearZoneEmptiesOnlyWhatIsNeverCommitted(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	m := w.open()
	zoned(t, m, "ctx_a", zones.Sandboxed, zones.Zone{Path: "/workspace", From: []string{zones.Repositories}}, zones.Zone{Path: "/cache", NeverCommit: true},
		zones.Zone{Path: "/fixed", NeverCommit: true, ReadOnly: true})
	inside(t, m, "ctx_a", func(root rootfs.Root) {
		must(t, root.Symlink("/workspace/app", "/cache/link"))
		must(t, root.Mkdir("/cache/d", 0o755))
		must(t, putFile(root, "/cache/d/f", "x"))
	})
	for zone, want := range map[string]fserr.Code{"/workspace": fserr.EACCES, "/fixed": fserr.EACCES, "/none": fserr.ENOENT, "/": fserr.ENOENT, "cache": fserr.ENOENT, "/cache/d": fserr.ENOENT} {
		_, err := m.ClearZone(t.Context(), "ctx_a", zone)
		wantErrno(t, zone, err, want)
	}
	n, err := m.ClearZone(t.Context(), "ctx_a", "/cache")
	must(t, err)
	if n != 3 {
		t.Errorf("%d entries were removed, want 3", n)
	}
	inside(t, m, "ctx_a", func(root rootfs.Root) {
		if _, err := root.Stat("/workspace/app/src/d0/f0.txt"); err != nil {
			t.Errorf("a link of the zone was followed: %v", err)
		}
	})
	bytes, err := m.MeasureZone(t.Context(), "ctx_a", "/cache")
	if err != nil || bytes != 0 {
		t.Errorf("the zone has %d bytes, %v", bytes, err)
	}
}

func TestGarbageCollectionRemovesOldFilesOfZones(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	now := time.Now()
	m := w.open(func(c *Config) { c.Now = func() time.Time { return now } })
	zoned(t, m, "ctx_a", zones.Sandboxed, zones.Zone{Path: "/workspace", From: []string{zones.Repositories}},
		zones.Zone{Path: "/cache", NeverCommit: true, Keep: time.Hour}, zones.Zone{Path: "/kept", NeverCommit: true})
	inside(t, m, "ctx_a", func(root rootfs.Root) {
		must(t, root.Mkdir("/cache/d", 0o755))
		must(t, putFile(root, "/cache/d/old", "old"))
		must(t, root.Symlink("/workspace/app", "/cache/link"))
		must(t, putFile(root, "/kept/old", "old"))
	})
	collect := func(dry bool) (files int64) {
		t.Helper()
		found, err := m.CollectGarbage(t.Context(), GarbageOptions{DryRun: dry})
		must(t, err)
		for _, g := range found {
			if g.Kind == GarbageZone {
				must(t, g.Err)
				if g.Name != "ctx_a/cache" {
					t.Errorf("garbage in %s", g.Name)
				}
				files += g.Files
			}
		}
		return files
	}
	if n := collect(false); n != 0 {
		t.Errorf("%d files were removed that are not old", n)
	}
	now = now.Add(2 * time.Hour)
	for _, row := range []struct {
		dry  bool
		want int64
	}{{true, 2}, {false, 2}, {false, 0}} {
		if n := collect(row.dry); n != row.want {
			t.Errorf("dry run %t: %d files, want %d", row.dry, n, row.want)
		}
	}
	found, err := m.CollectGarbage(t.Context(), GarbageOptions{DryRun: true, Idle: time.Hour})
	must(t, err)
	if got := collected(found); len(got) != 1 {
		t.Errorf("idle are %q: collections count as a use", got)
	}
	inside(t, m, "ctx_a", func(root rootfs.Root) {
		for path, want := range map[string]fserr.Code{"/cache/d/old": fserr.ENOENT, "/cache/link": fserr.ENOENT, "/cache/d": 0, "/kept/old": 0, "/workspace/app/src/d0/f0.txt": 0} {
			_, err := root.Lstat(path)
			wantErrno(t, path, err, want)
		}
	})
}

func TestFilesOfTheWorkspaceGiveNoDirectZones(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	layout := zones.Layout{Mode: zones.Direct, Zones: []zones.Zone{{Path: "/workspace", Dir: "."}}}
	w.write("panels/editor/context-zones.yml", "mode: direct\nzones:\n  /workspace: {dir: .}\n")
	opts := EnsureOptions{OwnerPanel: "panels/editor"}
	m := w.open()
	_, err := m.Ensure(t.Context(), "ctx_panels~editor", opts, nil)
	wantErrno(t, "direct zones of a file", err, fserr.EACCES)
	for _, want := range []string{"panels/editor/context-zones.yml", "--zones", "--trust-zone-files"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	if _, err := m.Spec(t.Context(), "ctx_panels~editor"); fserr.CodeOf(err) != fserr.ESTALE {
		t.Errorf("the refused context is there: %v", err)
	}
	byHost := opts
	byHost.Spec, err = NewSpec(nil, layout)
	must(t, err)
	if e, err := m.Ensure(t.Context(), "ctx_panels~editor", byHost, nil); err != nil || e.Zones != zones.Direct {
		t.Errorf("zones of the host: %q, %v", e.Zones, err)
	}
	_, err = m.Delete(t.Context(), "ctx_panels~editor", nil)
	must(t, err)
	trusting := w.open(func(c *Config) { c.TrustZoneFiles = true })
	if e, err := trusting.Ensure(t.Context(), "ctx_panels~editor", opts, nil); err != nil || e.Zones != zones.Direct {
		t.Errorf("trusted files: %q, %v", e.Zones, err)
	}
}

func TestZonesBesideAPanelsSource(t *testing.T) {
	t.Parallel()
	w := twoRepositories(t)
	w.write("panels/editor/context-zones.yml", "mode: sandboxed\nzones:\n  /workspace: {from: app}\n  /cache: {commit: never}\n")
	w.write("panels/bad/context-zones.yml", "mode: sandboxed\nzones:\n  /a/b: {}\n")
	m := w.open()
	_, err := m.Ensure(t.Context(), "ctx_panels~editor", EnsureOptions{OwnerPanel: "panels/editor"}, nil)
	must(t, err)
	inside(t, m, "ctx_panels~editor", func(root rootfs.Root) {
		if got := top(t, root); !slices.Equal(got, []string{"workspace", "cache"}) {
			t.Errorf("/ has %v", got)
		}
		for path, want := range map[string]fserr.Code{"/workspace/app/src": 0, "/workspace/lib": fserr.ENOENT} {
			_, err := root.Stat(path)
			wantErrno(t, path, err, want)
		}
	})
	w.write("panels/editor/context-zones.yml", "mode: sandboxed\nzones:\n  /other: {}\n")
	_, err = m.Ensure(t.Context(), "ctx_panels~editor", EnsureOptions{OwnerPanel: "panels/editor"}, nil)
	must(t, err) // it keeps the zones that it was made with
	_, err = m.Ensure(t.Context(), "ctx_panels~bad", EnsureOptions{OwnerPanel: "panels/bad"}, nil)
	wantErrno(t, "a bad layout", err, fserr.EINVAL)
	if err != nil && !strings.Contains(err.Error(), "panels/bad/context-zones.yml:3:3") {
		t.Errorf("the error does not name the place: %v", err)
	}
	_, err = m.Ensure(t.Context(), "ctx_panels~other", EnsureOptions{OwnerPanel: "panels/other"}, nil)
	must(t, err)
}
