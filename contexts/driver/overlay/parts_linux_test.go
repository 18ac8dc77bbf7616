package overlay

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// TestFreezeGivesTheMountBack has a program begin to use a context after NewPart, in a way that no unmount notices.
func TestFreezeGivesTheMountBack(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(t *testing.T, folder string) (check func())
	}{
		{"another mount namespace", func(t *testing.T, _ string) func() {
			cmd := exec.Command("cat")
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
			in, err := cmd.StdinPipe()
			must(t, err)
			must(t, cmd.Start())
			return func() { must(t, errors.Join(in.Close(), cmd.Wait())) }
		}},
		{"a watch", func(t *testing.T, folder string) func() {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
			must(t, err)
			_, err = unix.InotifyAddWatch(fd, folder, unix.IN_CREATE)
			must(t, err)
			return func() {
				must(t, os.WriteFile(filepath.Join(folder, "later"), nil, 0o600))
				buf := make([]byte, 512)
				n, err := unix.Read(fd, buf)
				if err != nil || binary.NativeEndian.Uint32(buf[4:]) != unix.IN_CREATE {
					t.Errorf("the watch reports %d bytes, %v", n, err)
				}
				closeFD(fd)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			namespacestest.Alone(t)
			dir := t.TempDir()
			d := New(Options{Parts: filepath.Join(dir, "parts"), MaxFlush: time.Hour})
			if err := d.Check(t.Context(), dir); err != nil {
				t.Skipf("not tested here: %v", err)
			}
			p := driver.Place{State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "folder")}
			must(t, os.Mkdir(p.State, 0o700))
			must(t, d.Prepare(t.Context(), "", p.State, nil))
			must(t, d.Mount(t.Context(), p))
			t.Cleanup(func() { must(t, d.Unmount(t.Context(), p.Folder, true)) })
			must(t, os.WriteFile(filepath.Join(p.Folder, "f"), []byte("1"), 0o600))
			var before, after unix.Stat_t
			must(t, unix.Stat(p.Folder, &before))
			part, err := d.NewPart(t.Context(), p)
			must(t, err)
			check := c.use(t, p.Folder)
			if err := d.Freeze(t.Context(), p, part); fserr.CodeOf(err) != fserr.EBUSY {
				t.Fatalf("got %v, want EBUSY", err)
			}
			must(t, unix.Stat(p.Folder, &after))
			if before.Dev != after.Dev || before.Ino != after.Ino {
				t.Errorf("the folder shows %d:%d, it showed %d:%d", after.Dev, after.Ino, before.Dev, before.Ino)
			}
			if _, err := d.NewPart(t.Context(), p); fserr.CodeOf(err) != fserr.EBUSY {
				t.Errorf("NewPart returns %v, want EBUSY", err)
			}
			check()
			part, err = d.NewPart(t.Context(), p)
			must(t, err)
			must(t, d.Freeze(t.Context(), p, part))
			if data, err := os.ReadFile(filepath.Join(p.Folder, "f")); err != nil || string(data) != "1" {
				t.Errorf("after the freeze f holds %q, %v", data, err)
			}
		})
	}
}
