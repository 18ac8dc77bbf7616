package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGarbageNamesWhatFailed has one leftover of two that the server cannot remove, since something is mounted in it.
func TestGarbageNamesWhatFailed(t *testing.T) {
	s := serve(t)
	staging := filepath.Join(s.dir, ".contexts/.ctxfs/staging")
	at := filepath.Join(staging, "context-stuck/mount")
	for _, dir := range []string{at, filepath.Join(staging, "context-left/dir")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("stuck", at, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("not tested here: mounting needs root: %v", err)
	}
	t.Cleanup(func() { // it may be in the trash
		_ = filepath.WalkDir(staging, func(path string, _ os.DirEntry, _ error) error {
			if filepath.Base(path) == "mount" {
				return unix.Unmount(path, unix.MNT_DETACH)
			}
			return nil
		})
	})
	code, out, errs := s.run("gc")
	if code != 1 || !strings.Contains(out, "context-left") || !strings.Contains(out, "removed: 1,") || strings.Contains(out, "context-stuck") {
		t.Errorf("exit %d, it printed\n%s", code, out)
	}
	if !strings.Contains(errs, "context-stuck: ") || !strings.Contains(errs, "EXDEV") {
		t.Errorf("it named the failure %q", errs)
	}
}
