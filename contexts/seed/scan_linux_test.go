package seed

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadableFolderIsLeftOut scans a workspace as a user who may not read some folders of it.
func TestUnreadableFolderIsLeftOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user")
	}
	src := source(t, "app/.git/HEAD", "app/f", "app/closed/f", "app/listed/f", "lib/.git/HEAD", "lib/f")
	must(t, os.Chmod(filepath.Join(src.Dir, "app/closed"), 0o700))
	must(t, os.Chmod(filepath.Join(src.Dir, "app/listed"), 0o744))
	must(t, os.Chmod(filepath.Join(src.Dir, "lib"), 0o711))
	var scan *Scan
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // which ends with the goroutine
		if err = unix.Setfsuid(54321); err == nil {
			scan, err = Walk(t.Context(), src, Options{}, nil)
		}
	}()
	<-done
	must(t, err)
	var paths []string
	for _, e := range scan.Entries {
		paths = append(paths, e.Path)
	}
	if want := []string{"app", "app/f"}; !slices.Equal(paths, want) {
		t.Errorf("seeded %v, want %v", paths, want)
	}
	slices.Sort(scan.Unreadable)
	if want := []string{"app/closed", "app/listed", "lib"}; !slices.Equal(scan.Unreadable, want) {
		t.Errorf("unreadable %v, want %v", scan.Unreadable, want)
	}
	for _, s := range scan.Skipped {
		if s.Reason == notReadable && s.Entries == 3 && s.Files == -1 {
			return
		}
	}
	t.Errorf("skipped %v", scan.Skipped)
}
