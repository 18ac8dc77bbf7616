package catalog

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/gofrs/flock"
)

// TestLockOfARemovedFileDoesNotCount: it does not exclude a process that locks the new file of that name.
func TestLockOfARemovedFileDoesNotCount(t *testing.T) {
	l := FileLocks{Dir: t.TempDir()}
	f := l.file("a")
	if ok, err := f.TryLock(); err != nil || !ok || !hasName(f) {
		t.Fatalf("locked: %t, %v", ok, err)
	}
	defer func() { must(t, f.Close()) }()
	must(t, os.Remove(f.Path()))
	if hasName(f) {
		t.Error("the lock of a file without name counts")
	}
	release, ok, err := l.TryAlone("a")
	if err != nil || !ok {
		t.Fatalf("locked the new file: %t, %v", ok, err)
	}
	defer release()
	if hasName(f) {
		t.Error("the lock of the old file counts for the new one")
	}
	// named opens the file anew as long as the file that it has locked has lost its name.
	opened := 0
	again, err := named(func() *flock.Flock {
		opened++
		f := l.file("other")
		if opened == 1 {
			_, err := f.TryLock()
			must(t, err)
			must(t, os.Remove(f.Path()))
		}
		return f
	}, (*flock.Flock).TryLock)
	must(t, err)
	again()
	if opened != 2 {
		t.Errorf("opened %d times", opened)
	}
}

// TestLocks checks what the interface says of its methods.
func TestLocks(t *testing.T) {
	var l Locks = FileLocks{Dir: t.TempDir()}
	one, err := l.Share(t.Context(), "a")
	must(t, err)
	two, err := l.Share(t.Context(), "a")
	must(t, err)
	wantFree := func(want bool) {
		t.Helper()
		release, ok, err := l.TryAlone("a")
		if err != nil || ok != want {
			t.Errorf("taken alone: %t, %v; want %t", ok, err, want)
		}
		if ok {
			release()
		}
	}
	one()
	wantFree(false)
	if l.Held("a") {
		t.Error("a share is held alone")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Alone(ctx, "a"); err == nil {
		t.Error("taken alone beside a share, for a caller that gave up")
	}
	var freed atomic.Bool
	taken := make(chan error, 1)
	go func() {
		release, err := l.Alone(context.Background(), "a")
		if err == nil {
			if !freed.Load() || !l.Held("a") {
				t.Error("taken alone beside a share")
			}
			release()
		}
		taken <- err
	}()
	freed.Store(true)
	two()
	must(t, <-taken)
	wantFree(true)
	l.Sweep(func(name string) bool { return name == "a" })
	wantFree(true)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
