package contexts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/killtest"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
)

// The test binary is its own child: with childEnv naming a workspace it ensures a
// context there, and stops at the phase in stopEnv to be killed.
const (
	childEnv = "CTXFS_TEST_CHILD"
	stopEnv  = "CTXFS_TEST_STOP"
	idEnv    = "CTXFS_TEST_ID"
	// driverEnv names the driver of new contexts; copy when it is not set.
	driverEnv = "CTXFS_TEST_DRIVER"
	// plainCopies, as a driver, is copy without a count of its seedings: it makes a first context and its layer in one walk.
	plainCopies = "plain copies"
	// stopHolding stops with a file open in the context that was ensured.
	stopHolding = "holding"
)

// treePhases are those of writing the tree of a packed layer.
var treePhases = []string{"unpacked", "completed"}

// deletePhases are those of a deletion.
var deletePhases = []string{"hidden", "trashed"}

func child() int {
	ctx := context.Background()
	l, err := NewLayout(os.Getenv(childEnv), "")
	if err == nil {
		err = l.Make("0.1.0")
	}
	if err != nil {
		return childFailed(err)
	}
	store, err := sqlite.Open(ctx, l.DB)
	if err != nil {
		return childFailed(err)
	}
	defer func() { _ = store.Close() }()
	d := newCounting()
	cfg := Config{Workspace: l.Workspace, Store: store, Driver: d, Version: "0.1.0", Events: Events{Step: stopAt(os.Getenv(stopEnv))}}
	switch os.Getenv(driverEnv) {
	case overlay.Name:
		cfg.Driver = overlay.New(overlay.Options{Parts: l.Parts, MaxFlush: time.Hour})
	case overlay.UserNSName:
		cfg.Driver = overlay.NewUserNS(overlay.Options{})
	case plainCopies:
		cfg.Driver = copyfs.New(copyfs.Options{})
	}
	m, err := Open(ctx, cfg)
	if err != nil {
		return childFailed(err)
	}
	defer func() { _ = m.Close() }()
	id := ID(os.Getenv(idEnv))
	if done, err := liveOn(ctx, m, id, os.Getenv(stopEnv)); done || err != nil {
		return childFailed(err)
	}
	if slices.Contains(deletePhases, os.Getenv(stopEnv)) {
		if _, err := m.Delete(ctx, id, nil); err != nil {
			return childFailed(err)
		}
	}
	if strings.HasPrefix(string(id), "safe_tpl_") {
		if _, err := m.Templates().Resolve(ctx, "t"); err != nil {
			return childFailed(err)
		}
	}
	if _, err := m.Ensure(ctx, id, EnsureOptions{}, nil); err != nil {
		return childFailed(err)
	}
	switch stop := os.Getenv(stopEnv); {
	case stop == stopHolding:
		return holdFile(m, id)
	case slices.Contains(treePhases, stop): // written in the background
		if _, err := m.Origin(ctx, id); err != nil {
			return childFailed(err)
		}
	}
	fmt.Printf("ensured, seedings=%d\n", d.n.Load())
	return 0
}

// lifePhases are those of a fork, a snapshot and a restore of a context that is there.
var lifePhases = []string{"still", "forked", "fork-renamed", "snapshot-made", "restoring", "swapped"}

// liveOn does to a context what has a phase; done is false when nothing of these has.
func liveOn(ctx context.Context, m *Manager, id ID, phase string) (done bool, err error) {
	switch phase {
	case "still", "part-made", "frozen", "forked", "fork-renamed":
		_, err = m.Fork(ctx, id, id+"-fork", EnsureOptions{})
	case "snapshot-made":
		_, err = m.Snapshot(ctx, id, "late")
	case "restoring", "swapped":
		_, err = m.Restore(ctx, id, "s", nil)
	case "batch-journal", "batch-staged", "batch-recorded", "batch-begin", "batch-checked", "batch-done", "batch-finished", "batch-cleaned":
		err = runBatch(m, id)
	default:
		return false, nil
	}
	return true, err
}

// holdFile writes to a file of a context and waits for the kill, with the file open.
func holdFile(m *Manager, id ID) int {
	a, err := m.Acquire(context.Background(), id, Write)
	if err != nil {
		return childFailed(err)
	}
	f, err := a.Root.OpenFile("app/d1/f1.txt", rootfs.O_RDWR, 0)
	if err != nil {
		return childFailed(err)
	}
	if _, err := f.WriteAt([]byte("acknowledged"), 0); err != nil {
		return childFailed(err)
	}
	stopAt(stopHolding)(stopHolding)
	return 0
}

func childFailed(err error) int {
	fmt.Println("child:", err)
	return 1
}

// stopAt stops in a phase, to be killed there.
func stopAt(phase string) func(string) {
	return func(at string) {
		if at == phase {
			killtest.Stop(at)
		}
	}
}

func (w *workspace) child(id ID, stop string) *exec.Cmd { return w.childOf(id, stop, w.driver.Name()) }

func (w *workspace) childOf(id ID, stop, driver string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+w.dir, stopEnv+"="+stop, idEnv+"="+string(id), driverEnv+"="+driver)
	if namespacestest.Inside() {
		namespacestest.Keep(cmd)
	}
	return cmd
}

// killAt runs a child until it is at phase, and kills it there.
func (w *workspace) killAt(id ID, phase string) {
	w.t.Helper()
	killtest.At(w.t, w.child(id, phase), phase)
}

// killPhases are all steps of a seeding, and of a deletion, that a kill may hit.
var killPhases = []string{
	"locked", "recorded", "scanning", "scanned", "layering", "layer-manifested", "layered",
	"copying", "copying-midway", "copied", "manifested", "renamed", "ready",
}

func TestKillAtEveryPhase(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 200)
	must(t, os.Symlink("d1/f1.txt", filepath.Join(w.dir, "app/link")))
	w.repo("app")
	w.sqlite()
	want := treeOf(t, filepath.Join(w.dir, "app"), ".git")
	kills := 0
	for round := range 2 { // the second is beside contexts and layers that are there
		for _, phase := range killPhases {
			// A new file each time, so that the layer is built anew and every phase is passed.
			w.write("app/round", fmt.Sprint(round, phase))
			want["round"], _ = fingerprint(filepath.Join(w.dir, "app/round"))
			id := ID(fmt.Sprintf("ctx_%s-%d", phase, round))
			w.killAt(id, phase)
			kills++
			w.afterKill(id, want)
		}
	}
	if kills < 20 {
		t.Errorf("only %d kills", kills)
	}
}

// afterKill checks what the killed process left: the folder is complete or not
// there, and the next access serves it.
func (w *workspace) afterKill(id ID, want map[string]string) {
	w.t.Helper()
	ctx := context.Background()
	folder := filepath.Join(w.dir, ".contexts", string(id))
	_, mounts := w.driver.(driver.Mounter)
	if _, err := os.Lstat(folder); err == nil && !mounts {
		sameFiles(w.t, filepath.Join(folder, "app"), want)
	}
	m := w.open()
	a, err := m.Acquire(ctx, id, Write)
	switch {
	case err == nil:
		a.Release()
	case fserr.CodeOf(err) != fserr.ESTALE:
		w.t.Fatalf("after the kill %s answers %v, want ESTALE", id, err)
	}
	e := ensure(w.t, m, id)
	if e.State != StateReady {
		w.t.Fatalf("%s is %s", id, e.State)
	}
	sameFiles(w.t, filepath.Join(folder, "app"), want)
	wantSwept(w.t, m)
	info, err := m.Get(ctx, id)
	must(w.t, err)
	if info.State != StateReady || info.Files != int64(fileCount(want)) || info.Layer == "" {
		w.t.Errorf("got %+v, want ready with %d files", info, fileCount(want))
	}
	must(w.t, m.Close())
}

// sameFiles is sameTree but for the times of directories.
func sameFiles(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got, files := treeOf(t, dir), map[string]string{}
	for p, w := range want {
		if strings.HasPrefix(w, "d") {
			delete(got, p)
			continue
		}
		files[p] = w
	}
	sameTree(t, got, files)
}

func fileCount(tree map[string]string) int {
	n := 0
	for _, w := range tree {
		if !strings.HasPrefix(w, "d") {
			n++
		}
	}
	return n
}

func TestKillDuringDelete(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 50)
	w.repo("app")
	w.sqlite()
	m := w.open()
	ensure(t, m, "ctx_a")
	_, err := m.SetLabels(t.Context(), "ctx_a", map[string]string{"task": "1204"}, nil)
	must(t, err)
	must(t, m.Close())
	w.killAt("ctx_a", "trashed")
	m = w.open()
	info, err := m.Get(context.Background(), "ctx_a")
	must(t, err)
	if info.State != StateMissing {
		t.Errorf("half a deletion left state %s, want missing", info.State)
	}
	wantSwept(t, m)
	must(t, m.Close())
	w.killAt("ctx_a", "labelled") // while the context is made anew
	m = w.open()
	if e := ensure(t, m, "ctx_a"); len(e.Labels) > 0 {
		t.Errorf("the context that was made anew has the labels %v", e.Labels)
	}
}

func TestTwoProcessesSeedOnce(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.fill("app", 500)
	w.repo("app")
	w.sqlite()
	a, b := w.child("ctx_a", ""), w.child("ctx_a", "")
	var outA, outB strings.Builder
	a.Stdout, b.Stdout = &outA, &outB
	must(t, a.Start())
	must(t, b.Start())
	if err := a.Wait(); err != nil {
		t.Fatalf("%v: %s", err, outA.String())
	}
	if err := b.Wait(); err != nil {
		t.Fatalf("%v: %s", err, outB.String())
	}
	if n := strings.Count(outA.String()+outB.String(), "seedings=1"); n != 1 {
		t.Errorf("%d processes seeded, want 1: %s%s", n, outA.String(), outB.String())
	}
}
