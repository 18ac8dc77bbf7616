// Package servertest starts a real server on a real workspace, for tests of
// whatever talks to one over its socket.
package servertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/server"
)

// Workspace makes a git repository with a few files, by git, and returns its folder.
func Workspace(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
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
	Git(t, dir, "add", "README.md", "src")
	Git(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first")
	return dir
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
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.DiskReserve = workspace, 0
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(context.Background(), cfg, server.Deps{Version: "0.0.0-test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server did not stop")
		}
	})
	return s.Info().Addresses.Target()
}
