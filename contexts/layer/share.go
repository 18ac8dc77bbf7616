package layer

import (
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// base returns the layer that a new one may share files with, nil when there is none; done ends its use.
// A stale one will do: a file that changed while it was copied was recorded with the attributes of before, which it
// never has again, or is doubtful.
func (s *Store) base(link bool) (b *tree.CopyBase, done func()) {
	l := s.previous()
	if !link || l == nil {
		return nil, func() {}
	}
	root, err := rootfs.Open(l.Tree, rootfs.Options{})
	if err != nil { // it is gone: everything is copied
		return nil, func() {}
	}
	holds := func(rel string, src, base rootfs.Stat) bool { return s.holds(l.Manifest, rel, src, base) }
	return &tree.CopyBase{Root: root, Holds: holds}, func() { _ = root.Close() }
}

// previous returns the newest layer, current or not.
func (s *Store) previous() *Layer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		if names, err := s.names(); err == nil {
			s.last = s.newest(names, true)
		}
	}
	return s.last
}

// HasTree reports whether the newest layer, current or not, has a tree, with which the next one can share files.
func (s *Store) HasTree() bool {
	l := s.previous()
	return l != nil && exists(l.Tree)
}

// holds reports whether the workspace's file at rel is unchanged since the manifest, and base, the layer's file, is a
// faithful copy of it.
func (s *Store) holds(m *seed.Manifest, rel string, src, base rootfs.Stat) bool {
	e, ok := m.Find(rel)
	if !ok || !e.Same(seed.NewEntry(rel, src, "")) {
		return false
	}
	if o := s.owner; o != nil && (int64(base.UID) != int64(o.UID) || int64(base.GID) != int64(o.GID)) {
		return false
	}
	const never = 0o6000 // setuid and setgid are not copied
	return base.Size == e.Size && base.MtimeNs == e.MtimeNs && base.Perm() == e.Mode&^never
}
