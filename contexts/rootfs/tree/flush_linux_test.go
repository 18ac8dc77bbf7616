package tree_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
)

// TestPathsOnAnotherFileSystemAreFound mounts a file system in a tree: a flush of the tree's own does not reach it.
func TestPathsOnAnotherFileSystemAreFound(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "own/mounted"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", filepath.Join(top, "own/mounted"), "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("not tested: this user mounts no file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(filepath.Join(top, "own/mounted"), 0); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"own/file", "own/mounted/file"} {
		if err := os.WriteFile(filepath.Join(top, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := rootfs.Open(top, rootfs.Options{FollowMounts: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}()
	for p, want := range map[string]bool{
		"": true, "own": true, "own/file": true, "own/missing/file": true,
		"own/mounted": false, "own/mounted/file": false, "own/mounted/missing": false,
	} {
		if one, err := tree.OnOneFileSystem(root, []string{"own", p}); err != nil || one != want {
			t.Errorf("%q is on the tree's file system: %v, %v, want %v", p, one, err, want)
		}
	}
}
