package layer

import (
	"path"
	"path/filepath"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
)

// base returns the layer that a new one may share files with, nil when there is none; done ends its use.
// A stale one will do: a file that changed while it was copied was recorded with the attributes of before, which it
// never has again, or is doubtful.
func (s *Store) base(scope seed.Scope, link bool) (b *tree.CopyBase, done func()) {
	l := s.previous(scope)
	if !link || l == nil {
		return nil, func() {}
	}
	root, err := rootfs.Open(filepath.Join(l.Tree, l.Manifest.Scope.Into), rootfs.Options{})
	if err != nil { // it is gone: everything is copied
		return nil, func() {}
	}
	holds := func(rel string, src, base rootfs.Stat) bool { return s.holds(l.Manifest, rel, src, base) }
	return &tree.CopyBase{Root: root, Holds: holds}, func() { _ = root.Close() }
}

// previous returns the newest layer of a scope, current or not. The first one of a scope can share files with that of the whole workspace.
func (s *Store) previous(scope seed.Scope) *Layer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{scope.Key(), seed.Scope{}.Key()} {
		if s.last[key] == nil {
			if names, err := s.names(); err == nil {
				s.last[key] = s.newest(key, names, true)
			}
		}
		if s.last[key] != nil {
			return s.last[key]
		}
	}
	return nil
}

// HasTree reports whether the newest layer of a scope, current or not, has a tree, with which the next one can share files.
func (s *Store) HasTree(scope seed.Scope) bool {
	l := s.previous(scope)
	return l != nil && exists(l.Tree)
}

// holds reports whether the workspace's file at rel is unchanged since the manifest, and base, the layer's file, is a
// faithful copy of it.
func (s *Store) holds(m *seed.Manifest, rel string, src, base rootfs.Stat) bool {
	rel = path.Join(m.Scope.Into, rel)
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
