package contexts

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"
)

// TestTrashOfAGoneCallerIsLoggedAndCollected deletes a context with a mount in it, which cannot be removed, and leaves midway.
func TestTrashOfAGoneCallerIsLoggedAndCollected(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a tmpfs")
	}
	w := small(t)
	core, logs := observer.New(zap.WarnLevel)
	ctx, cancel := context.WithCancel(t.Context())
	m := w.open(func(cfg *Config) {
		cfg.Log = zap.New(core)
		cfg.Events.Step = func(phase string) {
			if phase == "trashed" {
				cancel()
			}
		}
	})
	ensure(t, m, "ctx_a")
	mounted := filepath.Join(w.folder("ctx_a"), "mounted")
	must(t, os.Mkdir(mounted, 0o700))
	must(t, unix.Mount("none", mounted, "tmpfs", 0, "size=64k"))
	_, err := m.Delete(ctx, "ctx_a", nil)
	must(t, err)
	inTime(t, "the log of the failure", func(ctx context.Context) error {
		for logs.FilterMessageSnippet("trash could not be emptied").Len() == 0 && ctx.Err() == nil {
			runtime.Gosched()
		}
		return ctx.Err()
	})
	trash, err := filepath.Glob(filepath.Join(m.cat.Layout.Staging, "trash-*", "folder", "mounted"))
	if err != nil || len(trash) != 1 {
		t.Fatalf("staging holds %v, %v", trash, err)
	}
	must(t, unix.Unmount(trash[0], 0))
	_, err = m.CollectGarbage(t.Context(), GarbageOptions{})
	must(t, err)
	wantSwept(t, m)
}
