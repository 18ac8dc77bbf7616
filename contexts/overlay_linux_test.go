package contexts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/metadata/memory"
)

// mounting is the overlay driver of root, or in namespaces that of any user.
func mounting(opts overlay.Options) *overlay.Driver {
	if namespacestest.Inside() {
		return overlay.NewUserNS(opts)
	}
	return overlay.New(opts)
}

func overlayName() string { return mounting(overlay.Options{}).Name() }

func unmount(folder string, flags int) error {
	return namespaces.WithCapabilities(func() error { return unix.Unmount(folder, flags) })
}

// TestInNamespaces runs some tests of each kind again with contexts that are mounted in namespaces, as an ordinary user. Packages overlay
// and rootfs test what depends on the driver.
func TestInNamespaces(t *testing.T) {
	if namespacestest.Inside() {
		t.Skip("these tests are in one already")
	}
	namespacestest.Run(t, "^Test(OverlayLife|OverlayDelete|ModesAreNeverMixed|UntouchedContextsTakeNoSpace|GitKnowsFilesAgain|"+
		"TwoProcessesMountOnce|ProgramInAContextAtTheStop|KillOverlayAtEveryPhase|Fork|Snapshots|RestoreKeepsTheOwner|SnapshotIsReadWhileItsContextChanges|BatchIsWholeAfterKills)$")
}

// newOverlaid is a workspace with one repository whose contexts are mounted. It skips, and says
// why, where that cannot be: it needs root.
func newOverlaid(t *testing.T) *workspace {
	t.Helper()
	namespacestest.Mounting(t)
	w := newWorkspace(t)
	w.driver, w.others = mounting(overlay.Options{Parts: w.parts(), MaxFlush: time.Hour}), []driver.Driver{w.driver}
	if err := w.driver.Check(t.Context(), w.dir); err != nil {
		t.Skipf("not tested here: %v", err)
	}
	t.Cleanup(func() {
		for _, name := range w.mounted() {
			must(t, unmount(w.folder(ID(name)), unix.MNT_DETACH))
		}
	})
	w.fill("app", 60)
	w.repo("app")
	return w
}

// parts is where the overlay driver keeps what it has frozen.
func (w *workspace) parts() string { return filepath.Join(w.dir, ".contexts", ".ctxfs", "parts") }

func (w *workspace) folder(id ID) string { return filepath.Join(w.dir, ".contexts", string(id)) }

// mounted lists the contexts that are.
func (w *workspace) mounted() []string {
	w.t.Helper()
	names, err := mounting(overlay.Options{}).Mounts(filepath.Join(w.dir, ".contexts"))
	must(w.t, err)
	return names
}

func (w *workspace) wantMounted(what string, want int) {
	w.t.Helper()
	if got := w.mounted(); len(got) != want {
		w.t.Errorf("%s: %v are mounted, want %d", what, got, want)
	}
}

// put writes a file as a panel does.
func put(t testing.TB, m *Manager, id ID, name, content string) {
	t.Helper()
	a, err := m.Acquire(t.Context(), id, Write)
	must(t, err)
	defer a.Release()
	f, err := a.Root.OpenFile(name, rootfs.O_WRONLY|rootfs.O_CREAT|rootfs.O_TRUNC, 0o644)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, errors.Join(err, f.Close()))
}

// wantFile reads a file as a panel does.
func wantFile(t testing.TB, m *Manager, id ID, name, want string) {
	t.Helper()
	a, err := m.Acquire(t.Context(), id, Write)
	must(t, err)
	defer a.Release()
	f, err := a.Root.OpenFile(name, rootfs.O_RDONLY, 0)
	must(t, err)
	buf := make([]byte, 100)
	n, _ := f.ReadAt(buf, 0)
	must(t, f.Close())
	if string(buf[:n]) != want {
		t.Errorf("%s holds %q, want %q", name, buf[:n], want)
	}
}

func TestOverlayLife(t *testing.T) {
	w := newOverlaid(t)
	want := treeOf(t, filepath.Join(w.dir, "app"), ".git")
	m := w.open()
	e := ensure(t, m, "ctx_a")
	if !e.Seeded || e.Driver != overlayName() || e.Files != 60 || e.Layer == "" || e.Folder != w.folder("ctx_a") {
		t.Errorf("ensured %+v", e)
	}
	// The host may look into the folder at once.
	sameFiles(t, filepath.Join(e.Folder, "app"), want)
	ensure(t, m, "ctx_b")
	layers := treeOf(t, m.cat.Layout.Layers)
	put(t, m, "ctx_a", "app/d1/f1.txt", "changed")
	put(t, m, "ctx_a", "app/new", "new")
	sameTree(t, treeOf(t, m.cat.Layout.Layers), layers)
	sameFiles(t, filepath.Join(w.folder("ctx_b"), "app"), want)
	must(t, m.Close())
	w.wantMounted("after the stop", 0)
	if left, err := os.ReadDir(w.folder("ctx_a")); err != nil || len(left) != 0 {
		t.Errorf("the folder of a stopped server holds %v, %v", left, err)
	}
	m = w.open()
	wantFile(t, m, "ctx_a", "app/d1/f1.txt", "changed")
	wantFile(t, m, "ctx_a", "app/new", "new")
	w.wantMounted("after the first access", 1)
	if info, err := m.Get(t.Context(), "ctx_a"); err != nil || info.Generation != e.Generation || info.State != StateReady || info.Files != 60 {
		t.Errorf("after a restart it is %+v, %v", info, err)
	}
}

func TestOverlayStartsEmpty(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "unsafe_noctx_a")
	put(t, m, "unsafe_noctx_a", "first", "1")
	must(t, m.Close())
	m = w.open()
	wantFile(t, m, "unsafe_noctx_a", "first", "1")
}

func TestOverlayDelete(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		lazily bool
		before func(t *testing.T, w *workspace, m *Manager)
	}{
		{"in use by panels alone", false, func(*testing.T, *workspace, *Manager) {}},
		{"with a program in it", true, func(t *testing.T, w *workspace, _ *Manager) {
			f, err := os.Open(filepath.Join(w.folder("ctx_a"), "app/new"))
			must(t, err)
			t.Cleanup(func() { _ = f.Close() })
		}},
		{"with its folder gone", false, func(t *testing.T, w *workspace, _ *Manager) {
			must(t, unmount(w.folder("ctx_a"), unix.MNT_DETACH))
			must(t, os.Remove(w.folder("ctx_a")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newOverlaid(t)
			core, log := observer.New(zapcore.WarnLevel)
			w.driver = mounting(overlay.Options{Log: zap.New(core)})
			closed := false
			var held rootfs.File
			m := w.open(func(cfg *Config) {
				cfg.Events.Taken = func(id ID) { closed = id == "ctx_a" && held.Close() == nil }
			})
			ensure(t, m, "ctx_a")
			put(t, m, "ctx_a", "app/new", "new")
			a, err := m.Acquire(ctx, "ctx_a", Write)
			must(t, err)
			held, err = a.Root.OpenFile("app/new", rootfs.O_RDWR, 0)
			must(t, err)
			a.Release()
			c.before(t, w, m)
			if d, err := m.Delete(ctx, "ctx_a", nil); err != nil || d.Entries == 0 {
				t.Fatalf("deleted %+v, %v", d, err)
			}
			if told := log.FilterMessageSnippet("in use").Len() > 0; told != c.lazily {
				t.Errorf("the log says %v", log.All())
			}
			if !closed {
				t.Error("who holds files was not told")
			}
			w.wantMounted("after the deletion", 0)
			for _, p := range []string{w.folder("ctx_a"), m.cat.Layout.DriverState(overlayName(), "ctx_a")} {
				if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is left: %v", p, err)
				}
			}
			_, err = m.Acquire(ctx, "ctx_a", Write)
			wantCode(t, err, fserr.ESTALE)
			ensure(t, m, "ctx_a")
			if _, err := os.Lstat(filepath.Join(w.folder("ctx_a"), "app/new")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the new context has what the deleted one held: %v", err)
			}
		})
	}
}

func TestModesAreNeverMixed(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "ctx_overlay")
	put(t, m, "ctx_overlay", "app/new", overlayName())
	must(t, m.Close())
	w.driver, w.others = w.others[0], []driver.Driver{w.driver}
	m = w.open()
	ensure(t, m, "ctx_copy")
	put(t, m, "ctx_copy", "app/new", "copy")
	check := func(what string) {
		t.Helper()
		for id, d := range map[ID]string{"ctx_overlay": overlayName(), "ctx_copy": "copy"} {
			wantFile(t, m, id, "app/new", d)
			if info, err := m.Get(t.Context(), id); err != nil || info.Driver != d || info.Layer == "" || info.Files != 60 {
				t.Errorf("%s: %s is %+v, %v", what, id, info, err)
			}
		}
		w.wantMounted(what, 1)
	}
	check("copy is the default")
	must(t, m.Close())
	w.driver, w.others = w.others[0], []driver.Driver{w.driver}
	m = w.open()
	check("overlay is the default")
	must(t, m.Close())
	// The database is lost: the drivers' states on disk decide.
	w.store = memory.New()
	m = w.open()
	check("the records are lost")
}

// refusing is a driver that may not mount.
type refusing struct{ driver.Mounter }

func (refusing) Mount(context.Context, driver.Place) error {
	return &fserr.Error{Op: "mount", Code: fserr.EOPNOTSUPP, Detail: "this server cannot mount it", Hint: "run ctxfs as root"}
}

func TestServerThatCannotMount(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	put(t, m, "ctx_a", "app/new", "kept")
	ensure(t, m, "ctx_b")
	must(t, m.Close())
	able := mounting(overlay.Options{})
	w.driver = copyfs.New(copyfs.Options{})
	for _, c := range []struct {
		name   string
		others []driver.Driver
		words  string
	}{
		{"may not mount", []driver.Driver{refusing{able}}, "run ctxfs as root"},
		{"does not know the driver", nil, `made by the driver "` + overlayName() + `", which this server does not have`},
	} {
		w.others = c.others
		m := w.open()
		_, err := m.Acquire(t.Context(), "ctx_a", Write)
		wantCode(t, err, fserr.EOPNOTSUPP, "ctx_a", c.words)
		_, err = m.Ensure(t.Context(), "ctx_a", EnsureOptions{}, nil)
		wantCode(t, err, fserr.EOPNOTSUPP, c.words)
		if info, err := m.Get(t.Context(), "ctx_a"); err != nil || info.Driver != overlayName() {
			t.Errorf("%s: it is %+v, %v", c.name, info, err)
		}
		must(t, m.Close())
	}
	w.others = []driver.Driver{refusing{able}}
	m = w.open()
	if _, err := m.Delete(t.Context(), "ctx_b", nil); err != nil {
		t.Errorf("deleting needs no mount: %v", err)
	}
	must(t, m.Close())
	w.others = []driver.Driver{able}
	m = w.open()
	wantFile(t, m, "ctx_a", "app/new", "kept")
}

// TestLayerIsToldByTheManifest has a record that a crash kept from naming the layer.
func TestLayerIsToldByTheManifest(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	layer := ensure(t, m, "ctx_a").Layer
	must(t, m.Close())
	rec, err := w.store.Contexts().Get(t.Context(), "ctx_a")
	must(t, err)
	rec.Layer = ""
	must(t, w.store.Contexts().Update(t.Context(), rec))
	w.write("app/more", "x")
	m = w.open()
	ensure(t, m, "ctx_later") // the layer is no longer the newest
	must(t, m.Close())
	m = w.open()
	wantFile(t, m, "ctx_a", "app/d1/f1.txt", "content 1")
	if _, err := os.Stat(m.seeder.Layers.Tree(layer)); err != nil {
		t.Errorf("the layer is gone: %v", err)
	}
}

func TestLayerOfAContextStays(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	layer := ensure(t, m, "ctx_a").Layer
	must(t, m.Close())
	for _, lost := range []bool{false, true} {
		w.write("app/more", "x")
		if lost {
			w.store = memory.New()
		}
		m = w.open()
		ensure(t, m, ID("ctx_later"))
		if _, err := os.Stat(m.seeder.Layers.Tree(layer)); err != nil {
			t.Fatalf("records lost %t: the layer is gone: %v", lost, err)
		}
		wantFile(t, m, "ctx_a", "app/d1/f1.txt", "content 1")
		must(t, m.Close())
	}
	m = w.open()
	_, err := m.Delete(t.Context(), "ctx_a", nil)
	must(t, err)
	must(t, m.Close())
	m = w.open()
	if _, err := os.Stat(m.seeder.Layers.Tree(layer)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nobody uses the layer, and it is there: %v", err)
	}
}

func TestUntouchedContextsTakeNoSpace(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	layer := ensure(t, m, "ctx_0").Layer
	before := onDisk(t, m.cat.Layout.State)
	const contexts = 10
	for i := range contexts {
		if e := ensure(t, m, ID(fmt.Sprintf("ctx_%d", i+1))); e.Layer != layer {
			t.Errorf("%s stands on another layer", e.ID)
		}
	}
	if took := onDisk(t, m.cat.Layout.State) - before; took > contexts*32<<10 {
		t.Errorf("%d contexts take %d bytes", contexts, took)
	}
}

// onDisk is the space that a directory takes.
func onDisk(t testing.TB, dir string) int64 {
	t.Helper()
	n, err := disk.Use(context.Background(), dir)
	must(t, err)
	return n
}

// TestGitKnowsFilesAgain has git's index hold across a restart: an entry that is stat'ed as before is not read again.
func TestGitKnowsFilesAgain(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	folder := ensure(t, m, "ctx_a").Folder
	rel, err := filepath.Rel(w.dir, filepath.Join(folder, "app"))
	must(t, err)
	w.git(rel, "init", "-q", "-b", "main", ".")
	w.git(rel, "add", "-A")
	must(t, m.Close())
	m = w.open()
	ensure(t, m, "ctx_a")
	if out := w.git(rel, "diff-files", "--name-only"); out != "" { // it compares attributes alone
		t.Errorf("git would read again %q", out)
	}
	put(t, m, "ctx_a", "app/d1/f1.txt", "another length")
	if out := w.git(rel, "diff-files", "--name-only"); out != "d1/f1.txt\n" {
		t.Errorf("git would read again %q, want the file that was changed", out)
	}
}
