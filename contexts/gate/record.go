package gate

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// maxRecorded bounds the paths of a Recording. Beyond it everything counts as changed.
const maxRecorded = 65536

// Recording has the paths that operations of this process said they would change (Access.Touch).
type Recording struct {
	g *gate

	mu sync.Mutex
	// paths are relative to the context's root; true includes what is below.
	paths map[string]bool
}

// Record begins a Recording of a context. It must be stopped.
func (t *Gates) Record(ctx context.Context, id catalog.ID) (*Recording, error) {
	g, _, err := t.enter(ctx, id, Read)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	r := &Recording{g: g, paths: map[string]bool{}}
	g.setRecordings(func(list []*Recording) []*Recording { return append(list, r) })
	return r, nil
}

func (g *gate) setRecordings(change func(list []*Recording) []*Recording) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*Recording
	if now := g.recordings.Load(); now != nil {
		list = slices.Clone(*now)
	}
	if list = change(list); len(list) == 0 {
		g.recordings.Store(nil)
		return
	}
	g.recordings.Store(&list)
}

// Stop ends the recording. What it recorded stays.
func (r *Recording) Stop() {
	r.g.setRecordings(func(list []*Recording) []*Recording {
		return slices.DeleteFunc(list, func(other *Recording) bool { return other == r })
	})
}

// Has reports whether a path, relative to the context's root, was recorded.
func (r *Recording) Has(p string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.paths[p]; ok || r.paths[""] {
		return true
	}
	for up := path.Dir(p); up != "."; up = path.Dir(up) {
		if r.paths[up] {
			return true
		}
	}
	return false
}

// Touch must be called before an operation that Writes changes a path, as the caller names it; with below, also before it changes what is
// below. It costs nothing while there is no Recording.
func (a *Access) Touch(name string, below bool) {
	if a.gate == nil || name == "" {
		return
	}
	recordings := a.gate.recordings.Load()
	if recordings == nil {
		return
	}
	for _, p := range leadTo(a.Root, name) {
		for _, r := range *recordings {
			r.add(p, below)
		}
	}
}

// leadTo returns where a path leads: by itself, through links in its directory, and through a final link.
func leadTo(root rootfs.Root, name string) []string {
	clean := path.Clean("/" + name)
	out := []string{clean}
	if dir, err := root.Realpath(path.Dir(clean)); err == nil {
		out = append(out, path.Join(dir, path.Base(clean)))
	}
	if real, err := root.Realpath(name); err == nil {
		out = append(out, real)
	}
	for i := range out {
		out[i] = strings.TrimPrefix(out[i], "/")
	}
	return out
}

func (r *Recording) add(p string, below bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.paths) >= maxRecorded {
		p, below = "", true
	}
	r.paths[p] = r.paths[p] || below
}
