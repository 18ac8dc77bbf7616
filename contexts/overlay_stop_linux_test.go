package contexts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

func TestTwoServersOfOneWorkspace(t *testing.T) {
	w := newOverlaid(t)
	one, two := w.open(), w.open()
	ensure(t, one, "ctx_a")
	put(t, two, "ctx_a", "app/new", "two")
	must(t, one.Close())
	w.wantMounted("the other one serves", 1)
	wantFile(t, two, "ctx_a", "app/new", "two")
	if _, alone, err := two.cat.Locks.TryAlone(catalog.MountedLock); alone || err != nil {
		t.Errorf("another server could unmount what this one uses (%v)", err)
	}
	must(t, two.Close())
	w.wantMounted("both stopped", 0)
}

// TestServerThatHasJustMounted has no file open yet.
func TestServerThatHasJustMounted(t *testing.T) {
	w := newOverlaid(t)
	one, two := w.open(), w.open()
	ensure(t, one, "ctx_a")
	release, err := two.cat.Locks.Share(t.Context(), catalog.MountedLock)
	must(t, err)
	must(t, one.Close())
	w.wantMounted("another server uses it", 1)
	release()
	must(t, two.Close())
	w.wantMounted("both stopped", 0)
}

// TestStopDoesNotWaitForASlowDisk has each unmounting take longer than all may.
func TestStopDoesNotWaitForASlowDisk(t *testing.T) {
	w := newOverlaid(t)
	var passed atomic.Int64
	able := w.driver
	w.driver = slowly{mounting(overlay.Options{}), &passed}
	m := w.open(func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) } })
	for _, id := range []ID{"ctx_a", "ctx_b", "ctx_c"} {
		ensure(t, m, id)
	}
	must(t, m.Close())
	w.wantMounted("after the stop", 2)
	w.driver = able
	m = w.open()
	wantFile(t, m, "ctx_c", "app/d1/f1.txt", "content 1")
}

// slowly takes its time to unmount.
type slowly struct {
	driver.Mounter
	passed *atomic.Int64
}

func (s slowly) Unmount(ctx context.Context, folder string, lazily bool) error {
	s.passed.Add(int64(2 * unmountTime))
	return s.Mounter.Unmount(ctx, folder, lazily)
}

// TestStopWaitsForChildrenToExecute has a lock, and a mount, in use at first, as by a child of the server between fork and exec.
func TestStopWaitsForChildrenToExecute(t *testing.T) {
	w := newOverlaid(t)
	w.driver = busily{w.driver.(driver.Mounter), new(atomic.Int64)}
	m := w.open()
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_b")
	release, err := m.cat.Locks.Share(t.Context(), catalog.MountedLock)
	must(t, err)
	released := make(chan struct{})
	// clock: the child keeps the lock for a moment, however long that is
	time.AfterFunc(50*time.Millisecond, func() { release(); close(released) })
	must(t, m.Close())
	<-released
	w.wantMounted("after the stop", 0)
}

// busily finds the first mounts that it is asked to end in use.
type busily struct {
	driver.Mounter
	asked *atomic.Int64
}

func (b busily) Unmount(ctx context.Context, folder string, lazily bool) error {
	if b.asked.Add(1) <= 4 {
		return &fserr.Error{Code: fserr.EBUSY}
	}
	return b.Mounter.Unmount(ctx, folder, lazily)
}

// TestTwoProcessesMountOnce has the kernel refuse a second mount of one upper, were it tried.
func TestTwoProcessesMountOnce(t *testing.T) {
	w := newOverlaid(t)
	w.sqlite()
	var outs [3]strings.Builder
	var cmds []*exec.Cmd
	for i := range outs {
		cmd := w.child("ctx_a", "")
		cmd.Stdout = &outs[i]
		must(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, outs[i].String())
		}
	}
	w.wantMounted("all stopped", 0)
	wantFile(t, w.open(), "ctx_a", "app/d1/f1.txt", "content 1")
}

func TestProgramInAContextAtTheStop(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_b")
	f, err := os.OpenFile(filepath.Join(w.folder("ctx_a"), "app/log"), os.O_CREATE|os.O_RDWR, 0o644)
	must(t, err)
	must(t, m.Close())
	w.wantMounted("a program works in one", 1)
	_, err = f.WriteString("goes on")
	must(t, err)
	m = w.open()
	wantFile(t, m, "ctx_a", "app/log", "goes on")
	must(t, f.Close())
	must(t, m.Close())
	w.wantMounted("it ended", 0)
}

func TestUnmountedByHand(t *testing.T) {
	w := newOverlaid(t)
	now := time.Now()
	m := w.open(func(c *Config) { c.Now = func() time.Time { return now } })
	ensure(t, m, "ctx_a")
	put(t, m, "ctx_a", "app/new", "kept")
	before, err := m.Acquire(t.Context(), "ctx_a", Write)
	must(t, err)
	before.Release()
	must(t, unmount(w.folder("ctx_a"), unix.MNT_DETACH))
	now = now.Add(2 * recheck)
	wantFile(t, m, "ctx_a", "app/new", "kept")
	after, err := m.Acquire(t.Context(), "ctx_a", Write)
	must(t, err)
	after.Release()
	if after.Generation <= before.Generation {
		t.Errorf("the generation is %d, it was %d", after.Generation, before.Generation)
	}
}

func TestFolderRemovedByHandHoldsItsContext(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	put(t, m, "ctx_a", "app/new", "kept")
	must(t, m.Close())
	must(t, os.Remove(w.folder("ctx_a")))
	m = w.open()
	if info, err := m.Get(t.Context(), "ctx_a"); err != nil || info.State != StateReady {
		t.Errorf("it is %+v, %v", info, err)
	}
	if e := ensure(t, m, "ctx_a"); e.Seeded {
		t.Error("it was seeded anew")
	}
	wantFile(t, m, "ctx_a", "app/new", "kept")
}

func TestForeignMountAtAContext(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	must(t, m.Close())
	must(t, namespaces.WithCapabilities(func() error { return unix.Mount("elsewhere", w.folder("ctx_a"), "tmpfs", 0, "size=64k") }))
	t.Cleanup(func() { _ = unmount(w.folder("ctx_a"), unix.MNT_DETACH) })
	m = w.open()
	_, err := m.Acquire(t.Context(), "ctx_a", Write)
	wantCode(t, err, fserr.EBUSY, "something else (tmpfs)", "unmount it")
	_, err = m.Delete(t.Context(), "ctx_a", nil)
	wantCode(t, err, fserr.EBUSY, "something else (tmpfs)")
	must(t, unmount(w.folder("ctx_a"), 0))
	wantFile(t, m, "ctx_a", "app/d1/f1.txt", "content 1")
}

func TestMountOfAContextThatIsGone(t *testing.T) {
	w := newOverlaid(t)
	w.sqlite()
	w.killAt("ctx_a", stopHolding)
	w.wantMounted("after the kill", 1)
	must(t, os.Rename(filepath.Join(w.dir, ".contexts/.ctxfs", overlayName(), "ctx_a"), filepath.Join(w.dir, "aside")))
	m := w.open()
	w.wantMounted("after the start", 0)
	must(t, m.Close())
}

func TestKillWithFilesOpen(t *testing.T) {
	w := newOverlaid(t)
	w.sqlite()
	w.killAt("ctx_a", stopHolding)
	w.wantMounted("after the kill", 1)
	m := w.open()
	wantFile(t, m, "ctx_a", "app/d1/f1.txt", "acknowledged")
	must(t, m.Close())
	w.wantMounted("after the stop", 0)
	m = w.open()
	wantFile(t, m, "ctx_a", "app/d1/f1.txt", "acknowledged")
}

func TestKillOverlayAtEveryPhase(t *testing.T) {
	w := newOverlaid(t)
	w.sqlite()
	want := treeOf(t, filepath.Join(w.dir, "app"), ".git")
	for _, phase := range killPhases {
		if phase == "copying-midway" {
			continue // nothing is copied
		}
		w.write("app/round", phase)
		want["round"], _ = fingerprint(filepath.Join(w.dir, "app/round"))
		id := ID("ctx_" + phase)
		w.killAt(id, phase)
		w.afterKill(id, want)
	}
}

func TestKillDuringOverlayDelete(t *testing.T) {
	w := newOverlaid(t)
	w.sqlite()
	for _, c := range []struct {
		phase string
		state State
	}{{"hidden", StateReady}, {"trashed", StateMissing}} {
		m := w.open()
		ensure(t, m, "ctx_a")
		put(t, m, "ctx_a", "app/new", c.phase)
		must(t, m.Close())
		w.killAt("ctx_a", c.phase)
		m = w.open()
		info, err := m.Get(t.Context(), "ctx_a")
		must(t, err)
		if info.State != c.state {
			t.Errorf("killed when %s it is %s, want %s", c.phase, info.State, c.state)
		}
		if c.state == StateReady {
			wantFile(t, m, "ctx_a", "app/new", c.phase)
		}
		must(t, m.Close())
		w.wantMounted(c.phase, 0)
	}
}
