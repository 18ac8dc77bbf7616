package powercut

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is its own disk: with mountEnv naming a directory it shows a disk there, whose choices seedEnv determines.
const (
	mountEnv = "CTXFS_POWERCUT_MOUNT"
	seedEnv  = "CTXFS_POWERCUT_SEED"
)

// Main is for TestMain: in the process that serves a disk it does so and does not return. The disk is a process of its own, because one that
// reads its own FUSE file system may wait for itself.
func Main() {
	if at := os.Getenv(mountEnv); at != "" {
		if err := serve(at, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "powercut:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serve answers each line of in with one. "cut" has the disk fail and forget, "resume" shows what is left, "settle" flushes all.
func serve(at string, in io.Reader) error {
	seed, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64)
	if err != nil {
		return err
	}
	d := newDisk(seed)
	server, err := mount(d, at)
	if err != nil {
		return fmt.Errorf("mount FUSE: %w", err)
	}
	fmt.Println("mounted")
	for lines := bufio.NewScanner(in); lines.Scan(); fmt.Println("done") {
		switch lines.Text() {
		case "cut":
			d.cut()
		case "resume":
			// The caller has ended what uses the disk. The kernel may still be about to notice: it is not waited for.
			if err := unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
				return err
			}
			server.Wait()
			d.resume()
			if server, err = mount(d, at); err != nil {
				return err
			}
		case "settle":
			d.settle()
		}
	}
	return unix.Unmount(at, unix.MNT_DETACH)
}

// Disk is a disk that forgets at a cut what was not flushed.
type Disk struct {
	// At is where it is mounted.
	At string
	t  testing.TB
	in io.WriteCloser
	// hear reads the answers.
	hear *bufio.Scanner
	// device is the loop device in the disk's file, "" if there is none; inner is where the FUSE file system is then.
	device, inner string
}

// New mounts an empty disk. It skips the test where that is not possible.
func New(t testing.TB, seed uint64) *Disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not tested: only root mounts a disk")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("not tested: there is no FUSE: %v", err)
	}
	at, err := os.MkdirTemp("", "powercut")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(at)) })
	d := &Disk{At: filepath.Join(at, "disk"), t: t}
	mounted := d.At
	must(t, os.Mkdir(mounted, 0o755))
	cmd := exec.CommandContext(context.Background(), os.Args[0]) //nolint:gosec // the test's own binary
	cmd.Env = append(os.Environ(), mountEnv+"="+d.At, seedEnv+"="+strconv.FormatUint(seed, 10))
	cmd.Stderr = os.Stderr
	d.in, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		must(t, d.in.Close())
		if err := cmd.Wait(); err != nil {
			t.Errorf("the process that serves the disk: %v", err)
			_ = unix.Unmount(mounted, unix.MNT_DETACH) // which the process does, unless it failed
		}
	})
	d.hear = bufio.NewScanner(out)
	if !d.hear.Scan() {
		t.Skip("not tested: this machine cannot mount a FUSE file system; the reason is above")
	}
	return d
}

// NewBlocks mounts an empty ext4 of so many bytes on a disk: a cut forgets blocks that were not flushed. It skips the test where that is not
// possible.
func NewBlocks(t testing.TB, seed uint64, size int64) *Disk {
	t.Helper()
	d := New(t, seed)
	d.inner, d.At = d.At, filepath.Join(filepath.Dir(d.At), "ext4")
	must(t, os.Mkdir(d.At, 0o755))
	image := d.image()
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, size))
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image).CombinedOutput(); err != nil {
		t.Skipf("not tested: mkfs.ext4: %v %s", err, out)
	}
	must(t, flush(image))
	must(t, flush(d.inner)) // a cut leaves the image its name
	if err := d.attach(); err != nil {
		t.Skipf("not tested: this machine mounts no loop device: %v", err)
	}
	t.Cleanup(func() { must(t, d.detach()) })
	must(t, os.Remove(filepath.Join(d.At, "lost+found")))
	return d
}

func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *Disk) image() string { return filepath.Join(d.inner, "image") }

// attach mounts the ext4 on the disk's file.
func (d *Disk) attach() error {
	ctx := context.Background() // also after the test's own has ended
	out, err := exec.CommandContext(ctx, "losetup", "--find", "--show", d.image()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("losetup: %w: %s", err, out)
	}
	d.device = strings.TrimSpace(string(out))
	if out, err := exec.CommandContext(ctx, "mount", "-t", "ext4", d.device, d.At).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("mount: %w: %s", err, out), d.detach())
	}
	return nil
}

func (d *Disk) detach() error {
	if d.device == "" {
		return nil
	}
	ctx := context.Background() // as above
	err := unix.Unmount(d.At, unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) { // it is not mounted
		err = nil
	}
	if out, lerr := exec.CommandContext(ctx, "losetup", "--detach", d.device).CombinedOutput(); lerr != nil {
		err = errors.Join(err, fmt.Errorf("losetup: %w: %s", lerr, out))
	}
	d.device = ""
	return err
}

// Settle flushes all that programs wrote. It is for what a test sets up.
func (d *Disk) Settle() {
	d.t.Helper()
	f, err := os.Open(d.At)
	must(d.t, err)
	must(d.t, errors.Join(unix.Syncfs(int(f.Fd())), f.Close()))
	d.say("settle")
}

// Cut ends the power: from now on every operation fails, and what was not flushed is forgotten, by random choice.
func (d *Disk) Cut() { d.say("cut") }

// Resume mounts what is left, after a Cut. The caller has ended all programs that use the disk.
func (d *Disk) Resume() {
	d.t.Helper()
	if d.inner == "" {
		d.say("resume")
		return
	}
	must(d.t, d.detach())
	d.say("resume")
	must(d.t, d.attach())
}

func (d *Disk) say(line string) {
	d.t.Helper()
	if _, err := fmt.Fprintln(d.in, line); err != nil || !d.hear.Scan() {
		d.t.Fatalf("the disk does not answer to %q: %v", line, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
