package copyfs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/drivertest"
	"github.com/ctxfs/ctxfs/fserr"
)

func TestDriverOnFileSystems(t *testing.T) {
	drivertest.On(t, []string{"ext4", "xfs", "btrfs"}, func(t *testing.T) {
		drivertest.Run(t, func(*testing.T) driver.Driver { return copyfs.New(copyfs.Options{}) })
	})
}

// TestLayerWithAFIFOIsRefused, by either copier, at once.
func TestLayerWithAFIFOIsRefused(t *testing.T) {
	for _, byName := range []bool{false, true} {
		src := t.TempDir()
		must(t, unix.Mkfifo(filepath.Join(src, "fifo"), 0o600))
		err := copyfs.New(copyfs.Options{ByName: byName}).Prepare(t.Context(), src, t.TempDir(), nil)
		if fserr.CodeOf(err) != fserr.EIO {
			t.Errorf("by name %v: got %v, want EIO", byName, err)
		}
	}
}

// TestCopiesShareTheirExtents makes ten contexts of a workspace of 78 MB and changes none of them.
func TestCopiesShareTheirExtents(t *testing.T) {
	const files, size, copies = 600, 130_000, 10
	drivertest.On(t, []string{"xfs", "btrfs"}, func(t *testing.T) {
		dir := t.TempDir()
		src := filepath.Join(dir, "layer")
		must(t, os.Mkdir(src, 0o755))
		content := make([]byte, size)
		for i := range files {
			_, err := rand.Read(content)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(src, fmt.Sprint(i)), content, 0o644))
		}
		before := drivertest.Used(t, dir)
		for i := range copies {
			dst := filepath.Join(dir, fmt.Sprint("context", i))
			must(t, os.Mkdir(dst, 0o755))
			must(t, copyfs.New(copyfs.Options{}).Prepare(context.Background(), src, dst, nil))
		}
		took, bound := drivertest.Used(t, dir)-before, int64(files*size*copies/10)
		t.Logf("ten copies of %d bytes take %d", files*size, took)
		if took >= bound {
			t.Errorf("ten copies take %d bytes, want under %d", took, bound)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
