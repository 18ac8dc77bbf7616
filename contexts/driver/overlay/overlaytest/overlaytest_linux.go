// Package overlaytest runs a package's tests again in contexts of the overlay drivers.
package overlaytest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// env names the driver whose contexts Dir returns.
const env = "CTXFS_TEST_DIRS_OF"

// Driver is the name of the driver whose contexts Dir returns, "" while it returns plain directories.
func Driver() string { return os.Getenv(env) }

// Main is the first call in TestMain of a package that uses Run.
func Main() { namespacestest.Main() }

// Run runs the package's tests that match run again, with the directories of Dir in contexts of each overlay driver.
// For overlay-userns it runs them in namespaces, as an ordinary user. It skips a driver that cannot work here, and logs the reason.
func Run(t *testing.T, run string) {
	t.Helper()
	if Driver() != "" {
		t.Skip("these tests run in a driver's contexts already")
	}
	t.Run(overlay.Name, func(t *testing.T) {
		namespacestest.Mounting(t)
		if err := overlay.New(overlay.Options{}).Check(t.Context(), t.TempDir()); err != nil {
			t.Skipf("not tested here: %v", err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+run, "-test.timeout=8m")
		cmd.Env = append(os.Environ(), env+"="+overlay.Name)
		if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("no tests to run")) {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run(overlay.UserNSName, func(t *testing.T) { namespacestest.Run(t, run, env+"="+overlay.UserNSName) })
}

// mounter returns the driver that Driver names, and the error of its Check.
var mounter = sync.OnceValues(func() (*overlay.Driver, error) {
	d := overlay.New(overlay.Options{})
	if Driver() == overlay.UserNSName {
		d = overlay.NewUserNS(overlay.Options{})
	}
	dir, err := os.MkdirTemp("", "ctxfs")
	if err != nil {
		return nil, err
	}
	return d, errors.Join(d.Check(context.Background(), dir), os.RemoveAll(dir))
})

// Dir returns a new directory that fill has filled, if it is not nil. In a context, what fill makes belongs to the layer, so that the first
// write to a file copies it up.
func Dir(t testing.TB, fill func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	p := driver.Place{Layer: dir}
	if Driver() != "" {
		p = driver.Place{Layer: filepath.Join(dir, "layer"), State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "ctx")}
		must(t, errors.Join(os.Mkdir(p.Layer, 0o755), os.Mkdir(p.State, 0o755)))
	}
	if fill != nil {
		fill(p.Layer)
	}
	if Driver() == "" {
		return dir
	}
	d, err := mounter()
	if err != nil {
		t.Skipf("not tested here: %v", err)
	}
	must(t, d.Prepare(t.Context(), p.Layer, p.State, nil))
	must(t, d.Mount(t.Context(), p))
	t.Cleanup(func() {
		must(t, d.Unmount(context.Background(), p.Folder, true))
		// An ordinary user can neither list nor empty some of what a context leaves, the work directory first.
		must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if e != nil && e.IsDir() && os.Geteuid() != 0 {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		}))
	})
	return p.Folder
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
