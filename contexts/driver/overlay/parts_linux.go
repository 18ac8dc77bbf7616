package overlay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// A copy of up to so many entries with so many bytes takes about as long as to freeze a context.
const (
	smallEntries = 64
	smallBytes   = 1 << 20
)

// held is how long Freeze waits for others to let go of an upper directory.
const held = 500 * time.Millisecond

// unfrozen (EBUSY) says why the changes of a context stay where they are.
func unfrozen(why string, err error) error {
	return &fserr.Error{Op: "freeze", Code: fserr.EBUSY, Detail: why, Err: err}
}

// errLarge ends the walk of Small.
var errLarge = errors.New("large")

// Small implements driver.Sharer.
func (d *Driver) Small(ctx context.Context, state string) bool {
	root, err := rootfs.Open(filepath.Join(state, upperName), rootfs.Options{})
	if err != nil {
		return true // the copy reports why
	}
	defer func() { _ = root.Close() }() // it was only read
	entries, bytes := 0, int64(0)
	err = root.Walk(ctx, ".", tree.WalkOptions{Stats: true}, func(_ string, e rootfs.Entry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the copy reports it
		}
		entries++
		if e.Stat != nil && !e.Stat.IsDir() {
			bytes += e.Stat.Size
		}
		if entries > smallEntries || bytes > smallBytes {
			return errLarge
		}
		return nil
	})
	return !errors.Is(err, errLarge)
}

// Sharable implements driver.Sharer. The kernel's index holds the names of a file together of which only some were copied up. A part has
// no index. So no file of the index may have further names below.
func (d *Driver) Sharable(ctx context.Context, p driver.Place) error {
	parts, err := d.PartsOf(p.State)
	switch {
	case err != nil:
		return err
	case d.opts.Parts == "":
		return unfrozen("this driver makes no parts", nil)
	case len(parts) >= maxParts:
		return unfrozen("it has the most parts that it may have", nil)
	}
	indexed, err := os.ReadDir(filepath.Join(p.State, indexName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return stateError("open", err)
	}
	if len(indexed) == 0 {
		return nil
	}
	for _, part := range d.partDirs(parts) {
		if err := d.linksHold(ctx, filepath.Join(part, upperName), indexed); err != nil {
			return err
		}
	}
	if p.Layer == "" {
		return nil
	}
	return d.linksHold(ctx, p.Layer, indexed)
}

// linksHold fails with EBUSY if a file of the index has several names in a lower directory. The name of a file in the index ends in the
// file's handle (ovl_get_index_name in fs/overlayfs/namei.c in Linux).
func (d *Driver) linksHold(ctx context.Context, lower string, indexed []os.DirEntry) error {
	root, err := rootfs.Open(lower, rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	names, err := d.linkedIn(ctx, lower, root)
	if err != nil {
		return err
	}
	var handles map[string]bool
	for name := range names {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Join(lower, name), 0)
		if err != nil {
			return unfrozen("a file below its changes has several names", err)
		}
		handle := hex.EncodeToString(h.Bytes())
		if handles == nil {
			handles = map[string]bool{}
			for _, e := range indexed {
				handles[e.Name()[max(0, len(e.Name())-len(handle)):]] = true
			}
		}
		if handles[handle] {
			return unfrozen("a file of which only some names were written to has several", nil)
		}
	}
	return nil
}

// NewPart implements driver.Sharer. The directory holds what will be the context's state.
func (d *Driver) NewPart(_ context.Context, p driver.Place) (string, error) {
	source, watch, err := d.marksOf(p)
	if err != nil {
		return "", err
	}
	if err := unnoticed(source, watch); err != nil {
		return "", err
	}
	if err := d.flush(p.State); err != nil {
		return "", err
	}
	if err := durable.MkdirAll(d.opts.Parts, 0o700); err != nil {
		return "", stateError("mkdir", err)
	}
	name := rand.Text()
	return name, d.freshState(d.part(name), name, p.State)
}

// flush writes to the disk what was changed on the file system of a state, so that an unmount finds little to write. It fails with EBUSY if
// there is always much to write.
func (d *Driver) flush(state string) error {
	fd, err := unix.Open(state, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return stateError("open", err)
	}
	defer closeFD(fd)
	for range 2 {
		begun := time.Now()
		if err := unix.Syncfs(fd); err != nil {
			return stateError("syncfs", err)
		}
		if time.Since(begun) < d.opts.MaxFlush {
			return nil
		}
	}
	return unfrozen("the disk is slow", nil)
}

// freshState makes a state on a part, without changes. like is a state or part, with whose attributes and empty lower directory it starts.
func (d *Driver) freshState(dst, part, like string) error {
	for _, dir := range []string{dst, filepath.Join(dst, upperName), filepath.Join(dst, workName)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return stateError("mkdir", err)
		}
	}
	if _, err := os.Lstat(filepath.Join(like, lowerName)); err == nil {
		if err := os.Mkdir(filepath.Join(dst, lowerName), 0o755); err != nil {
			return stateError("mkdir", err)
		}
	}
	if err := likeRoot(filepath.Join(like, upperName), filepath.Join(dst, upperName)); err != nil {
		return stateError("chmod", err)
	}
	// The target of a short link is in its inode: a power loss that keeps the rename of the state keeps it too.
	if err := os.Symlink(part, filepath.Join(dst, baseName)); err != nil {
		return stateError("symlink", err)
	}
	return d.markKept(dst)
}

// OnPart implements driver.Sharer.
func (d *Driver) OnPart(part, dst string) error { return d.freshState(dst, part, d.part(part)) }

// marksOf returns how /proc shows the mount of a context, and watches in it.
func (d *Driver) marksOf(p driver.Place) (source string, watch []byte, err error) {
	dirs, err := d.openDirs(p)
	if err != nil {
		return "", nil, err
	}
	defer dirs.close()
	if source, err = dirs.source(d.mode.source); err != nil {
		return "", nil, stateError("stat", err)
	}
	watch, err = watchOf(p.Folder)
	return source, watch, err
}

// Freeze implements driver.Sharer: it exchanges the state with the directory of NewPart. Once the folder shows the mount no more, no mount
// namespace can take a copy of it, and no program can watch it. Until Freeze knows that there are none, it keeps the mount for the way back.
func (d *Driver) Freeze(ctx context.Context, p driver.Place, name string) error {
	source, watch, err := d.marksOf(p)
	if err != nil {
		return err
	}
	var kept int
	err = namespaces.WithCapabilities(func() (err error) {
		kept, err = unix.OpenTree(unix.AT_FDCWD, p.Folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		return err
	})
	if err != nil {
		return stateError("open_tree", err)
	}
	err = d.Unmount(ctx, p.Folder, false)
	if err == nil {
		if err = unnoticed(source, watch); err != nil {
			err = errors.Join(err, namespaces.WithCapabilities(func() error { return putAt(kept, p.Folder) }))
		}
	}
	closeFD(kept)
	if err != nil {
		return err
	}
	if err = d.freeze(ctx, p, name); err != nil {
		err = errors.Join(err, d.mountSoon(p))
	}
	return err
}

// mountSoon is Mount after an unmount. A mount namespace that was being made during the unmount may hold the upper directory for a moment, as
// that of a sandbox does until it has its own root.
func (d *Driver) mountSoon(p driver.Place) error {
	for begun := time.Now(); ; time.Sleep(held / 100) {
		err := d.Mount(context.Background(), p)
		if fserr.CodeOf(err) != fserr.EBUSY || time.Since(begun) > held {
			return err
		}
	}
}

// freeze is Freeze for a context that is not mounted. After an error it is not mounted either.
func (d *Driver) freeze(ctx context.Context, p driver.Place, name string) error {
	if err := d.Sharable(ctx, p); err != nil {
		return err
	}
	fresh := d.part(name)
	if err := likeRoot(filepath.Join(p.State, upperName), filepath.Join(fresh, upperName)); err != nil {
		return stateError("chmod", err)
	}
	exchange := func() error {
		return unix.Renameat2(unix.AT_FDCWD, p.State, unix.AT_FDCWD, fresh, unix.RENAME_EXCHANGE)
	}
	if err := exchange(); err != nil {
		return stateError("rename", err)
	}
	err := d.mountSoon(p)
	if err != nil { // nothing was written to the fresh state
		err = errors.Join(err, exchange())
	}
	return err
}
