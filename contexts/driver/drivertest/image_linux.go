package drivertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// imageSize is what the file systems of images believe to have, in bytes; what they do not use takes no space.
const imageSize = 2 << 30

// fileSystems says how the file systems are made that contexts are tested on.
var fileSystems = map[string][]string{
	"ext4":  {"mkfs.ext4", "-q", "-F"},
	"xfs":   {"mkfs.xfs", "-q", "-f", "-m", "reflink=1"},
	"btrfs": {"mkfs.btrfs", "-q", "-f"},
}

// On runs test once with each of the file systems named (ext4, xfs, btrfs), mounted from an image: its temporary
// directories lie there. One that this machine cannot make or mount is skipped, and what is missing is said.
func On(t *testing.T, names []string, test func(t *testing.T)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", Image(t, name))
			test(t)
		})
	}
}

// Image makes a file system in a file and mounts it for the length of a test.
func Image(t testing.TB, name string) string {
	t.Helper()
	// TempDir would settle, for this test, where all its directories lie.
	dir, err := os.MkdirTemp("", "image-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	file, at := filepath.Join(dir, "image"), filepath.Join(dir, name)
	if os.Getuid() != 0 {
		t.Skipf("not tested on %s: only root may mount an image", name)
	}
	must(t, os.Mkdir(at, 0o755))
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, imageSize))
	mkfs := fileSystems[name]
	if _, err := exec.LookPath(mkfs[0]); err != nil {
		t.Skipf("not tested on %s: %s is not installed", name, mkfs[0])
	}
	run(t, append(mkfs, file)...)
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "loop", "-t", name, file, at).CombinedOutput(); err != nil {
		t.Skipf("not tested on %s: this machine cannot mount an image of it: %s", name, strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		// mount made the loop device to go with the mount.
		if err := unix.Unmount(at, 0); err != nil {
			t.Errorf("unmount the %s image: %v", name, err)
		}
	})
	return at
}

func run(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// Used is how many bytes the file system that holds dir has given away, once everything is written.
func Used(t testing.TB, dir string) int64 {
	t.Helper()
	d, err := os.Open(dir)
	must(t, err)
	defer func() { _ = d.Close() }()
	must(t, unix.Syncfs(int(d.Fd())))
	var st unix.Statfs_t
	must(t, unix.Fstatfs(int(d.Fd()), &st))
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}
