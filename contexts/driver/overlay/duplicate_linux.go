package overlay

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// Names and xattrs of the kernel's (fs/overlayfs/overlayfs.h in Linux).
const (
	indexName = workName + "/index"
	xattrs    = "trusted.overlay."
)

// copyWorkers bounds the files copied at once.
const copyWorkers = 4

// Duplicate implements driver.Driver: it copies what the context changed, and shares the layer. The context may stay
// mounted: what overlayfs writes goes through the files of the upper directory, and a file comes into it,
// copied up or made, by one rename or link. The index goes along, which holds the names of a file together of
// which only some were copied up.
func (d *Driver) Duplicate(ctx context.Context, src, dst string, freeze func(func(context.Context) error) error) (changed []string, err error) {
	if d.Lost(src) {
		return nil, lostError("duplicate")
	}
	changed, err = driver.CopyTree(ctx, src, dst, tree.CopyOptions{
		Workers: copyWorkers, MoreXattrs: xattrs, Skip: func(rel string, _ rootfs.Entry) bool { return isScratch(rel) },
		// A deletion is a device; what is no file, link or directory is deleted in the copy, so that
		// nothing of the layer appears in its place.
		Whiteouts: true,
	}, freeze)
	if err != nil {
		return changed, err
	}
	if err := forgetPlace(dst); err != nil {
		return changed, err
	}
	return changed, d.markKept(dst)
}

// isScratch reports whether rel is one of the kernel's temporary files in a state. A copy of the state must not have them.
func isScratch(rel string) bool {
	dir, name := path.Split(path.Clean(rel))
	return dir == workName+"/" && name != path.Base(indexName)
}

// forgetPlace removes the marks by which the kernel knows the directories again in which it found them: a copy has others.
func forgetPlace(state string) error {
	for _, dir := range []string{upperName, indexName} {
		for _, mark := range []string{"origin", "upper", "uuid"} {
			for _, ns := range []string{xattrs, "user.overlay."} {
				err := unix.Lremovexattr(filepath.Join(state, dir), ns+mark)
				if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EPERM) {
					return stateError("removexattr", err)
				}
			}
		}
	}
	return nil
}

// markKept marks a state that has its extended attributes, so that a copy without them can be recognised. A process that may not set the attribute cannot
// mount the state either, and leaves it unmarked.
func (d *Driver) markKept(state string) error {
	file := filepath.Join(state, keptName)
	err := os.WriteFile(file, nil, 0o600)
	if err == nil {
		err = unix.Lsetxattr(file, d.mode.keptXattr, []byte("y"), 0)
	}
	if errors.Is(err, unix.EPERM) {
		err = os.Remove(file)
	}
	if err != nil {
		return stateError("setxattr", err)
	}
	return nil
}

// Lost implements driver.Mounter. A state whose parts are damaged is not lost: Mount says what is missing.
func (d *Driver) Lost(state string) bool {
	parts, _ := d.PartsOf(state)
	return slices.ContainsFunc(append([]string{state}, d.partDirs(parts)...), d.lost)
}

// lost reports whether a state or a part is lost. A state of before the mark is lost when it was mounted as root, which leaves work/work,
// and its upper directory has no origin.
func (d *Driver) lost(state string) bool {
	_, err := unix.Lgetxattr(filepath.Join(state, keptName), d.mode.keptXattr, nil)
	if !errors.Is(err, unix.ENOENT) {
		return errors.Is(err, unix.ENODATA)
	}
	if _, err := os.Lstat(filepath.Join(state, workName, workName)); err != nil || d.mode.userns {
		return false
	}
	_, err = unix.Lgetxattr(filepath.Join(state, upperName), xattrs+"origin", nil)
	return errors.Is(err, unix.ENODATA)
}

func lostError(op string) error {
	return &fserr.Error{
		Op: op, Code: fserr.EIO, Detail: "it was restored without the extended attributes that say what was renamed and replaced",
		Hint: "restore it with them (tar --xattrs --xattrs-include='*', rsync -aX, cp -a), or have 'ctxfs doctor --repair' take it as it is",
	}
}

// Accept implements driver.Mounter. It accepts the parts too, which other contexts may show: nothing of what they show changes.
func (d *Driver) Accept(ctx context.Context, state string) error {
	parts, err := d.PartsOf(state)
	if err != nil {
		return err
	}
	if err := settle(ctx, state); err != nil {
		return err
	}
	for _, part := range d.partDirs(parts) {
		if err := d.markKept(part); err != nil {
			return err
		}
	}
	return d.markKept(state)
}

// settle makes a copied state forget the inodes that it had. The index goes too: if a file has several names in the layer and only
// some were written, the others show the layer's content again.
func settle(ctx context.Context, state string) error {
	work, err := rootfs.Open(filepath.Join(state, workName), rootfs.Options{})
	if err != nil {
		return stateError("settle", err)
	}
	for _, name := range []string{path.Base(indexName), workName} {
		if _, e := work.RemoveAll(ctx, name); e != nil && fserr.CodeOf(e) != fserr.ENOENT {
			err = errors.Join(err, e)
		}
	}
	if err = errors.Join(err, work.Close()); err != nil {
		return stateError("settle", err)
	}
	return forgetPlace(state)
}
