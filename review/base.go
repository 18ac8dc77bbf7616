package review

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"weak"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// base is the tree with which a context is compared to find its changes: the layer that it was seeded with, and overrides for
// what was applied or rebased since.
type base struct {
	// manifest and layer are nil when the context started empty.
	manifest *seed.Manifest
	layer    rootfs.Root
	// overrides have content in store. A zero Version removes a path of the layer.
	overrides map[Path]Version
	store     *Store
	// digest names the layer.
	digest string
	// sorted has the paths of overrides in the order of compareTrees, once order was called.
	sorted []Path
	// elsewhere opens the content of an override that is not in store; nil means that all are.
	elsewhere func(e entry) (io.ReadCloser, error)
	// ignores is Reviews.ignores's. ignoring says that the context has ended which ignores reads with.
	ignores  *seed.Ignores
	ignoring func() error
	// closers close what the base reads.
	closers []func() error
}

// close closes what the base reads.
func (b *base) close() error {
	var errs []error
	for _, c := range b.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// entry is a path of the base. Its version has no hash if it is the layer's.
type entry struct {
	path Path
	Version
	// index is the entry's place in the manifest, -1 for an override.
	index int
}

// lookup returns the file or link at a path, with a zero Version when there is none.
func (b *base) lookup(p Path) entry {
	if v, ok := b.overrides[p]; ok {
		return entry{p, v, -1}
	}
	return b.seeded(p)
}

// find returns where a path is in the manifest, or would be.
func (b *base) find(p Path) (int, bool) {
	es := b.manifest.Entries
	i := sort.Search(len(es), func(i int) bool { return es[i].Path >= string(p) })
	return i, i < len(es) && es[i].Path == string(p)
}

// seeded is lookup in the layer.
func (b *base) seeded(p Path) entry {
	if b.manifest != nil {
		if i, ok := b.find(p); ok {
			return b.at(i)
		}
	}
	return entry{path: p, index: -1}
}

// at returns a manifest's entry. A directory has a zero Version.
func (b *base) at(i int) entry {
	e := &b.manifest.Entries[i]
	out := entry{path: Path(e.Path), index: i}
	switch e.Type {
	case rootfs.TypeFile:
		out.Version = Version{Type: e.Type, Mode: e.Mode, Size: e.Size}
	case rootfs.TypeSymlink:
		out.Version = Version{Type: e.Type, Mode: 0o777, Size: int64(len(e.Target))}
	}
	return out
}

// has reports whether the base has a file, a link or a directory at p.
func (b *base) has(p Path) bool {
	if b.manifest != nil {
		if _, ok := b.find(p); ok {
			return true
		}
	}
	return b.lookup(p).Exists() || b.hasDir(p)
}

// hasDir reports whether the base has something below p.
func (b *base) hasDir(p Path) bool {
	for e := range b.below(p) {
		if e.path != p {
			return true
		}
	}
	return false
}

// inode names a file of a layer.
type inode struct{ dev, ino uint64 }

// namesOfFiles returns all names of the layer's files that have several, and one of them at or below paths. A context that was written to through one name of a
// file shows that at its other names too. names are of fileNames.of.
func (b *base) namesOfFiles(names map[inode][]Path, paths []Path) (out []Path) {
	if len(names) == 0 {
		return nil
	}
	found := map[inode]bool{}
	add := func(e *seed.Entry) {
		if of := (inode{e.Dev, e.Ino}); !found[of] && len(names[of]) > 0 {
			found[of] = true
			out = append(out, names[of]...)
		}
	}
	es := b.manifest.Entries
	for _, p := range paths {
		if i, ok := b.find(p); ok {
			add(&es[i])
		}
		from, _ := b.find(Path(childPrefix(p)))
		for i := from; i < len(es) && strings.HasPrefix(es[i].Path, childPrefix(p)); i++ {
			add(&es[i])
		}
	}
	return out
}

// fileNames keeps the names of files that have several, for the manifests that were used last. The zero fileNames is ready.
type fileNames struct {
	mu   sync.Mutex
	kept []keptNames
	// walked is how many entries were looked at.
	walked int
}

type keptNames struct {
	of    weak.Pointer[seed.Manifest]
	names map[inode][]Path
}

// namesKept is for how many manifests names are kept.
const namesKept = 4

// of returns the names of the manifest's files that have several. It walks a manifest once: some have 100,000 entries, and few of these several names.
func (n *fileNames) of(m *seed.Manifest) map[inode][]Path {
	if m == nil {
		return nil
	}
	of := weak.Make(m)
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.IndexFunc(n.kept, func(k keptNames) bool { return k.of == of }); i >= 0 {
		k := n.kept[i]
		n.kept = append(slices.Delete(n.kept, i, i+1), k)
		return k.names
	}
	n.walked += len(m.Entries)
	k := keptNames{of, severalNames(m.Entries)}
	n.kept = append(n.kept, k)
	n.kept = slices.Delete(n.kept, 0, max(0, len(n.kept)-namesKept))
	return k.names
}

// severalNames returns the names of the files that have several.
func severalNames(entries []seed.Entry) map[inode][]Path {
	out, first := map[inode][]Path{}, map[inode]Path{}
	for i := range entries {
		e := &entries[i]
		if e.Type != rootfs.TypeFile || e.Ino == 0 {
			continue
		}
		switch id, p := (inode{e.Dev, e.Ino}), Path(e.Path); {
		case out[id] != nil:
			out[id] = append(out[id], p)
		case first[id] != "":
			out[id] = []Path{first[id], p}
		default:
			first[id] = p
		}
	}
	return out
}

// order sets sorted. Several goroutines may call below once order was called.
func (b *base) order() {
	if b.sorted == nil {
		b.sorted = slices.AppendSeq(make([]Path, 0, len(b.overrides)), maps.Keys(b.overrides))
		slices.SortFunc(b.sorted, compareTrees)
	}
}

// below yields the files and links at p and below it, in no order; "" is the root.
func (b *base) below(p Path) func(yield func(entry) bool) {
	return func(yield func(entry) bool) {
		b.order()
		from, _ := slices.BinarySearchFunc(b.sorted, p, compareTrees)
		for _, q := range b.sorted[from:] {
			if !isWithin(q, p) {
				break
			}
			if v := b.overrides[q]; v.Exists() && !yield(entry{q, v, -1}) {
				return
			}
		}
		if b.manifest == nil {
			return
		}
		if p != "" {
			if i, ok := b.find(p); ok && !b.yieldAt(i, yield) {
				return
			}
			p += "/"
		}
		// Siblings such as "dir.txt" sort between "dir" and "dir/".
		i, _ := b.find(p)
		for ; i < len(b.manifest.Entries) && strings.HasPrefix(b.manifest.Entries[i].Path, string(p)); i++ {
			if !b.yieldAt(i, yield) {
				return
			}
		}
	}
}

func (b *base) yieldAt(i int, yield func(entry) bool) bool {
	e := b.at(i)
	if _, overridden := b.overrides[e.path]; overridden || !e.Exists() {
		return true
	}
	return yield(e)
}

// isWithin reports whether p is dir or below it; everything is below "".
func isWithin(p, dir Path) bool {
	return dir == "" || p == dir || (strings.HasPrefix(string(p), string(dir)) && p[len(dir)] == '/')
}

// open opens the content of an entry that exists: a file's bytes, or a link's target.
func (b *base) open(e entry) (io.ReadCloser, error) {
	switch {
	case e.index < 0 && b.elsewhere != nil:
		return b.elsewhere(e)
	case e.index < 0:
		return b.store.Open(e.Hash)
	case e.Type == rootfs.TypeSymlink:
		return io.NopCloser(strings.NewReader(b.manifest.Entries[e.index].Target)), nil
	}
	f, _, err := b.layer.OpenNoFollow(string(e.path), rootfs.O_RDONLY)
	if err != nil {
		return nil, &fserr.Error{
			Code: fserr.EIO, Detail: "the layer that the context was seeded with cannot be read", Hint: "'ctxfs doctor' says what is missing", Err: err,
		}
	}
	return f, nil
}

// version returns an entry's version with its hash.
func (b *base) version(ctx context.Context, e entry) (Version, error) {
	return b.read(ctx, e, b.store.hashing())
}

// read is version with a reader of the content, if that is needed.
func (b *base) read(ctx context.Context, e entry, use reader) (v Version, err error) {
	v = e.Version
	if !v.Exists() || v.Hash != "" {
		return v, nil
	}
	if e.index < 0 && b.elsewhere == nil { // it kept changing when it was to be kept
		return v, errUnstable
	}
	r, err := b.open(e)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if f, ok := r.(rootfs.File); ok && e.Size >= largeContent {
		st, err := f.Stat()
		if err != nil {
			return v, err
		}
		if v.Hash, err = use.known(ctx, b.layer, e.path, st); v.Hash == "" && err == nil {
			v, err = use.file(ctx, f, st)
			v.Mode = e.Mode
		}
		if errors.Is(err, errUnstable) && v.Hash != "" { // its links or attributes: nothing writes to a layer
			err = nil
		}
		return v, err
	}
	v.Hash, v.Size, err = use.read(ctx, r)
	return v, err
}
