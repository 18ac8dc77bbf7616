package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/server"
)

// diskSize is small enough to fill, and room for the server's own state, in bytes.
const diskSize = 32 << 20

// disk is a small file system that a test may fill and remount.
type disk struct {
	*testing.T
	at string
	// how it is mounted: mount's arguments but the last.
	how []string
}

// onDisks runs test on each kind of file system that can be mounted here.
func onDisks(t *testing.T, test func(t *testing.T, d *disk)) {
	for name, mount := range map[string]func(t *testing.T) *disk{"ext4": plainExt4, "tmpfs": tmpfs} {
		t.Run(name, func(t *testing.T) { test(t, mount(t)) })
	}
}

// ext4 makes one; options are further ones of mkfs.ext4.
func ext4(t *testing.T, options ...string) *disk {
	t.Helper()
	dir := mountable(t)
	image := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, diskSize))
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", append(options, "-q", "-F", "-m", "0", image)...).CombinedOutput(); err != nil {
		t.Skipf("not tested on ext4: mkfs.ext4: %v %s", err, out)
	}
	return mounted(t, dir, "-o", "loop,errors=remount-ro", "-t", "ext4", image)
}

func tmpfs(t *testing.T) *disk {
	t.Helper()
	return mounted(t, mountable(t), "-t", "tmpfs", "-o", "size=32m", "tmpfs")
}

// mountable makes a place to mount at.
func mountable(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not tested: only root may mount a small disk")
	}
	dir, err := os.MkdirTemp("", "disk")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

func mounted(t *testing.T, at string, args ...string) *disk {
	t.Helper()
	d := &disk{t, at, args}
	if out, err := d.mount(); err != nil {
		t.Skipf("not tested: this machine cannot mount it: %s", strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Errorf("unmount %s: %v", at, err)
		}
	})
	return d
}

func (d *disk) mount() ([]byte, error) {
	return exec.CommandContext(d.Context(), "mount", append(slices.Clone(d.how), d.at)...).CombinedOutput()
}

// use puts the contexts there.
func (d *disk) use(c *server.Config) { c.ContextsDir = filepath.Join(d.at, "contexts") }

func (d *disk) ballast() string { return filepath.Join(d.at, "ballast") }

// fill leaves no block free; it can be called again.
func (d *disk) fill() {
	d.Helper()
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(d, err)
	defer func() { must(d, f.Close()) }()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	// Delayed allocation promises blocks; they are taken now.
	_ = f.Sync()
}

// free ends the fault.
func (d *disk) free() {
	d.Helper()
	must(d, os.Remove(d.ballast()))
}

// device is the loop device's name.
func (d *disk) device() string {
	d.Helper()
	out, err := exec.CommandContext(d.Context(), "findmnt", "-no", "SOURCE", d.at).Output()
	must(d, err)
	return filepath.Base(strings.TrimSpace(string(out)))
}

// again unmounts, repairs and mounts an ext4, as an operator would.
func (d *disk) again() {
	d.Helper()
	must(d, unix.Unmount(d.at, 0))
	// Its exit code says that it repaired something.
	_ = exec.CommandContext(d.Context(), "e2fsck", "-p", d.how[len(d.how)-1]).Run()
	out, err := d.mount()
	if err != nil {
		d.Fatalf("mount again: %v %s", err, out)
	}
}
