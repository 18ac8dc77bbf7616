// Package servertest starts a real server on a real workspace, for tests of
// whatever talks to one over its socket.
package servertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/server"
)

// Workspace makes a git repository with a few files and an author, by git, and returns its folder.
func Workspace(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	fill(t, dir)
	return dir
}

// Folder is Workspace for a folder whose repository is at "app".
func Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	fill(t, filepath.Join(dir, "app"))
	return dir
}

func fill(t testing.TB, dir string) {
	t.Helper()
	for name, content := range map[string]string{
		"README.md": "# A workspace\n", "src/main.go": "package main\n", "node_modules/x/index.js": "x\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	Git(t, dir, "init", "-q", "-b", "main")
	Git(t, dir, "config", "user.name", "t")
	Git(t, dir, "config", "user.email", "t@example.com")
	Git(t, dir, "add", "README.md", "src")
	Git(t, dir, "commit", "-qm", "first")
}

// Git runs git in dir.
func Git(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// Start serves workspace until the test ends and returns the socket's address.
// change, which may be nil, alters the settings first.
func Start(t testing.TB, workspace string, change func(*server.Config)) string {
	t.Helper()
	return Run(t, workspace, change, server.Deps{}).Info().Addresses.Target()
}

// Running is a server that serves.
type Running struct {
	*server.Server
	// Stop ends it before the test does, and waits.
	Stop func()
}

// Run is Start with parts of the caller's choice, and gives the server.
func Run(t testing.TB, workspace string, change func(*server.Config), deps server.Deps) *Running {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.DiskReserve = workspace, 0
	if change != nil {
		change(&cfg)
	}
	deps.Version = "0.0.0-test"
	if deps.DrainTime == 0 {
		deps.DrainTime = time.Hour // a stop that waits for what it should end is found, on a machine of any speed
	}
	s, err := server.New(context.Background(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	r := &Running{Server: s, Stop: sync.OnceFunc(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(clocktest.Patience):
			t.Error("the server did not stop")
		}
	})}
	t.Cleanup(r.Stop)
	return r
}
