package client_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// eachDriver runs a test against a server of each driver that works here.
func eachDriver(t *testing.T, f func(t *testing.T, c *client.Client)) {
	t.Helper()
	for _, driver := range []string{"copy", "overlay"} {
		t.Run(driver, func(t *testing.T) {
			namespacestest.Mounting(t)
			ws := servertest.Workspace(t)
			if choice, err := server.ChooseDriver(t.Context(), driver, ws); err != nil || choice.Name != driver {
				t.Skipf("not tested here: %v", err)
			}
			address := servertest.Start(t, ws, func(c *server.Config) { c.Driver = driver })
			c, err := client.Dial(t.Context(), client.WithAddress(address), client.WithGetenv(func(string) string { return "" }))
			must(t, err)
			t.Cleanup(func() { must(t, c.Close()) })
			f(t, c)
		})
	}
}

func openPanel(t *testing.T, c *client.Client, id string) (f *client.FS, contextID string) {
	t.Helper()
	p, err := c.OpenPanel(t.Context(), id)
	must(t, err)
	return p.FS(), p.ContextID()
}

func wantContent(t *testing.T, f *client.FS, name, want string) {
	t.Helper()
	if data, err := f.ReadFile(name); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v, want %q", name, data, err, want)
	}
}

func TestForkSnapshotRestore(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, c *client.Client) {
		one, oneID := openPanel(t, c, "one")
		must(t, one.WriteFile("note", []byte("first"), 0o644))
		file, err := one.OpenFile("note", os.O_RDWR, 0)
		must(t, err)
		_, err = c.Snapshot(t.Context(), oneID, "before")
		must(t, err)
		forked, err := c.ForkForPanel(t.Context(), oneID, "two")
		must(t, err)
		two, twoID := openPanel(t, c, "two")
		if twoID != forked.GetContextId() || forked.GetForkedFrom() != oneID {
			t.Errorf("the panel got %s, the fork is %v", twoID, forked)
		}
		_, err = file.WriteAt([]byte("FIRST"), 0)
		must(t, err)
		must(t, two.WriteFile("note", []byte("second"), 0o644))
		wantContent(t, one, "note", "FIRST")
		wantContent(t, two, "note", "second")

		restored, err := c.Restore(t.Context(), oneID, "before", client.DiscardChanges)
		must(t, err)
		wantContent(t, one, "note", "first")
		_, err = file.ReadAt(make([]byte, 1), 0)
		if fserr.CodeOf(err) != fserr.ESTALE || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a handle from before the restore: %v, want ESTALE", err)
		}
		_ = file.Close() // what is stale is closed already
		wantContent(t, two, "note", "second")

		must(t, two.WriteFile("big", make([]byte, 1<<20), 0o644))
		measured, err := c.MeasureContext(t.Context(), twoID)
		if err != nil || measured.GetOwnBytes() < 1<<20 {
			t.Errorf("measured %v, %v", measured, err)
		}
		list, err := c.ListSnapshots(t.Context(), oneID)
		if err != nil || len(list) != 1 || list[0].GetName() != "before" || list[0].GetCreatedNs() == 0 {
			t.Errorf("the snapshots are %v, %v", list, err)
		}
		must(t, c.DeleteSnapshot(t.Context(), oneID, "before"))
		_, err = c.Restore(t.Context(), oneID, "before", client.DiscardChanges)
		if fserr.CodeOf(err) != fserr.ENOENT {
			t.Errorf("restoring what was deleted: %v", err)
		}
		if restored.GetGeneration() != 2 {
			t.Errorf("generation %d after one restore", restored.GetGeneration())
		}
		removed, err := c.CollectGarbage(t.Context(), &ctxfsv1.CollectGarbageRequest{ContextIdleSeconds: 1})
		if err != nil || len(removed) != 0 {
			t.Errorf("collected %v, %v, where all is in use", removed, err)
		}
	})
}

// TestWritersOverForks writes through clients of every kind while the context is forked: each fork has what was
// acknowledged before it was asked for, and nothing that was begun after it was there.
func TestWritersOverForks(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, c *client.Client) {
		f, id := openPanel(t, c, "one")
		handle, err := f.Create("handle")
		must(t, err)
		writers := map[string]func(text string) error{
			"path":   func(text string) error { return f.WriteFile("path", []byte(text), 0o644) },
			"handle": func(text string) error { _, err := handle.WriteAt([]byte(text), 0); return err },
			"rename": func(text string) error {
				if err := f.WriteFile("new", []byte(text), 0o644); err != nil {
					return err
				}
				return f.Rename("new", "rename")
			},
			"append": func(string) error { return f.AppendFile("append", []byte("12345678\n"), 0o644) },
		}
		ledgers := map[string]*ledger{}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for name, write := range writers {
			l := &ledger{}
			ledgers[name] = l
			wg.Go(func() { l.run(stop, write) })
		}
		for _, l := range ledgers {
			l.reach(1)
		}
		var forks [][2]map[string]int
		for i := range 5 {
			before := marks(ledgers)
			_, err := c.ForkForPanel(t.Context(), id, fmt.Sprint("fork", i))
			must(t, err)
			forks = append(forks, [2]map[string]int{before, marks(ledgers)})
		}
		close(stop)
		wg.Wait()
		for i, acknowledged := range forks {
			fork, _ := openPanel(t, c, fmt.Sprint("fork", i))
			for name, l := range ledgers {
				must(t, l.err)
				data, err := fork.ReadFile(name)
				must(t, err)
				n := numberIn(t, name, data)
				// One more than acknowledged may have been made already.
				if n < acknowledged[0][name] || n > acknowledged[1][name]+1 {
					t.Errorf("fork %d has %s of %d, acknowledged were %d before and %d after", i, name, n, acknowledged[0][name], acknowledged[1][name])
				}
			}
		}
		must(t, handle.Close())
	})
}

// ledger counts the writes that were acknowledged.
type ledger struct {
	mu   sync.Mutex
	cond *sync.Cond
	n    int
	err  error
}

func (l *ledger) run(stop <-chan struct{}, write func(string) error) {
	for n := 1; ; n++ {
		err := write(fmt.Sprintf("%08d", n))
		l.mu.Lock()
		l.n, l.err = n, err
		if l.cond != nil {
			l.cond.Broadcast()
		}
		l.mu.Unlock()
		select {
		case <-stop:
			return
		default:
		}
		if err != nil {
			return
		}
	}
}

// reach waits until n writes were acknowledged, or one failed.
func (l *ledger) reach(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cond == nil {
		l.cond = sync.NewCond(&l.mu)
	}
	for l.n < n && l.err == nil {
		l.cond.Wait()
	}
}

func marks(ledgers map[string]*ledger) map[string]int {
	out := map[string]int{}
	for name, l := range ledgers {
		l.mu.Lock()
		out[name] = l.n
		l.mu.Unlock()
	}
	return out
}

// numberIn is the write that a file shows: the number in it, or how many lines were appended.
func numberIn(t *testing.T, name string, data []byte) (n int) {
	t.Helper()
	if name == "append" {
		if len(data)%9 != 0 {
			t.Errorf("%s is torn: %d bytes", name, len(data))
		}
		return len(data) / 9
	}
	if _, err := fmt.Sscanf(string(data), "%08d", &n); err != nil {
		t.Errorf("%s is torn: %q", name, data)
	}
	return n
}
