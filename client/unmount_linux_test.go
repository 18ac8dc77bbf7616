package client_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
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
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			data, err := f.ReadFile("note")
			if err == nil && string(data) != "kept" {
				t.Fatalf("by path: %q, want what was written", data)
			}
			if err == nil {
				_, err = file.Stat()
			}
			if fserr.CodeOf(err) == fserr.ESTALE {
				break
			}
			// A mount namespace that another process makes at this moment has a copy of the mount, which keeps it busy for a while.
			busy := fserr.CodeOf(err) == fserr.EBUSY
			if err != nil && !busy || time.Now().After(deadline) {
				t.Fatalf("the handle from before: %v, want ESTALE", err)
			}
		}
		wantContent(t, f, "note", "kept")
		if data, err := os.ReadFile(filepath.Join(info.GetFolder(), "note")); err != nil || string(data) != "kept" {
			t.Errorf("the host sees %q, %v", data, err)
		}
	})
}
