package overlay

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxChangedDepth bounds how many directories deep Changed looks, since each takes a descriptor. What lies deeper is named by its directory.
const maxChangedDepth = 512

// Changed implements driver.Mounter: it lists what the upper directory and those of the parts hold. A file that was only opened for writing
// is in it too. A directory of one part that was renamed stands for what the parts below it hold at its old place.
func (d *Driver) Changed(ctx context.Context, state string) ([]string, error) {
	if d.Lost(state) {
		return nil, lostError("review")
	}
	parts, err := d.PartsOf(state)
	if err != nil {
		return nil, err
	}
	w := &changedWalk{ctx: ctx, prefix: xattrs, out: []string{}}
	if d.mode.userns {
		w.prefix = "user.overlay."
	}
	for _, dir := range append([]string{state}, d.partDirs(parts)...) {
		fd, err := unix.Open(filepath.Join(dir, upperName), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, stateError("open", err)
		}
		if err := w.dir(fd, "", 0); err != nil {
			return nil, stateError("walk", err)
		}
	}
	if len(parts) > 0 {
		slices.Sort(w.out)
		w.out = slices.Compact(w.out)
	}
	return w.out, nil
}

type changedWalk struct {
	ctx    context.Context //nolint:containedctx // the walk's own
	prefix string
	out    []string
}

// dir lists a directory and closes it.
func (w *changedWalk) dir(fd int, rel string, depth int) (err error) {
	f := os.NewFile(uintptr(fd), rel)
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if rel != "" && (depth > maxChangedDepth || w.replaces(fd)) {
		w.out = append(w.out, rel)
		return nil
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := path.Join(rel, e.Name())
		if !e.IsDir() {
			w.out = append(w.out, p)
			continue
		}
		child, err := unix.Openat(fd, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil { // another program changes it
			w.out = append(w.out, p)
			continue
		}
		if err := w.dir(child, p, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// replaces reports whether a directory stands for another one than the layer's of this path: one that it hides, or one that was renamed to
// here, whose files are not in the upper directory.
func (w *changedWalk) replaces(fd int) bool {
	for _, name := range []string{"opaque", "redirect"} {
		n, err := unix.Fgetxattr(fd, w.prefix+name, nil)
		if n > 0 || (err != nil && !errors.Is(err, unix.ENODATA)) {
			return true
		}
	}
	return false
}
