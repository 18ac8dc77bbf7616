package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// TestContextUnmountedByHand has a panel with a file open in a context that an operator unmounts: its handle ends, and no call
// by path fails.
func TestContextUnmountedByHand(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, c *client.Client) {
		f, id := openPanel(t, c, "one")
		must(t, f.WriteFile("note", []byte("kept"), 0o644))
		file, err := f.Open("note")
		must(t, err)
		defer func() { _ = file.Close() }() // the server has closed it already
		info, err := c.GetContext(t.Context(), id)
		must(t, err)
		if info.GetDriver() != "overlay" {
			t.Skip("not tested here: this driver mounts nothing")
		}
		must(t, unix.Unmount(info.GetFolder(), unix.MNT_DETACH))
		clocktest.Await(t, "the handle from before is stale", func() bool {
			data, err := f.ReadFile("note")
			if err == nil && string(data) != "kept" {
				t.Fatalf("by path: %q, want what was written", data)
			}
			if err == nil {
				_, err = file.Stat()
			}
			// A mount namespace that another process makes at this moment has a copy of the mount, which keeps it busy for a while.
			code := fserr.CodeOf(err)
			if err != nil && code != fserr.EBUSY && code != fserr.ESTALE {
				t.Fatalf("the handle from before: %v, want ESTALE", err)
			}
			return code == fserr.ESTALE
		})
		wantContent(t, f, "note", "kept")
		if data, err := os.ReadFile(filepath.Join(info.GetFolder(), "note")); err != nil || string(data) != "kept" {
			t.Errorf("the host sees %q, %v", data, err)
		}
	})
}
