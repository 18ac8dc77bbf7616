package disk

import (
	"context"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// block is the unit of Stat.Blocks, in bytes (stat(2)).
const block = 512

// Usage is the space that a directory takes on disk with everything in it. Extents that files share (reflinks) count for each
// file.
type Usage struct {
	Bytes, Entries int64
	// Newest is when something in the directory, or itself, was changed last (its ctime); zero if there is nothing.
	Newest time.Time
}

// Space is what a file system has free: Bytes, and Entries for more files and directories, which is 0 if the file system does not count them.
type Space struct{ Bytes, Entries int64 }

// SpaceOf returns the free space in a description of a file system. What is reserved for root is free.
func SpaceOf(st rootfs.Statfs) Space {
	return Space{int64(st.Bfree * st.Bsize), int64(st.Ffree)}
}

// Left returns what the file system of a directory has free.
func Left(dir string) (Space, error) {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		return Space{}, err
	}
	defer func() { _ = root.Close() }()
	st, err := root.Statfs("/")
	return SpaceOf(st), err
}

// Plus returns what two directories take.
func (u Usage) Plus(other Usage) Usage {
	u.Bytes, u.Entries = u.Bytes+other.Bytes, u.Entries+other.Entries
	if other.Newest.After(u.Newest) {
		u.Newest = other.Newest
	}
	return u
}

// note takes the time of one more entry into account.
func (u *Usage) note(st rootfs.Stat) {
	if at := time.Unix(0, st.CtimeNs); at.After(u.Newest) {
		u.Newest = at
	}
}

// Use returns the Bytes of Measure, and skips what this process may not read.
func Use(ctx context.Context, dir string) (int64, error) {
	u, err := Measure(ctx, dir, func(string) error { return nil })
	return u.Bytes, err
}

// Measure measures a directory. The space of a file with several names counts once, but each name is an entry. A directory
// that does not exist takes no space. Files that are removed meanwhile do not count. If this process may not read a
// directory, Measure calls closed with its path and skips it, or fails with the error that closed returns.
func Measure(ctx context.Context, dir string, closed func(rel string) error) (Usage, error) {
	root, err := rootfs.Open(dir, rootfs.Options{})
	if fserr.CodeOf(err) == fserr.ENOENT {
		return Usage{}, nil
	}
	if err != nil {
		return Usage{}, err
	}
	defer func() { _ = root.Close() }()
	st, err := root.Lstat("/")
	if err != nil {
		return Usage{}, err
	}
	type file struct{ dev, ino uint64 }
	u, counted := Usage{Bytes: st.Blocks * block}, map[file]bool{}
	u.note(st)
	err = root.Walk(ctx, ".", tree.WalkOptions{Stats: true, Deep: true, All: true}, func(rel string, e rootfs.Entry, err error) error {
		switch {
		case fserr.CodeOf(err) == fserr.EACCES:
			return closed(rel)
		case fserr.CodeOf(err) == fserr.ENOENT: // removed meanwhile
			return nil
		case err != nil:
			return err
		case e.Stat == nil: // its directory may be listed, and no more
			return closed(rel)
		}
		u.Entries++
		u.note(*e.Stat)
		if e.Stat.Nlink > 1 && !e.Stat.IsDir() {
			key := file{e.Stat.Dev, e.Stat.Ino}
			if counted[key] {
				return nil
			}
			counted[key] = true
		}
		u.Bytes += e.Stat.Blocks * block
		return nil
	})
	return u, err
}
