package overlay

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
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
func (d *Driver) Duplicate(ctx context.Context, src, dst string, progress func(driver.Progress)) (changed []string, err error) {
	changed, err = driver.CopyTree(ctx, src, dst, rootfs.CopyOptions{
		Workers: copyWorkers, MoreXattrs: xattrs, Skip: func(rel string, _ rootfs.Entry) bool { return isScratch(rel) },
		// A deletion is a device; what is no file, link or directory is deleted in the copy, so that
		// nothing of the layer appears in its place.
		Special: func(rel string, _ rootfs.Stat) error { return unix.Mknod(filepath.Join(dst, rel), unix.S_IFCHR, 0) },
	}, progress)
	if err != nil {
		return changed, err
	}
	return changed, forgetPlace(dst)
}

// isScratch tells what of a state only its own mount may use: what the kernel has under construction.
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
