package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/server"
)

// seeded is a directory that every context has from the start and that no lane changes. roundFile in it changes between
// rounds, so that each round makes new layers.
const (
	seeded    = "keep"
	roundFile = "keep/round"
)

// workspace is a repository with a directory for each lane, of files that are changed.
type workspace struct {
	dir    string
	layout contexts.Layout
	// committed is what the repository's commit holds, which templates are made of; templates are those, by hash, once it is known.
	committed tree
	templates map[string]tree
	// sweepTime is how long a server may take, after it accepts calls, to remove what the one before left.
	sweepTime time.Duration
}

func newWorkspace(t testing.TB, lanes []string) *workspace {
	t.Helper()
	return newWorkspaceAt(t, filepath.Join(t.TempDir(), "workspace"), lanes)
}

func newWorkspaceAt(t testing.TB, dir string, lanes []string) *workspace {
	t.Helper()
	w := &workspace{dir: dir, sweepTime: time.Minute}
	var files []string
	for _, l := range lanes {
		for _, f := range []string{"f0", "f1", "d0/x", "d0/y", "d1/s/z", "d1/x"} {
			files = append(files, l+"/"+f)
		}
	}
	for i := range 20 {
		files = append(files, fmt.Sprintf("%s/d%d/file%d", seeded, i%4, i))
	}
	for i, f := range files {
		w.write(t, f, fmt.Sprintf("seeded %s %d\n", f, i))
	}
	for _, l := range lanes {
		must(t, os.Symlink("f0", filepath.Join(w.dir, l, "l0")))
	}
	w.round(t, 0)
	w.addTemplates(t)
	layout, err := contexts.NewLayout(w.dir, "")
	must(t, err)
	w.layout = layout
	t.Cleanup(w.unmount)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *workspace) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// round makes the workspace another one than it was.
func (w *workspace) round(t testing.TB, n int) {
	t.Helper()
	w.write(t, roundFile, fmt.Sprintf("round %d\n", n))
}

// content is what a context that is made now gets.
func (w *workspace) content() (tree, error) {
	t, err := scan(w.dir)
	if err != nil {
		return nil, err
	}
	return t.without(".git").without(".contexts").asModel(), nil
}

// unmount ends what a server that was killed, after a test that failed, left mounted.
func (w *workspace) unmount() {
	mounts, _ := w.mounts()
	for _, id := range mounts {
		_ = syscall.Unmount(w.layout.Folder(contexts.ID(id)), syscall.MNT_DETACH)
	}
}

// checkState looks at what the service keeps for itself after a start.
func (w *workspace) checkState() error {
	staged := w.staging()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	// clock: it bounds a hang
	for deadline := time.Now().Add(w.sweepTime); staged != nil && time.Now().Before(deadline); staged = w.staging() {
		<-tick.C
	}
	return errors.Join(staged, w.layers())
}

// checkLeft finds what only a killed server leaves: folders and mounts of a driver's check, and locks and marks of contexts that
// are gone. It is called after an orderly stop.
func (w *workspace) checkLeft() error {
	probes, err := filepath.Glob(filepath.Join(w.layout.Dir, ".ctxfs-tmp-*"))
	for _, p := range probes {
		err = errors.Join(err, errors.New("a check of the driver left "+p))
	}
	entries, rerr := os.ReadDir(w.layout.Locks)
	err = errors.Join(err, rerr)
	for _, e := range entries {
		for _, suffix := range []string{".context.lock", ".using"} {
			id, ok := strings.CutSuffix(e.Name(), suffix)
			if _, serr := os.Lstat(w.layout.Folder(contexts.ID(id))); ok && serr != nil {
				err = errors.Join(err, errors.New("of a context that is gone, this is left: "+e.Name()))
			}
		}
	}
	return err
}

func (w *workspace) staging() error {
	entries, err := os.ReadDir(w.layout.Staging)
	for _, e := range entries {
		// The spare copies for new contexts are made from the start on.
		if e.Name() != "CACHEDIR.TAG" && !strings.HasPrefix(e.Name(), "pool") {
			err = errors.Join(err, errors.New("staging still holds "+e.Name()))
		}
	}
	return err
}

// layers checks that each layer is complete: its manifest is the one that it is named by, and the files are there.
func (w *workspace) layers() error {
	want, err := w.content()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(w.layout.Layers)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(w.layout.Layers, e.Name())
		if of, ok := w.templates[e.Name()]; ok {
			err = errors.Join(err, wholeTemplate(dir, of))
		} else {
			err = errors.Join(err, wholeLayer(dir, want.without(roundFile)))
		}
	}
	return err
}

func wholeLayer(dir string, want tree) error {
	_, digest, err := seed.Inspect(filepath.Join(dir, layer.ManifestName))
	if err != nil {
		return fmt.Errorf("a layer is half made: %w", err)
	}
	if digest != filepath.Base(dir) {
		return fmt.Errorf("layer %s has another manifest", filepath.Base(dir))
	}
	got, err := scan(filepath.Join(dir, "tree"))
	if err != nil {
		return err
	}
	if d := differ(want, got.without(roundFile)); d != "" {
		return fmt.Errorf("layer %.12s: %s", filepath.Base(dir), d)
	}
	return nil
}

// folder reads a context from the disk, past the server. A name that only the server uses is an error.
func (w *workspace) folder(id string) (tree, error) {
	got, err := scan(w.layout.Folder(contexts.ID(id)))
	if namespacestest.Inside() {
		got.identify(filepath.Join(w.layout.DriverState(server.DriverUserNS, contexts.ID(id)), "upper"))
	}
	for p := range got {
		if strings.Contains(p, rootfs.ReservedPrefix) {
			err = errors.Join(err, fmt.Errorf("context %s still holds %s", id, p))
		}
	}
	return got, err
}

// folders lists the contexts that have one.
func (w *workspace) folders() (map[string]bool, error) {
	out := map[string]bool{}
	entries, err := os.ReadDir(w.layout.Dir)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out[e.Name()] = true
		}
	}
	return out, err
}

// mounts lists the contexts that are mounted.
func (w *workspace) mounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	var out []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], w.layout.Dir+"/") {
			out = append(out, filepath.Base(f[4]))
		}
	}
	return out, err
}

// checkGone finds contexts and mounts that there should be none of.
func (w *workspace) checkGone(expected map[string]bool) error {
	folders, err := w.folders()
	mounts, merr := w.mounts()
	err = errors.Join(err, merr)
	for _, id := range mounts {
		if !expected[id] {
			err = errors.Join(err, errors.New(id+" is gone and still mounted"))
		}
	}
	for id := range folders {
		if !expected[id] {
			err = errors.Join(err, errors.New(id+" is there, which should not be"))
		}
	}
	return err
}
