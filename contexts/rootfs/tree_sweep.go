package rootfs

import (
	"context"

	"github.com/ctxfs/ctxfs/fserr"
)

// removable lists everything in a directory, reserved names included. The error of reserve ends the listing.
func removable(n dirNode, reserve func(bytes int64) error) ([]Entry, error) {
	list, err := n.entries(listOptions{reserve: reserve})
	if err != nil {
		return list, err
	}
	hidden, err := n.reserved()
	for _, name := range hidden {
		list = append(list, Entry{Name: name})
	}
	return list, err
}

// SweepReserved removes, in the whole tree, what interrupted atomic writes left
// under reserved names, and returns how many entries that were. To be called
// before anybody uses the tree: a write in progress would lose its file.
// Directories that cannot be read are passed over.
func SweepReserved(ctx context.Context, r Root) (int, error) {
	tr, err := nodesOf(r)
	if err != nil {
		return 0, err
	}
	swept, err := sweepDir(ctx, tr, "/")
	if err != nil {
		return swept, err
	}
	err = walkTree(ctx, tr, "/", WalkOptions{}, func(rel string, e Entry, walkErr error) error {
		if walkErr != nil || e.Type != TypeDirectory {
			return nil
		}
		n, err := sweepDir(ctx, tr, rel)
		swept += n
		return err
	})
	return swept, err
}

func sweepDir(ctx context.Context, r Nodes, path string) (int, error) {
	dir, err := r.node(path, false)
	if err != nil {
		return 0, unlessGone(err)
	}
	names, err := dir.reserved()
	if err != nil || len(names) == 0 {
		_ = dir.Close()
		return 0, unlessGone(err)
	}
	entries := make([]Entry, len(names))
	for i, name := range names {
		entries[i].Name = name
	}
	n, err := removeNamed(ctx, dir, entries...)
	return int(n), err
}

// unlessGone drops the errors of a directory that went away or may not be read.
func unlessGone(err error) error {
	if vanished(err) || fserr.CodeOf(err) == fserr.EACCES {
		return nil
	}
	return err
}
