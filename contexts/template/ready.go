package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Names within a template layer's directory. A layer without its ready file does not count as built.
const (
	treeName     = "tree"
	manifestName = "manifest"
	readyName    = ".template-ready"
)

// hashDigits is the length of a template layer's name: SHA-256 in hex.
const hashDigits = 64

// Built is a complete template layer.
type Built struct {
	// Hash names it.
	Hash string
	// Dir, Tree and ManifestFile are server paths. Nothing in Tree is ever changed.
	Dir, Tree, ManifestFile string
	// Chain and Deps are those of the first template that resolved to this hash; others may have resolved to it since.
	Chain []string
	Deps  []Dep
	// Files counts files and links, Bytes their content.
	Files, Bytes int64
	BuiltAt      time.Time
}

// readyFormat is the format of the ready file.
const readyFormat = 1

type readyFile struct {
	Format int       `json:"format"`
	Hash   string    `json:"hash"`
	Chain  []string  `json:"chain"`
	Deps   []Dep     `json:"deps"`
	Files  int64     `json:"files"`
	Bytes  int64     `json:"bytes"`
	Built  time.Time `json:"built"`
}

// load returns a template layer, or nil if it is not ready. A damaged ready file
// counts as missing: the layer is built again.
func load(layers, hash string) (*Built, error) {
	dir := filepath.Join(layers, hash)
	data, err := statedir.ReadFile(filepath.Join(dir, readyName), statedir.MaxList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a missing layer is no failure
	}
	if err != nil {
		return nil, internal("read the template's ready file", err)
	}
	var f readyFile
	if json.Unmarshal(data, &f) != nil || f.Format != readyFormat || f.Hash != hash {
		return nil, nil //nolint:nilnil // as above
	}
	return &Built{
		Hash: hash, Dir: dir, Tree: filepath.Join(dir, treeName), ManifestFile: filepath.Join(dir, manifestName),
		Chain: f.Chain, Deps: f.Deps, Files: f.Files, Bytes: f.Bytes, BuiltAt: f.Built,
	}, nil
}

// markReady writes the ready file: whole, or not at all.
func markReady(dir string, b readyFile) (err error) {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	root, err := rootfs.Open(dir, rootfs.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	f, err := root.CreateAtomic(readyName, 0o600, false)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(data, '\n')); err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Commit(true)
}

// internal reduces an error whose text has server paths to its errno.
func internal(doing string, err error) error {
	return &fserr.Error{Code: fserr.CodeOf(err), Err: err, Detail: fmt.Sprintf("cannot %s: %s", doing, fserr.CodeOf(err).Text())}
}

// Ready returns the template layer of a hash, given in full or as its first 12 digits, or
// nil if there is none. It fails with EINVAL if two hashes begin with these digits.
func (b *Builder) Ready(hash string) (*Built, error) {
	if !hashPattern.MatchString(hash) {
		return nil, badHash(hash)
	}
	if len(hash) == hashDigits {
		return load(b.opts.Layers, hash)
	}
	all, err := b.List()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(o Built) bool { return !strings.HasPrefix(o.Hash, hash) })
	switch len(all) {
	case 0:
		return nil, nil //nolint:nilnil // not there is no failure
	case 1:
		return &all[0], nil
	}
	return nil, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("several templates have hashes that begin with %s", hash)}
}

func badHash(hash string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("bad template hash %.80q: it has 12 or 64 hex digits", hash)}
}

// List returns the template layers that are ready, by hash.
func (b *Builder) List() ([]Built, error) {
	entries, err := os.ReadDir(b.opts.Layers)
	if err != nil {
		return nil, internal("list the templates", err)
	}
	var out []Built
	for _, e := range entries {
		if !e.IsDir() || len(e.Name()) != hashDigits {
			continue
		}
		built, err := load(b.opts.Layers, e.Name())
		if err != nil {
			return nil, err
		}
		if built != nil {
			out = append(out, *built)
		}
	}
	return out, nil
}

// IsLayer reports whether dir, a layer's directory, is a template's and ready.
func IsLayer(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, readyName))
	return err == nil
}

// Settled is Ready after it waited for builds and removals of the template. A caller that has
// recorded before that it needs the layer (see Remove) may use the result. It is nil if there is none.
func (b *Builder) Settled(ctx context.Context, hash string) (*Built, error) {
	built, err := b.Ready(hash)
	if built == nil || err != nil {
		return nil, err
	}
	f := b.lockFile(built.Hash)
	ok, err := f.TryRLockContext(ctx, lockPoll)
	release, err := held(f, ok, err)
	if err != nil {
		return nil, err
	}
	defer release()
	return load(b.opts.Layers, built.Hash)
}

// Remove moves a template layer to a free path on its file system, where the caller deletes
// it. It leaves a layer that a build or another removal works on. It calls needed when neither
// can begin any more, and leaves the layer if needed returns true.
func (b *Builder) Remove(hash, to string, needed func() (bool, error)) (removed bool, err error) {
	if len(hash) != hashDigits || !hashPattern.MatchString(hash) {
		return false, badHash(hash)
	}
	f := b.lockFile(hash)
	ok, err := f.TryLock()
	if err == nil && !ok {
		return false, f.Close()
	}
	release, err := held(f, ok, err)
	if err != nil {
		return false, err
	}
	defer release()
	if keep, err := needed(); keep || err != nil {
		return false, err
	}
	return b.drop(hash, to)
}

func (b *Builder) drop(hash, to string) (bool, error) {
	built, err := load(b.opts.Layers, hash)
	if built == nil || err != nil {
		return false, err
	}
	if err := os.Rename(built.Dir, to); err != nil {
		return false, internal("remove a template", err)
	}
	return true, nil
}
