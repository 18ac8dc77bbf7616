package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/flock"
	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/contexts"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestStopWithoutServerJSON has somebody remove the file while the server runs.
func TestStopWithoutServerJSON(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	if err := os.Remove(r.claim.layout.ServerJSON); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := r.wait(); err != nil {
		t.Errorf("the stop failed: %v", err)
	}
}

// TestStartWaitsForADyingServer has the lock held on after the process in server.json has ended, as the kernel does while it
// closes a killed process's files.
func TestStartWaitsForADyingServer(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	l, err := contexts.NewLayout(cfg.Workspace, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Make("1"); err != nil {
		t.Fatal(err)
	}
	dead := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for name, pid := range map[string]int{"the record of a dead process": dead.Process.Pid, "no record": 0} {
		t.Run(name, func(t *testing.T) {
			if pid != 0 {
				write(t, l.ServerJSON, `{"pid":`+strconv.Itoa(pid)+`}`)
			}
			lock := flock.New(filepath.Join(l.Locks, "server.lock"))
			if ok, err := lock.TryLock(); err != nil || !ok {
				t.Fatalf("lock: %v, %v", ok, err)
			}
			synctest.Test(t, func(t *testing.T) {
				time.AfterFunc(claimWait/2, func() { _ = lock.Close() })
				c, err := takeClaim(t.Context(), l)
				if err != nil {
					t.Fatalf("it did not wait: %v", err)
				}
				if err := c.release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestASecondServerIsRefusedAtOnce has one that lives: the second does not wait for it.
func TestASecondServerIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := takeClaim(t.Context(), r.claim.layout)
		var served *AlreadyServedError
		if !errors.As(err, &served) || served.PID != os.Getpid() {
			t.Errorf("got %v, want the other's pid", err)
		}
		if took := time.Since(begun); took > 2*claimPoll { // it is found alive twice
			t.Errorf("it took %s", took)
		}
	})
}

// TestRemovedSocketIsMadeAgain removes what clients find the server by. A connection of before stays.
func TestRemovedSocketIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	r.openPanel(t, "p")
	before := ctxfsv1.NewFsServiceClient(r.host(t))
	stat := func(c ctxfsv1.FsServiceClient) error {
		_, err := c.Stat(with(t, panelKey, "p"), &ctxfsv1.StatRequest{Path: "/"})
		return err
	}
	if err := stat(before); err != nil {
		t.Fatal(err)
	}
	removed := []string{r.Info().Addresses.Socket, r.claim.layout.ServerJSON}
	for _, name := range removed {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range removed {
		eventually(t, name+" is there again", func() bool {
			_, err := os.Lstat(name)
			return err == nil
		})
	}
	if err := errors.Join(stat(before), stat(ctxfsv1.NewFsServiceClient(r.host(t)))); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(r.Info().Addresses.Socket); err != nil || tooOpen(st, 0) {
		t.Errorf("the new socket: %v, %v", st, err)
	}
	r.stop()
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	for _, name := range removed {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left after the stop: %s, %v", name, err)
		}
	}
}

// TestMovedWorkspaceSaysSo moves the workspace of a server that runs.
func TestMovedWorkspaceSaysSo(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	r.openPanel(t, "p")
	r.openPanel(t, "other")
	files, host := ctxfsv1.NewFsServiceClient(r.host(t)), ctxfsv1.NewContextServiceClient(r.host(t))
	if _, err := host.ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.WriteFile(with(t, panelKey, "p"), &ctxfsv1.WriteFileRequest{Path: "/kept", Content: &ctxfsv1.WriteFileRequest_Text{Text: "kept"}}); err != nil {
		t.Fatal(err)
	}
	to := r.cfg.Workspace + "-moved"
	if err := os.Rename(r.cfg.Workspace, to); err != nil {
		t.Fatal(err)
	}
	const words = "was moved or removed after the server started; stop the server, and run 'ctxfs serve' where the workspace is now"
	eventually(t, "an open context says so", func() bool {
		_, err := files.Stat(with(t, panelKey, "p"), &ctxfsv1.StatRequest{Path: "/"})
		return err != nil && strings.Contains(err.Error(), words)
	})
	ensure := func() error {
		stream, err := host.EnsureContext(t.Context(), &ctxfsv1.EnsureContextRequest{ContextId: "ctx_new"})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	_, read := files.Stat(with(t, panelKey, "other"), &ctxfsv1.StatRequest{Path: "/"})
	_, gone := host.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_p", DiscardChanges: true})
	_, fork := host.Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: "ctx_p", NewContextId: "ctx_q"})
	for what, err := range map[string]error{"another context": read, "delete": gone, "fork": fork, "seed": ensure()} {
		t.Run(what, func(t *testing.T) { wantError(t, err, codes.Internal, "EIO", words) })
	}
	if why := r.notReady(); !strings.Contains(why, "moved or removed") {
		t.Errorf("/readyz says %q", why)
	}
	cfg := r.cfg
	cfg.Workspace = to
	if _, err := New(t.Context(), cfg, Deps{Version: "1"}); err == nil || !strings.Contains(err.Error(), "started for "+r.cfg.Workspace) {
		t.Errorf("a second server at the new place: %v", err)
	}
	r.stop()
	if err := r.wait(); err != nil {
		t.Errorf("the stop: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(to) })
	there := ctxfsv1.NewFsServiceClient(start(t, cfg).host(t))
	got, err := there.ReadFile(with(t, panelKey, "p"), &ctxfsv1.ReadFileRequest{Path: "/kept"})
	if err != nil || string(got.GetData()) != "kept" {
		t.Errorf("served at its new place: %q, %v", got.GetData(), err)
	}
}

// TestWorkspaceMovedBackIsServedOn moves it away for a while.
func TestWorkspaceMovedBackIsServedOn(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	r.openPanel(t, "p")
	files := ctxfsv1.NewFsServiceClient(r.host(t))
	stat := func() error {
		_, err := files.Stat(with(t, panelKey, "p"), &ctxfsv1.StatRequest{Path: "/"})
		return err
	}
	if err := stat(); err != nil {
		t.Fatal(err)
	}
	to := r.cfg.Workspace + "-moved"
	if err := os.Rename(r.cfg.Workspace, to); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says so", func() bool { return stat() != nil })
	if err := os.Rename(to, r.cfg.Workspace); err != nil {
		t.Fatal(err)
	}
	if err := stat(); err != nil {
		t.Errorf("moved back: %v", err)
	}
	if why := r.notReady(); why != "" {
		t.Errorf("/readyz says %q", why)
	}
}

// TestDatabaseLinkIsRefused puts links where SQLite would follow them.
func TestDatabaseLinkIsRefused(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		cfg := testConfig(t)
		cfg.Metadata = ""
		r := start(t, cfg)
		r.stop()
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
		elsewhere := write(t, filepath.Join(t.TempDir(), "elsewhere"), "not a database")
		db := r.claim.layout.DB + suffix
		if err := os.RemoveAll(db); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, db); err != nil {
			t.Skipf("not tested here: %v", err)
		}
		_, err := New(context.Background(), cfg, Deps{Version: "1"})
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%q: %v", suffix, err)
		}
		if data, err := os.ReadFile(elsewhere); err != nil || string(data) != "not a database" {
			t.Errorf("%q: what the link leads to became %q, %v", suffix, data, err)
		}
	}
}
