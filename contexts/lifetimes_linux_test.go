package contexts

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// acquired opens a context and leaves it.
func acquired(m *Manager, id ID) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		a, err := m.Acquire(ctx, id, Read)
		if err == nil {
			a.Release()
		}
		return err
	}
}

// TestFirstAccessesDoNotWaitForEachOther blocks while one context's root is opened.
func TestFirstAccessesDoNotWaitForEachOther(t *testing.T) {
	w := small(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_b")
	must(t, m.Close())
	opening, hold := make(chan struct{}), make(chan struct{})
	m = w.open(func(c *Config) {
		c.OpenRoot = func(dir string, opts rootfs.Options) (rootfs.Root, error) {
			if filepath.Base(dir) == "ctx_a" {
				close(opening)
				<-hold
			}
			return rootfs.Open(dir, opts)
		}
	})
	first := make(chan error, 1)
	go func() { first <- acquired(m, "ctx_a")(context.Background()) }()
	<-opening
	inTime(t, "another context's first access", acquired(m, "ctx_b"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	inTime(t, "a caller who has gone", func(context.Context) error {
		wantCode(t, acquired(m, "ctx_a")(ctx), fserr.EAGAIN, "ctx_a")
		return nil
	})
	close(hold)
	must(t, <-first)
}

// heldMount is a driver whose Mount of one folder waits.
type heldMount struct {
	driver.Mounter
	name        string
	begun, hold chan struct{}
}

func (h heldMount) Mount(ctx context.Context, p driver.Place) error {
	if filepath.Base(p.Folder) == h.name {
		close(h.begun)
		<-h.hold
	}
	return h.Mounter.Mount(ctx, p)
}

// TestMountsDoNotWaitForEachOther has two servers of one workspace. One of them takes long to mount.
func TestMountsDoNotWaitForEachOther(t *testing.T) {
	w := newOverlaid(t)
	m := w.open()
	ensure(t, m, "ctx_a")
	ensure(t, m, "ctx_b")
	must(t, m.Close())
	slow := heldMount{mounting(overlay.Options{}), "ctx_a", make(chan struct{}), make(chan struct{})}
	other := w.open()
	m = w.open(func(c *Config) { c.Driver = slow })
	first := make(chan error, 1)
	go func() { first <- acquired(m, "ctx_a")(context.Background()) }()
	<-slow.begun
	inTime(t, "another context in this server", acquired(m, "ctx_b"))
	inTime(t, "another context in another server", acquired(other, "ctx_b"))
	// clock: the caller gives up, whenever that is
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := acquired(other, "ctx_a")(ctx); err == nil {
		t.Error("two servers mount one context at a time")
	}
	close(slow.hold)
	must(t, <-first)
	wantFile(t, other, "ctx_a", "app/d1/f1.txt", "content 1")
}

// TestUnmountedByHandWithFilesOpen: handles keep a mount that was ended lazily, and the kernel mounts an upper directory once.
func TestUnmountedByHandWithFilesOpen(t *testing.T) {
	w := newOverlaid(t)
	now := time.Now()
	taken := func(ID) {}
	m := w.open(func(c *Config) {
		c.Now = func() time.Time { return now }
		c.Events.Taken = func(id ID) { taken(id) }
	})
	ensure(t, m, "ctx_a")
	for _, inside := range []bool{false, true} {
		a, err := m.Acquire(t.Context(), "ctx_a", Write)
		must(t, err)
		handle, err := a.Root.OpenFile("app/d1/f1.txt", rootfs.O_RDWR, 0)
		must(t, err)
		closed := make(chan struct{})
		taken = func(ID) {
			must(t, handle.Close())
			close(closed)
		}
		if !inside {
			a.Release()
		}
		must(t, unmount(w.folder("ctx_a"), unix.MNT_DETACH))
		now = now.Add(2 * recheck)
		next := make(chan error, 1)
		go func() { next <- acquired(m, "ctx_a")(context.Background()) }()
		if inside {
			<-a.Closing().Done() // an operation that runs must end
			a.Release()
		}
		inTime(t, "the next access", func(ctx context.Context) error {
			select {
			case err := <-next:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		<-closed
		wantFile(t, m, "ctx_a", "app/d1/f1.txt", "content 1")
	}
}

// TestExclusiveUseGivesUp has an operation inside that does not end.
func TestExclusiveUseGivesUp(t *testing.T) {
	for _, c := range []struct {
		name string
		use  Use
		do   func(ctx context.Context, m *Manager) error
	}{
		{"delete", Read, func(ctx context.Context, m *Manager) error { _, err := m.Delete(ctx, "ctx_a", nil); return err }},
		{"restore", Read, func(ctx context.Context, m *Manager) error { _, err := m.Restore(ctx, "ctx_a", "s", nil); return err }},
		{"snapshot", Write, func(ctx context.Context, m *Manager) error { _, err := m.Snapshot(ctx, "ctx_a", "t"); return err }},
		{"fork", Write, func(ctx context.Context, m *Manager) error {
			_, err := m.Fork(ctx, "ctx_a", "ctx_b", EnsureOptions{})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := small(t).open(func(c *Config) { c.drainTime = 50 * time.Millisecond })
			ensure(t, m, "ctx_a")
			_, err := m.Snapshot(t.Context(), "ctx_a", "s")
			must(t, err)
			stuck, err := m.Acquire(t.Context(), "ctx_a", c.use)
			must(t, err)
			inTime(t, c.name, func(ctx context.Context) error {
				wantCode(t, c.do(ctx, m), fserr.EBUSY, "ctx_a", "1 operation", "50ms")
				return nil
			})
			if _, err := stuck.Root.Stat("/app/f"); err != nil {
				t.Errorf("the operation inside lost its root: %v", err)
			}
			inTime(t, "a reader afterwards", acquired(m, "ctx_a"))
			stuck.Release()
			inTime(t, c.name+" again", func(ctx context.Context) error { return c.do(ctx, m) })
		})
	}
}

// TestCloseLeavesAStuckOperation: what does not end when a server stops must not keep it.
func TestCloseLeavesAStuckOperation(t *testing.T) {
	m := small(t).open(func(c *Config) { c.closeTime = 50 * time.Millisecond })
	ensure(t, m, "ctx_a")
	stuck, err := m.Acquire(t.Context(), "ctx_a", Read)
	must(t, err)
	inTime(t, "closing", func(context.Context) error {
		wantCode(t, m.Close(), fserr.EBUSY, "ctx_a", "1 operation")
		return nil
	})
	if _, err := stuck.Root.Stat("/app/f"); err != nil {
		t.Errorf("the operation inside lost its root: %v", err)
	}
	must(t, stuck.Root.Close())
}
