package rootfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

func TestSub(t *testing.T) {
	t.Parallel()
	for _, implementation := range []string{"", "osroot"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "zone/deep"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, target := range map[string]string{"out": "/etc", "in": "zone", "zone/up": "../secret", "zone/top": "/deep"} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"secret", "file"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := rootfs.Open(dir, rootfs.Options{Implementation: implementation})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fserr.Code{
			"out": fserr.ELOOP, "in": fserr.ELOOP, "file": fserr.ENOTDIR, "none": fserr.ENOENT, "..": fserr.EINVAL, "": fserr.EINVAL, "zone/deep": fserr.EINVAL,
		} {
			if _, err := rootfs.Sub(root, name); fserr.CodeOf(err) != want {
				t.Errorf("%q: %q got %v, want %s", implementation, name, err, want)
			}
		}
		zone, err := rootfs.Sub(root, "zone")
		if err != nil {
			t.Fatal(err)
		}
		if err := root.Close(); err != nil {
			t.Fatal(err)
		}
		for p, want := range map[string]fserr.Code{"../secret": fserr.EACCES, "up": fserr.EACCES, "deep": 0, "top": 0} {
			if _, err := zone.Stat(p); (err != nil || want != 0) && fserr.CodeOf(err) != want {
				t.Errorf("%q: %q in the part got %v, want %v", implementation, p, err, want)
			}
		}
		if err := zone.Close(); err != nil {
			t.Error(err)
		}
	}
}
