package overlay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// mountpointMode keeps everybody but root from writing under a context that is not mounted.
const mountpointMode = 0o555

// Mount implements driver.Mounter.
func (d *Driver) Mount(ctx context.Context, p driver.Place) error {
	if err := ctx.Err(); err != nil {
		return &fserr.Error{Op: "mount", Code: fserr.CodeOf(err), Err: err}
	}
	if err := d.mode.fits(readFacts()); err != nil {
		return err
	}
	dirs, err := d.openDirs(p)
	if err != nil {
		return err
	}
	defer dirs.close()
	if d.Lost(p.State) {
		return lostError("mount")
	}
	source, err := dirs.source(d.mode.source)
	if err != nil {
		return stateError("mount", err)
	}
	if err := makeMountpoint(p.Folder); err != nil {
		return stateError("mount", err)
	}
	there, err := d.heal(ctx, p.Folder, source)
	if err != nil || there {
		return err
	}
	if err := d.sweep(ctx, p); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(p.State, keptName)); errors.Is(err, os.ErrNotExist) {
		_ = d.markKept(p.State) // of an earlier version's state; a full disk is no reason not to mount it
	}
	attach := func() error { return d.attach(ctx, p, dirs, source) }
	err = namespaces.WithCapabilities(attach)
	if !errors.Is(err, unix.ESTALE) {
		return err
	}
	// Overlayfs knows directories by their inodes. The layer is the right one, whatever its inodes: its name says what it holds.
	d.opts.Log.Sugar().Warnw("a context that was copied from elsewhere is taken over; hard links of the layer in directories that the context renamed may have come apart",
		"state", p.State)
	if err := d.join(ctx, p); err != nil {
		return stateError("mount", err)
	}
	if err := settle(ctx, p.State); err != nil {
		return err
	}
	return namespaces.WithCapabilities(attach)
}

// fits refuses what the kernel would do, and do otherwise than when the context was made: an upper
// directory of one mode is never mounted by the other.
func (m mode) fits(f facts) error {
	switch {
	case m.userns == f.userns:
		return nil
	case m.userns:
		return &fserr.Error{
			Op: "mount", Code: fserr.EOPNOTSUPP, Detail: "this server cannot mount it: it is not in a user namespace",
			Hint: "serve the workspace with --driver " + m.name + ", as the user who made it; the context's files are kept",
		}
	}
	return &fserr.Error{
		Op: "mount", Code: fserr.EOPNOTSUPP, Detail: "this server cannot mount it: it is in a user namespace",
		Hint: "serve the workspace as root and outside of user namespaces, without --driver " + UserNSName + "; the context's files are kept",
	}
}

func makeMountpoint(folder string) error {
	err := os.Mkdir(folder, mountpointMode)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// attach makes the file system and puts it at the folder.
func (d *Driver) attach(ctx context.Context, p driver.Place, dirs *dirs, source string) error {
	d.warnOfHidden(p.Folder)
	mnt, err := whenFree(ctx, func() (int, error) { return d.create(dirs, source) })
	if err != nil {
		return mountError(err)
	}
	defer closeFD(mnt)
	return putAt(mnt, p.Folder)
}

// A sandbox or a container that starts copies all mounts into its mount namespace, and drops the copies a moment later. Until then a mount is
// in use there, as is an upper directory that was unmounted here. busyTime bounds the wait for that, busyPause is the time between two tries.
const busyTime, busyPause = time.Second, 10 * time.Millisecond

// whenFree repeats a mount, or an unmount, that fails with EBUSY, for busyTime at most.
func whenFree(ctx context.Context, change func() (int, error)) (int, error) {
	limit := time.NewTimer(busyTime)
	defer limit.Stop()
	for {
		mnt, err := change()
		if !errors.Is(err, unix.EBUSY) {
			return mnt, err
		}
		select {
		case <-time.After(busyPause):
		case <-limit.C:
			return mnt, err
		case <-ctx.Done():
			return mnt, err
		}
	}
}

// putAt puts a mount that is nowhere yet at a folder.
func putAt(mnt int, path string) error {
	folder, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return stateError("mount", err)
	}
	defer closeFD(folder)
	if err := unix.MoveMount(mnt, "", folder, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return mountError(&kernelError{call: "move_mount", err: err})
	}
	// Under a shared mount the new one has become shared too. Other mount namespaces should see the context,
	// but no mounts within it.
	private := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(mnt, "", unix.AT_EMPTY_PATH, &private); err != nil && !errors.Is(err, unix.ENOSYS) {
		return mountError(&kernelError{call: "mount_setattr", err: err})
	}
	return nil
}

// warnOfHidden logs a warning if the folder has files that were written while the context was not mounted.
func (d *Driver) warnOfHidden(folder string) {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		d.opts.Log.Sugar().Warnw("files that were written while the context was not mounted are hidden by it",
			"folder", folder, "entries", len(entries))
	}
}

// dirs are the directories of a mount, open as O_PATH. The first of lowers is the uppermost.
type dirs struct {
	upper, work int
	lowers      []int
}

func (d *Driver) openDirs(p driver.Place) (*dirs, error) {
	parts, err := d.PartsOf(p.State)
	if err != nil {
		return nil, err
	}
	out := &dirs{upper: -1, work: -1}
	err = out.open(d, p, parts)
	if err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

func (d *dirs) open(in *Driver, p driver.Place, parts []string) (err error) {
	const damaged = "the context's state is damaged"
	if d.upper, err = openDir(filepath.Join(p.State, upperName), "what the context holds is gone"); err != nil {
		return err
	}
	if d.work, err = openDir(filepath.Join(p.State, workName), damaged); err != nil {
		return err
	}
	for _, name := range parts {
		if err := d.lower(filepath.Join(in.part(name), upperName), "a part of what the context holds is gone"); err != nil {
			return err
		}
	}
	if p.Layer == "" {
		return d.lower(filepath.Join(p.State, lowerName), damaged)
	}
	return d.lower(p.Layer, "the layer that the context stands on is gone")
}

// lower opens a further lower directory.
func (d *dirs) lower(path, gone string) error {
	fd, err := openDir(path, gone)
	if err == nil {
		d.lowers = append(d.lowers, fd)
	}
	return err
}

// openDir opens a directory of a context. gone says what it means if there is none.
func openDir(path, gone string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fserr.Error{Op: "mount", Code: fserr.EIO, Detail: gone, Hint: restoreHint, Err: err}
	}
	return fd, nil
}

func (d *dirs) close() {
	for _, fd := range append(d.lowers, d.upper, d.work) {
		if fd >= 0 {
			closeFD(fd)
		}
	}
}

// source names the upper directory; its inode cannot be given to another as long as a mount holds it.
func (d *dirs) source(prefix string) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.upper, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%x:%d", prefix, st.Dev, st.Ino), nil
}

// create makes the mount, which is nowhere yet.
func (d *Driver) create(dirs *dirs, source string) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, &kernelError{call: "fsopen", err: err}
	}
	defer closeFD(fs)
	if err := d.configure(fs, dirs, source); err != nil {
		return -1, said(fs, "fsconfig", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, said(fs, "mount", err)
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return -1, said(fs, "fsmount", err)
	}
	return mnt, nil
}

func (d *Driver) configure(fs int, dirs *dirs, source string) error {
	if err := unix.FsconfigSetString(fs, "source", source); err != nil {
		return err
	}
	for _, o := range d.mode.options {
		if err := setOption(fs, o); err != nil {
			return err
		}
	}
	if err := d.setLowers(fs, dirs.lowers); err != nil {
		return err
	}
	if err := d.setDir(fs, "upperdir", dirs.upper); err != nil {
		return err
	}
	return d.setDir(fs, "workdir", dirs.work)
}

// setOption sets a mount option; one without a value is a flag.
func setOption(fs int, o [2]string) error {
	if o[1] == "" {
		return unix.FsconfigSetFlag(fs, o[0])
	}
	return unix.FsconfigSetString(fs, o[0], o[1])
}

// setLowers sets the lower directories, the uppermost first.
func (d *Driver) setLowers(fs int, lowers []int) error {
	err := error(unix.EINVAL)
	for i := 0; !d.opts.byName && i < len(lowers); i++ {
		if err = unix.FsconfigSetFd(fs, "lowerdir+", lowers[i]); err != nil {
			break
		}
	}
	if errors.Is(err, unix.EINVAL) { // before Linux 6.13
		names := make([]string, len(lowers))
		for i, fd := range lowers {
			names[i] = nameOf(fd)
		}
		err = unix.FsconfigSetString(fs, "lowerdir", strings.Join(names, ":"))
	}
	return err
}

func (d *Driver) setDir(fs int, key string, fd int) error {
	err := error(unix.EINVAL)
	if !d.opts.byName {
		err = unix.FsconfigSetFd(fs, key, fd)
	}
	if errors.Is(err, unix.EINVAL) { // before Linux 6.13
		err = unix.FsconfigSetString(fs, key, nameOf(fd))
	}
	return err
}

// nameOf names a descriptor. The directory's own path would have to be escaped by rules
// that differ between kernels, and may be longer than the 255 bytes that fsconfig takes.
func nameOf(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// kernelError is a refused system call, with what the kernel said of it.
type kernelError struct {
	call, text string
	err        error
}

// Error names the call, the errno and the kernel's words.
func (e *kernelError) Error() string {
	text := e.call + " " + fserr.CodeOf(e.err).String()
	if e.text != "" {
		text += " (" + e.text + ")"
	}
	return text
}

// Unwrap returns the errno.
func (e *kernelError) Unwrap() error { return e.err }

// said reads what the kernel has to say of a refusal: lines such as "e overlay: ...".
func said(fs int, call string, err error) error {
	var lines []string
	buf := make([]byte, 1024)
	for len(lines) < 8 {
		n, e := unix.Read(fs, buf)
		if e != nil || n <= 0 {
			break
		}
		lines = append(lines, strings.TrimSpace(string(buf[:n])))
	}
	return &kernelError{call: call, text: strings.Join(lines, "; "), err: err}
}

// mountError says what a refused mount means, and what to do.
func mountError(err error) error {
	e := &fserr.Error{Op: "mount", Code: fserr.EIO, Detail: "it could not be mounted: " + fserr.CodeOf(err).Text(), Hint: "see ctxfs doctor", Err: err}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENODEV):
		e.Code, e.Detail = fserr.EOPNOTSUPP, "this server cannot mount it"
		e.Hint = "run ctxfs as root and where it may mount; 'ctxfs doctor' says what is missing; the context's files are kept"
	case errors.Is(err, unix.EBUSY):
		e.Code, e.Detail = fserr.EBUSY, "it is mounted where this server cannot see it, or was unmounted while in use"
		e.Hint = "end the container, the mount namespace or the programs that use it"
	case errors.Is(err, unix.ESTALE):
		e.Detail = "its state or its layer was copied from elsewhere, and they no longer know each other"
		e.Hint = "restore both with their inodes (not file by file), or delete the context"
	}
	return e
}

func closeFD(fd int) { _ = unix.Close(fd) } // nothing is written through these
