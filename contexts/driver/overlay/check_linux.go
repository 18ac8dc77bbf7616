package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/userns"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// facts are what decides whether a process may mount.
type facts struct {
	uid    int
	userns bool
	// caps are what it may do at once, permitted what it may take up.
	caps, permitted uint64
	seccomp         bool
}

func readFacts() facts {
	f := facts{uid: os.Geteuid(), userns: userns.RunningInUserNS(), caps: 1 << unix.CAP_SYS_ADMIN}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return f
	}
	if caps, err := strconv.ParseUint(statusField(status, "CapEff:"), 16, 64); err == nil {
		f.caps = caps
	}
	f.permitted = f.caps
	if caps, err := strconv.ParseUint(statusField(status, "CapPrm:"), 16, 64); err == nil {
		f.permitted = caps
	}
	f.seccomp = statusField(status, "Seccomp:") == "2"
	return f
}

func statusField(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// refusal says why a process may not mount, "" when it may try.
func (m mode) refusal(f facts) string {
	switch {
	case m.userns:
		return f.usernsRefusal()
	case f.userns:
		return "in a user namespace, where overlayfs cannot keep its notes"
	case f.caps&(1<<unix.CAP_SYS_ADMIN) != 0:
		return ""
	case f.uid != 0:
		return fmt.Sprintf("no CAP_SYS_ADMIN: ctxfs runs as uid %d, not root", f.uid)
	}
	return "no CAP_SYS_ADMIN"
}

func (f facts) usernsRefusal() string {
	switch {
	case !f.userns:
		return "not in a user namespace of its own, which 'ctxfs serve' and 'ctxfs run' make for it"
	case f.permitted&(1<<unix.CAP_SYS_ADMIN) == 0:
		return "no CAP_SYS_ADMIN in its user namespace"
	}
	return ""
}

// Check implements driver.Driver: it mounts a small tree under dir, changes it in the ways that
// need the kernel's and the file system's help, and removes it again. The tree is locked for as long, so
// that LeftChecks knows it from one whose process was killed.
func (d *Driver) Check(ctx context.Context, dir string) error {
	f := readFacts()
	if why := d.mode.refusal(f); why != "" {
		return errors.New("overlay driver: " + why)
	}
	probe, lock, err := makeProbe(dir)
	if err != nil {
		return fmt.Errorf("overlay driver: cannot write to the contexts directory: %w", fserr.CodeOf(err))
	}
	defer closeFD(lock)
	err = d.probe(ctx, probe)
	if e := clearProbe(probe); err == nil && e != nil {
		err = fmt.Errorf("cannot remove from the contexts directory: %w", fserr.CodeOf(e))
	}
	if err != nil {
		return fmt.Errorf("overlay driver: %w", explain(err, f, fileSystem(dir)))
	}
	return nil
}

// probePrefix begins the names of the trees of Check.
const probePrefix = rootfs.ReservedPrefix + "check-"

// makeProbe makes the directory of a Check and locks it.
func makeProbe(dir string) (probe string, lock int, err error) {
	for {
		probe, err = os.MkdirTemp(dir, probePrefix)
		if err != nil {
			return "", -1, err
		}
		lock, err = lockProbe(probe)
		if err == nil {
			return probe, lock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.ENOENT) { // else RemoveCheck was faster
			return "", -1, errors.Join(err, os.Remove(probe))
		}
	}
}

// lockProbe locks the directory of a Check: EWOULDBLOCK while its process lives.
func lockProbe(probe string) (lock int, err error) {
	lock, err = unix.Open(probe, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		closeFD(lock)
		return -1, err
	}
	return lock, nil
}

// LeftChecks implements driver.Mounter.
func (d *Driver) LeftChecks(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, stateError("scandir", err)
	}
	var left []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), probePrefix) {
			continue
		}
		if lock, err := lockProbe(filepath.Join(dir, e.Name())); err == nil {
			closeFD(lock)
			left = append(left, e.Name())
		}
	}
	return left, nil
}

// RemoveCheck implements driver.Mounter.
func (d *Driver) RemoveCheck(ctx context.Context, dir, name string) error {
	probe := filepath.Join(dir, name)
	lock, err := lockProbe(probe)
	if err != nil {
		return stateError("flock", err)
	}
	defer closeFD(lock)
	if err := d.Unmount(ctx, filepath.Join(probe, "folder"), true); err != nil {
		return err
	}
	if err := clearProbe(probe); err != nil {
		return stateError("rm", err)
	}
	return nil
}

// clearProbe removes what Check made. The kernel's work directory has mode 000, which rootfs knows how to open.
func clearProbe(probe string) error {
	root, err := rootfs.Open(probe, rootfs.Options{})
	if err != nil {
		return err
	}
	for _, name := range [...]string{"layer", "state", "folder"} {
		if _, e := root.RemoveAll(context.Background(), name); fserr.CodeOf(e) != fserr.ENOENT {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, root.Close(), os.Remove(probe))
}

func (d *Driver) probe(ctx context.Context, dir string) (err error) {
	p := driver.Place{Layer: filepath.Join(dir, "layer"), State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "folder")}
	if err := probeLayer(p.Layer); err != nil {
		return err
	}
	if err := os.Mkdir(p.State, 0o700); err != nil {
		return err
	}
	if err := d.Prepare(ctx, p.Layer, p.State, nil); err != nil {
		return err
	}
	if err := d.Mount(ctx, p); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Unmount(context.WithoutCancel(ctx), p.Folder, true)) }()
	if d.opts.probing != nil {
		d.opts.probing()
	}
	if d.mode.userns {
		return probeUserXattrs(p.Folder)
	}
	return probeFolder(p.Folder)
}

// probeLayer makes a directory, and a file with two names.
func probeLayer(layer string) error {
	if err := os.MkdirAll(filepath.Join(layer, "dir"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(layer, "one"), []byte("layer"), 0o644); err != nil {
		return err
	}
	return os.Link(filepath.Join(layer, "one"), filepath.Join(layer, "two"))
}

// probeFolder fails where redirect_dir or index, which the kernel drops without a word
// when the file system cannot keep them, do not work.
func probeFolder(folder string) error {
	one, two := filepath.Join(folder, "one"), filepath.Join(folder, "two")
	before, err := os.Lstat(one)
	if err != nil {
		return err
	}
	if err := os.WriteFile(one, []byte("changed"), 0o644); err != nil {
		return err
	}
	after, err := os.Lstat(one)
	if err != nil {
		return err
	}
	other, err := os.Lstat(two)
	switch {
	case err != nil:
		return err
	case !os.SameFile(before, after) || !os.SameFile(after, other):
		return errors.New("the file system of the contexts directory cannot keep inode numbers and hard links (index=on)")
	}
	if err := os.Rename(filepath.Join(folder, "dir"), filepath.Join(folder, "moved")); err != nil {
		return errors.New("the file system of the contexts directory cannot keep renamed directories (redirect_dir=on)")
	}
	return nil
}

// probeUserXattrs fails where a directory cannot be marked as one that hides what the layer has at its place.
func probeUserXattrs(folder string) error {
	dir := filepath.Join(folder, "dir")
	if err := os.WriteFile(filepath.Join(folder, "one"), []byte("changed"), 0o644); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("the file system of the contexts directory cannot keep user xattrs (userxattr): %w", fserr.CodeOf(err))
	}
	return nil
}

// fileSystem returns the magic number (statfs(2)) of what dir lies on, 0 when it cannot be told.
func fileSystem(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Type) //nolint:unconvert // the types differ between systems
}

// explain says in a person's words why a probe failed.
func explain(err error, f facts, fs int64) error {
	var kernel *kernelError
	if !errors.As(err, &kernel) {
		return err
	}
	switch {
	case fs == unix.OVERLAYFS_SUPER_MAGIC:
		return errors.New("the contexts directory lies on overlayfs itself, as in a container's own file system: put it on a volume (--contexts-dir)")
	case fs == unix.NFS_SUPER_MAGIC || fs == unix.FUSE_SUPER_MAGIC || fs == unix.MSDOS_SUPER_MAGIC:
		return fmt.Errorf("the file system of the contexts directory cannot carry it (%w): put it on a local disk (--contexts-dir)", kernel)
	case errors.Is(err, unix.ENODEV):
		return errors.New("the kernel has no overlayfs (modprobe overlay)")
	case errors.Is(err, unix.ENOSYS):
		return errors.New("the kernel is too old: Linux 5.8 or later is needed")
	case f.userns && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: Linux 5.11 or later is needed in a user namespace", kernel)
	case f.userns && forbidden(err) && namespaces.Forbids() != "":
		return fmt.Errorf("%w: %s", kernel, namespaces.Forbids())
	case errors.Is(err, unix.EPERM) && f.seccomp:
		return fmt.Errorf("%w (container seccomp)", kernel)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (a security module refuses)", kernel)
	}
	return kernel
}

func forbidden(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }

// The first namespaces of a machine (include/uapi/linux/nsfs.h). That of mounts has this number since Linux 6.18,
// and none had it before.
const (
	pidInit = "pid:[4026531836]"
	mntInit = "mnt:[4026531832]"
)

// Hidden says why mounts of this process would not be seen by everyone on the machine, "" when they
// would: in a container the host sees empty folders, in a mount namespace of its own
// (systemd's PrivateTmp, ProtectSystem and the like) everybody else does.
func Hidden() string {
	pid, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "/proc does not tell whether others would see its mounts"
	}
	mine, err1 := os.Readlink("/proc/self/ns/mnt")
	first, err2 := os.Readlink("/proc/1/ns/mnt")
	return hidden(pid, mine, first, errors.Join(err1, err2))
}

func hidden(pid, mine, first string, err error) string {
	switch {
	case !strings.HasPrefix(pid, "pid:["):
		return "/proc does not tell whether others would see its mounts"
	case pid != pidInit:
		return "in a container, whose mounts the host does not see"
	case mine == mntInit:
		return ""
	case err != nil:
		return "/proc/1 does not tell whether others would see its mounts"
	case mine != first:
		return "in a mount namespace of its own (a systemd sandbox?), whose mounts nobody else sees"
	}
	return ""
}
