package contexts

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// Sizes is what a context takes on disk, in bytes. Extents that files share (reflinks) count for each.
type Sizes struct {
	// Own is what it takes by itself, Snapshots what its snapshots do.
	Own, Snapshots int64
	// Shared is what it reads of its layer, which others read as well.
	Shared int64
}

// Sizes implements Admin.
func (m *Manager) Sizes(ctx context.Context, id ID) (Sizes, error) {
	rec, err := m.existing(ctx, id)
	if err != nil {
		return Sizes{}, err
	}
	d, dir, err := m.held(rec)
	if err != nil {
		return Sizes{}, err
	}
	var out Sizes
	if _, mounts := d.(driver.Mounter); mounts {
		out.Shared = rec.Bytes
	}
	if out.Own, err = diskUse(ctx, dir); err == nil {
		out.Snapshots, err = diskUse(ctx, m.layout.SnapshotsOf(id))
	}
	if err != nil {
		return out, contextError(id, "could not be measured", err)
	}
	return out, nil
}

// diskBlock is the unit of Stat.Blocks, in bytes (stat(2)).
const diskBlock = 512

// diskUse returns the bytes of usage.
func diskUse(ctx context.Context, dir string) (int64, error) {
	u, err := usage(ctx, dir, func(string) error { return nil })
	return u.bytes, err
}

// diskUsage is what a directory takes with all that it holds.
type diskUsage struct{ bytes, entries int64 }

// kernelWork is what overlayfs keeps for itself in a state, closed to who is not root.
const kernelWork = "work/work"

// usage measures a directory: the space of a file with several names counts once, but each name is an entry. One
// that is not there takes nothing. What is removed meanwhile does not count, nor does what is closed to this server, unless
// closed has an error for it.
func usage(ctx context.Context, dir string, closed func(rel string) error) (diskUsage, error) {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if fserr.CodeOf(err) == fserr.ENOENT {
		return diskUsage{}, nil
	}
	if err != nil {
		return diskUsage{}, err
	}
	defer func() { _ = root.Close() }()
	st, err := root.Lstat("/")
	if err != nil {
		return diskUsage{}, err
	}
	type file struct{ dev, ino uint64 }
	u, counted := diskUsage{bytes: st.Blocks * diskBlock}, map[file]bool{}
	err = root.Walk(ctx, ".", tree.WalkOptions{Stats: true, Deep: true}, func(rel string, e rootfs.Entry, err error) error {
		switch {
		case fserr.CodeOf(err) == fserr.EACCES:
			return closed(rel)
		case err != nil:
			return gone(err)
		case e.Stat == nil: // its directory may be listed, and no more
			return closed(rel)
		}
		u.entries++
		if e.Stat.Nlink > 1 && !e.Stat.IsDir() {
			key := file{e.Stat.Dev, e.Stat.Ino}
			if counted[key] {
				return nil
			}
			counted[key] = true
		}
		u.bytes += e.Stat.Blocks * diskBlock
		return nil
	})
	return u, err
}

// gone passes over what was removed while a directory was read.
func gone(err error) error {
	if fserr.CodeOf(err) == fserr.ENOENT {
		return nil
	}
	return err
}
