// Package pool keeps ready copies of a workspace layer, so that a context that is plain
// files can be had by a rename. A copy is a folder
//
//	<pool>/<layer's digest>-<n>
//
// which is made elsewhere on the file system and then renamed, so a folder with such a name is
// complete. Beside it are its marks (seed.MarksFile), if it has some. A process takes a copy by renaming it: only one process gets it, and a process that dies then
// leaves nothing in the pool. A copy of another layer can be adjusted to the requested layer: only the
// difference between the manifests is copied.
//
// The package starts no work of its own: its owner decides when to fill the pool.
package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
)

// Pool is a directory of copies. It holds nothing in memory, so that any number of processes may
// share one.
type Pool struct {
	dir    string
	layers *layer.Store
	owner  *rootfs.Owner
}

// New returns the pool in dir, which exists. owner, when not nil, is given to what is copied.
func New(dir string, layers *layer.Store, owner *rootfs.Owner) *Pool {
	return &Pool{dir: dir, layers: layers, owner: owner}
}

// Copy is one that is ready.
type Copy struct {
	// Name is its folder's within the pool, Layer the digest of what it is a copy of.
	Name, Layer string
}

// List lists the copies by name.
func (p *Pool) List() ([]Copy, error) {
	entries, err := os.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the pool: %w", fserr.CodeOf(err))
	}
	var out []Copy
	for _, e := range entries {
		if digest, _, ok := strings.Cut(e.Name(), "-"); ok && e.IsDir() {
			out = append(out, Copy{Name: e.Name(), Layer: digest})
		}
	}
	return out, nil
}

// Others lists the copies that are not of a layer.
func (p *Pool) Others(digest string) ([]Copy, error) {
	all, err := p.List()
	return slices.DeleteFunc(all, func(c Copy) bool { return c.Layer == digest }), err
}

// Dir returns a copy's path.
func (p *Pool) Dir(name string) string { return filepath.Join(p.dir, name) }

// How a claim went.
const (
	Miss     = "miss"
	Hit      = "hit"
	Adjusted = "adjusted" // a copy of another layer was brought up to date
)

// Claim moves a copy of l to dst, which must not exist, on the pool's file system. Copies of other layers
// are taken when there is none, and brought up to date. After Miss there is no dst; an error beside it
// says why a copy was of no use, and that copy is gone.
func (p *Pool) Claim(ctx context.Context, l *layer.Layer, dst string) (how string, err error) {
	all, err := p.List()
	if err != nil {
		return Miss, err
	}
	slices.SortStableFunc(all, func(a, b Copy) int { return rank(a, l) - rank(b, l) })
	return p.claim(ctx, all, l, dst)
}

func (p *Pool) claim(ctx context.Context, all []Copy, l *layer.Layer, dst string) (how string, err error) {
	for _, c := range all {
		err := os.Rename(p.Dir(c.Name), dst)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another process was faster
			continue
		case err != nil:
			return Miss, fmt.Errorf("take %s from the pool: %w", c.Name, fserr.CodeOf(err))
		}
		if err := moveMarks(p.Dir(c.Name), dst); err != nil {
			return Miss, errors.Join(fmt.Errorf("take %s from the pool: %w", c.Name, err), remove(context.WithoutCancel(ctx), dst))
		}
		if c.Layer == l.Digest {
			return Hit, nil
		}
		err = p.adjust(ctx, c, l, dst)
		if err == nil {
			return Adjusted, nil
		}
		return Miss, errors.Join(fmt.Errorf("bring %s of the pool up to date: %w", c.Name, err), remove(context.WithoutCancel(ctx), dst))
	}
	return Miss, nil
}

// ClaimOther is Claim of copies of other layers only.
func (p *Pool) ClaimOther(ctx context.Context, l *layer.Layer, dst string) (how string, err error) {
	others, err := p.Others(l.Digest)
	if err != nil {
		return Miss, err
	}
	return p.claim(ctx, others, l, dst)
}

func rank(c Copy, l *layer.Layer) int {
	if c.Layer == l.Digest {
		return 0
	}
	return 1
}

func (p *Pool) adjust(ctx context.Context, c Copy, l *layer.Layer, dst string) error {
	old, err := seed.ReadManifest(filepath.Join(p.layers.Dir(c.Layer), layer.ManifestName))
	if err != nil {
		return err
	}
	if err := Adjust(ctx, Diff(old, l.Manifest), l.Tree, dst, p.owner); err != nil {
		return err
	}
	marks := seed.MarksFile(dst)
	return seed.ReadMarks(marks, c.Layer).Moved(old, l.Manifest).Write(marks, l.Digest)
}

// moveMarks moves the marks of a folder. Afterwards to has no others.
func moveMarks(from, to string) error {
	err := os.Rename(seed.MarksFile(from), seed.MarksFile(to))
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(seed.MarksFile(to))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Put gives a folder, a complete copy of a layer, its place in the pool, with its marks.
func (p *Pool) Put(folder, digest string) error {
	if err := durable.Tree(folder); err != nil {
		return fmt.Errorf("put a copy into the pool: %w", fserr.CodeOf(err))
	}
	for n := range maxCopies {
		at := p.Dir(fmt.Sprintf("%s-%d", digest, n))
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		// Another process that puts its copy there too may get these marks: they do not fit its files, and are of no use to it.
		err := moveMarks(folder, at)
		if err == nil {
			err = os.Rename(folder, at)
		}
		if err == nil {
			return nil
		}
		if _, there := os.Lstat(at); there != nil {
			return fmt.Errorf("put a copy into the pool: %w", fserr.CodeOf(err))
		}
	}
	return fmt.Errorf("put a copy into the pool: %w", fserr.EEXIST)
}

// maxCopies bounds the copies of one layer.
const maxCopies = 1000

// Remove removes a copy. It first renames it to staged, a free name on the pool's file system, so that no process takes a
// partly removed copy. A copy that is already gone is no error.
func (p *Pool) Remove(ctx context.Context, name, staged string) error {
	err := os.Rename(p.Dir(name), staged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take %s from the pool: %w", name, fserr.CodeOf(err))
	}
	if err := os.Remove(seed.MarksFile(p.Dir(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, remove(ctx, staged))
	}
	return remove(ctx, staged)
}

// remove removes a tree by descriptor.
func remove(ctx context.Context, dir string) error {
	root, err := rootfs.Open(filepath.Dir(dir), rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	_, err = root.RemoveAll(ctx, filepath.Base(dir))
	return err
}
