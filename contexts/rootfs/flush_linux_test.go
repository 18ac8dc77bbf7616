package rootfs_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

// TestFlushedFileIsFound flushes files by each way, in directories that were just made, and cuts the power.
func TestFlushedFileIsFound(t *testing.T) {
	d := powercut.New(t, 1)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, write := range map[string]func(root rootfs.Root, path string) error{
		"atomic": func(root rootfs.Root, path string) error {
			f, err := root.CreateAtomic(path, 0o600, false)
			if err != nil {
				return err
			}
			if _, err := f.Write([]byte("new")); err != nil {
				return err
			}
			return f.Commit(true)
		},
		"fsync": func(root rootfs.Root, path string) error {
			f, err := root.OpenFile(path, rootfs.O_WRONLY|rootfs.O_CREAT, 0o600)
			if err != nil {
				return err
			}
			if _, err := f.Write([]byte("new")); err != nil {
				return err
			}
			if err := f.Sync(false); err != nil {
				return err
			}
			return f.Close()
		},
		"fsync after rename": func(root rootfs.Root, path string) error {
			f, err := root.OpenFile(path+"~", rootfs.O_WRONLY|rootfs.O_CREAT, 0o600)
			if err != nil {
				return err
			}
			if _, err := f.Write([]byte("new")); err != nil {
				return err
			}
			if err := root.Rename(path+"~", path); err != nil {
				return err
			}
			if err := f.Sync(false); err != nil {
				return err
			}
			return f.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := filepath.Join(d.At, name)
			must(os.Mkdir(top, 0o700))
			d.Settle()
			for n := range 8 {
				root, err := rootfs.Open(top, rootfs.Options{})
				must(err)
				path := "/same/" + strconv.Itoa(n) + "/deep/file"
				_, err = root.MkdirAll(filepath.Dir(path), 0o755)
				must(err)
				must(write(root, path))
				must(write(root, "/same/file"))
				must(root.Close())
				d.Cut()
				d.Resume()
				for _, p := range []string{path, "/same/file"} {
					if data, err := os.ReadFile(filepath.Join(top, p)); err != nil || string(data) != "new" {
						t.Errorf("after cut %d %s is %q, %v", n, p, data, err)
					}
				}
			}
		})
	}
	root, err := rootfs.Open(d.At, rootfs.Options{})
	must(err)
	f, err := root.OpenFile("/removed", rootfs.O_WRONLY|rootfs.O_CREAT, 0o600)
	must(err)
	must(root.Unlink("/removed"))
	must(f.Sync(false)) // it has no name
	must(f.Close())
	must(root.Close())
}
