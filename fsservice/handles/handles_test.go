package handles_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/handles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file counts how often it was closed.
type file struct {
	rootfs.File
	closed atomic.Int32
}

func (f *file) Close() error { f.closed.Add(1); return nil }

func open(t *testing.T, table *handles.Table, owner string, f *file) int32 {
	t.Helper()
	fd, err := table.Open(owner, func() (handles.Spec, error) { return handles.Spec{Context: "ctx_a", File: f}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestAnIdleHandleClosesAndOneInUseDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := handles.New(handles.Config{})
		defer func() { _ = table.Close() }()
		var idle, touched, busy file
		idleFD, touchedFD, busyFD := open(t, table, "p", &idle), open(t, table, "p", &touched), open(t, table, "p", &busy)
		_, endBusy, err := table.Use("p", busyFD, "")
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			time.Sleep(time.Minute)
			_, end, err := table.Use("p", touchedFD, "")
			if err != nil {
				t.Fatalf("a touched handle: %v", err)
			}
			end()
		}
		synctest.Wait()
		if got := idle.closed.Load(); got != 1 {
			t.Errorf("the idle file was closed %d times, want 1", got)
		}
		if touched.closed.Load() != 0 || busy.closed.Load() != 0 {
			t.Error("a file in use was closed")
		}
		_, _, err = table.Use("p", idleFD, "")
		if !errors.Is(err, fserr.EBADF) || !strings.Contains(err.Error(), "bad file descriptor 3 (closed after 5m idle)") {
			t.Errorf("idle handle: %v", err)
		}
		if table.Reaped() != 1 || table.Count() != 2 {
			t.Errorf("reaped %d, open %d; want 1 and 2", table.Reaped(), table.Count())
		}
		endBusy()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if busy.closed.Load() != 1 {
			t.Error("the handle stays open after its operation and the timeout")
		}
	})
}

func TestAHandleLivesAtLeastItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := handles.New(handles.Config{IdleTimeout: time.Minute})
		defer func() { _ = table.Close() }()
		var f file
		fd := open(t, table, "p", &f)
		time.Sleep(5900 * time.Millisecond) // just before a tick
		_, end, err := table.Use("p", fd, "")
		if err != nil {
			t.Fatal(err)
		}
		end()
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.closed.Load() != 0 {
			t.Error("closed before the timeout had passed")
		}
	})
}

func TestNumbersAreNeverUsedTwice(t *testing.T) {
	table := handles.New(handles.Config{})
	defer func() { _ = table.Close() }()
	first := open(t, table, "p", &file{})
	if err := table.CloseFD("p", first, ""); err != nil {
		t.Fatal(err)
	}
	second := open(t, table, "p", &file{})
	if n := table.CloseOwner("p"); n != 1 {
		t.Errorf("CloseOwner closed %d, want 1", n)
	}
	third := open(t, table, "p", &file{})
	if !(first < second && second < third) {
		t.Errorf("numbers %d, %d, %d do not rise", first, second, third)
	}
}

func TestOnlyTheOwnerAndItsContextFindAHandle(t *testing.T) {
	table := handles.New(handles.Config{})
	defer func() { _ = table.Close() }()
	fd := open(t, table, "p", &file{})
	for name, c := range map[string]struct {
		owner, context string
		fd             int32
		ok             bool
	}{
		"own":              {"p", "", fd, true},
		"own, named":       {"p", "ctx_a", fd, true},
		"a foreign owner":  {"q", "", fd, false},
		"another context":  {"p", "ctx_b", fd, false},
		"an unknown one":   {"p", "", fd + 1, false},
		"a field left out": {"p", "", 0, false},
	} {
		_, end, err := table.Use(c.owner, c.fd, c.context)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, fserr.EBADF) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			end()
		}
	}
}

func TestClosingWaitsForOperations(t *testing.T) {
	for name, closing := range map[string]func(*handles.Table, int32){
		"CloseFD":      func(table *handles.Table, fd int32) { _ = table.CloseFD("p", fd, "") },
		"CloseOwner":   func(table *handles.Table, _ int32) { table.CloseOwner("p") },
		"CloseContext": func(table *handles.Table, _ int32) { table.CloseContext("ctx_a") },
		"Close":        func(table *handles.Table, _ int32) { _ = table.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			table := handles.New(handles.Config{})
			defer func() { _ = table.Close() }()
			var f file
			fd := open(t, table, "p", &f)
			_, end, err := table.Use("p", fd, "")
			if err != nil {
				t.Fatal(err)
			}
			closing(table, fd)
			if f.closed.Load() != 0 {
				t.Fatal("closed underneath an operation")
			}
			if _, _, err := table.Use("p", fd, ""); err == nil {
				t.Error("found after it was closed")
			}
			end()
			if f.closed.Load() != 1 {
				t.Errorf("closed %d times after the operation, want 1", f.closed.Load())
			}
		})
	}
}

func TestADeletedContextsHandleIsStale(t *testing.T) {
	table := handles.New(handles.Config{})
	defer func() { _ = table.Close() }()
	fd := open(t, table, "p", &file{})
	if n := table.CloseContext("ctx_a"); n != 1 {
		t.Errorf("closed %d, want 1", n)
	}
	_, _, err := table.Use("p", fd, "")
	var e *fserr.Error
	if !errors.As(err, &e) || e.Code != fserr.ESTALE || e.Kind != fserr.KindContext {
		t.Errorf("got %v", err)
	}
}

func TestBounds(t *testing.T) {
	table := handles.New(handles.Config{PerOwner: 2, Total: 3})
	defer func() { _ = table.Close() }()
	refused := func(owner string) {
		t.Helper()
		_, err := table.Open(owner, func() (handles.Spec, error) { t.Error("opened beyond the bound"); return handles.Spec{}, nil })
		var e *fserr.Error
		if !errors.As(err, &e) || e.Code != fserr.EMFILE || e.Hint == "" {
			t.Errorf("%s: %v, want EMFILE with a hint", owner, err)
		}
	}
	fd := open(t, table, "p", &file{})
	open(t, table, "p", &file{})
	refused("p")
	open(t, table, "q", &file{})
	refused("q")
	if err := table.CloseFD("p", fd, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Open("q", func() (handles.Spec, error) { return handles.Spec{}, fserr.ENOENT }); !errors.Is(err, fserr.ENOENT) {
		t.Errorf("a failed open: %v", err)
	}
	open(t, table, "q", &file{}) // neither the closed one nor the failed open counts
}

func TestTheLastQuarterIsForOthers(t *testing.T) {
	table := handles.New(handles.Config{PerOwner: 100, Total: 16})
	defer func() { _ = table.Close() }()
	opened := func(owner string, n int) (fds []int32) {
		t.Helper()
		for range n {
			fds = append(fds, open(t, table, owner, &file{}))
		}
		return fds
	}
	refused := func(owner, words string) {
		t.Helper()
		_, err := table.Open(owner, func() (handles.Spec, error) { return handles.Spec{File: &file{}}, nil })
		if !errors.Is(err, fserr.EMFILE) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want EMFILE, %q", owner, err, words)
		}
	}
	greedy := opened("greedy", 12)
	refused("greedy", "fewer than your 12")
	opened("b", 2)
	opened("c", 2)
	refused("d", "16 handles open")
	for _, fd := range greedy[:10] {
		if err := table.CloseFD("greedy", fd, ""); err != nil {
			t.Fatal(err)
		}
	}
	opened("greedy", 6) // there is enough again
	refused("greedy", "fewer than your 8")
	opened("b", 1)
}

// TestPastPanelsHaveNoShare has 100 panels that closed all their handles, and one that took all it may. A new panel shares the
// last quarter with the one that has handles, not with the 100.
func TestPastPanelsHaveNoShare(t *testing.T) {
	const total, last = 64, 16
	table := handles.New(handles.Config{Total: total})
	defer func() { _ = table.Close() }()
	for i := range 100 {
		owner := fmt.Sprintf("past%d", i)
		if err := table.CloseFD(owner, open(t, table, owner, &file{}), ""); err != nil {
			t.Fatal(err)
		}
	}
	for range total - last {
		open(t, table, "greedy", &file{})
	}
	for range last {
		open(t, table, "new", &file{})
	}
}

// BenchmarkUse finds a handle, as each operation on one does.
func BenchmarkUse(b *testing.B) {
	table := handles.New(handles.Config{})
	defer func() { _ = table.Close() }()
	fd, err := table.Open("p", func() (handles.Spec, error) { return handles.Spec{Context: "ctx_a", File: &file{}}, nil })
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, end, err := table.Use("p", fd, "ctx_a")
		if err != nil {
			b.Fatal(err)
		}
		end()
	}
}

func TestManyOwnersAtOnce(t *testing.T) {
	table := handles.New(handles.Config{})
	defer func() { _ = table.Close() }()
	files := make([]file, 64)
	var wg sync.WaitGroup
	for i := range files {
		wg.Go(func() {
			owner := string(rune('a' + i%4))
			fd, err := table.Open(owner, func() (handles.Spec, error) { return handles.Spec{Context: "ctx_a", File: &files[i]}, nil })
			if err != nil {
				return // CloseOwner was faster; the table closed the file
			}
			for range 50 {
				_, end, err := table.Use(owner, fd, "")
				if err != nil {
					return // CloseOwner was faster
				}
				end()
			}
			if i%8 == 0 {
				table.CloseOwner(owner)
			}
		})
	}
	wg.Wait()
	table.CloseOwner("a")
	table.CloseContext("ctx_a")
	for i := range files {
		if n := files[i].closed.Load(); n != 1 {
			t.Errorf("file %d was closed %d times, want 1", i, n)
		}
	}
	if table.Count() != 0 || len(table.List("")) != 0 {
		t.Error("handles are left")
	}
}
