package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// kept has the owner and the attributes of a file that a step takes away. An undo gives them to the file.
type kept struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Xattrs is the hash of the extended attributes in JSON, which the store has; "" is none.
	Xattrs string `json:"xattrs,omitempty"`
}

// keepRemains records in an entry the directories, owners and attributes that its steps take away, and the directories that it makes again.
func (w *workspace) keepRemains(ctx context.Context, e *Entry) error {
	e.Emptied = w.emptied(ctx, e.Steps)
	e.Made = maps.Clone(e.restores)
	for dir, mode := range e.restores {
		if st, err := w.root.Lstat(string(dir)); err == nil && st.IsDir() {
			delete(e.Made, dir)
		} else if mode&writable != writable {
			if e.Closed == nil {
				e.Closed = pathMap[uint32]{}
			}
			e.Closed[dir] = mode
		}
	}
	return inParallel(ctx, len(e.Steps), func(i int) error {
		s := &e.Steps[i]
		if s.did() == Unchanged || s.Before.Type != rootfs.TypeFile || s.After.Type == rootfs.TypeFile {
			return nil
		}
		return fserr.Wrap(w.keepOf(ctx, s), string(e.Kind), "/"+string(s.Path), "")
	})
}

// keepOf records the owner and the attributes of the file that a step takes away.
func (w *workspace) keepOf(ctx context.Context, s *step) (err error) {
	f, _, err := w.root.OpenNoFollow(string(s.Path), rootfs.O_RDONLY)
	if err != nil {
		return tree.Ignoring(err, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP, fserr.EISDIR) // the swap finds that it changed
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	k, err := tree.KeptOf(f)
	if err != nil {
		return err
	}
	s.Kept = &kept{UID: k.UID, GID: k.GID}
	if len(k.Xattrs) == 0 {
		return nil
	}
	data, err := json.Marshal(k.Xattrs)
	if err == nil {
		s.Kept.Xattrs, _, err = w.store.Put(ctx, bytes.NewReader(data))
	}
	return err
}

// giveBack completes the new entry of a step that restores a file.
func (w *workspace) giveBack(entry *tree.NewEntry, s *step) error {
	if entry == nil || s.restores == nil {
		return nil
	}
	entry.Kept = &tree.Kept{UID: s.restores.UID, GID: s.restores.GID}
	if s.restores.Xattrs == "" {
		return nil
	}
	f, err := w.store.content(Version{Hash: s.restores.Xattrs})
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return json.Unmarshal(data, &entry.Kept.Xattrs)
}

// use adds the contents that it refers to.
func (k *kept) use(used map[string]bool) {
	if k != nil {
		used[k.Xattrs] = true
	}
}

// emptied returns the modes of the directories that steps take away in whole, by path.
func (w *workspace) emptied(ctx context.Context, steps []step) pathMap[uint32] {
	modes := pathMap[uint32]{}
	for i := range steps {
		dir := steps[i].Path
		if !steps[i].away {
			continue
		}
		if st, err := lstat(w.root, dir); err == nil {
			modes[dir] = st.Perm()
		}
		_ = w.root.Walk(ctx, "/"+string(dir), tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
			if err == nil && e.Type == rootfs.TypeDirectory {
				modes[dir+"/"+Path(rel)] = e.Stat.Perm()
			}
			return nil // the swap finds what cannot be read
		})
	}
	return modes
}

// restoreDirs makes directories with these modes. It leaves files alone that are at their paths by now.
func (s *swaps) restoreDirs(modes map[Path]uint32) error {
	for _, dir := range slices.Sorted(maps.Keys(modes)) {
		if _, is := s.w.inTheWay(dir + "/"); is {
			continue
		}
		if err := s.makeOne(string(dir), modes[dir], true); err != nil {
			return fserr.Wrap(err, "undo", "/"+string(dir), "")
		}
	}
	return nil
}

// removeDirs removes directories that an interrupted entry made, as far as they are empty.
func (w *workspace) removeDirs(made map[Path]uint32) {
	dirs := slices.Sorted(maps.Keys(made))
	for _, dir := range dirs {
		if st, err := lstat(w.root, dir); err == nil && st.IsDir() && st.Perm()&writable != writable {
			_ = w.root.Chmod(string(dir), st.Perm()|writable) // otherwise it stays
		}
	}
	for _, dir := range slices.Backward(dirs) {
		if st, err := lstat(w.root, dir); err == nil && st.IsDir() {
			_ = w.root.Rmdir(string(dir)) // ENOTEMPTY: it is used
		}
	}
}
