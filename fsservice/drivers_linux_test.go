package fsservice_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
)

// insideEnv says that the tests run within a context of the overlay driver.
const insideEnv = "CTXFS_TEST_INSIDE_OVERLAY"

// driverless are tests of locks, of the order of results and of bounds on memory. They spend four fifths of the time, and no driver
// changes what they show.
const driverless = "^Test(WholeReadsAndWrites|WriterWaits|ReadersDoNot|LockWait|UncontendedLock|Encode|EntryList|Grep.*(Batch|Bounds|Order))"

// TestOnAnOverlayContext runs the tests of this package again but for the driverless ones, with every folder that they make within
// a context of the overlay driver. A context of the copy driver is a plain folder, as
// those are that they make otherwise.
func TestOnAnOverlayContext(t *testing.T) {
	t.Parallel()
	if os.Getenv(insideEnv) != "" || namespacestest.Inside() {
		t.Skip("these tests are within one already")
	}
	within(t, overlay.New(overlay.Options{}))
}

// TestOnAContextInNamespaces does so in namespaces, as an ordinary user.
func TestOnAContextInNamespaces(t *testing.T) {
	t.Parallel()
	if os.Getenv(insideEnv) != "" || namespacestest.Inside() {
		t.Skip("these tests are within one already")
	}
	namespacestest.Run(t, "^TestOnAContextThere$")
}

func TestOnAContextThere(t *testing.T) {
	t.Parallel()
	if !namespacestest.Inside() || os.Getenv(insideEnv) != "" {
		t.Skip("run by TestOnAContextInNamespaces")
	}
	within(t, overlay.NewUserNS(overlay.Options{}))
}

// within runs this package's tests with every folder that they make within a context of d.
func within(t *testing.T, d *overlay.Driver) {
	t.Helper()
	namespacestest.Mounting(t)
	dir := t.TempDir()
	if err := d.Check(t.Context(), dir); err != nil {
		t.Skipf("not tested here: %v", err)
	}
	p := driver.Place{Layer: filepath.Join(dir, "layer"), State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "ctx")}
	for _, made := range []string{p.Layer, p.State} {
		if err := os.Mkdir(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Prepare(t.Context(), p.Layer, p.State, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Unmount(context.Background(), p.Folder, true); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.timeout=5m", "-test.skip="+driverless)
	cmd.Env = append(os.Environ(), insideEnv+"=1", "TMPDIR="+p.Folder)
	if namespacestest.Inside() {
		namespacestest.Keep(cmd)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
