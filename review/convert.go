package review

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/git"
)

// whichSide returns one version of a change.
type whichSide func(c *PickedChange) *Version

func beforeOf(c *PickedChange) *Version { return &c.Before }
func afterOf(c *PickedChange) *Version  { return &c.After }

// conversion converts changes of a repository to what git stores.
type conversion struct {
	store   *Store
	scratch string
	draft   *git.Draft
	repo    Path
	// attributes are the .gitattributes files that count.
	attributes map[Path]Version
}

// InBlobs returns changes of a repository as git stores them: with line ends, encodings and keywords converted as these .gitattributes, the repository's
// info/attributes and core.autocrlf say. refused are the files that a filter program has to convert, by these or any other attributes that git goes by.
func (r *Reviews) InBlobs(ctx context.Context, g *git.Draft, repo Path, changes []PickedChange, attributes map[Path]Version) (out []PickedChange, refused []Path, err error) {
	out = slices.Clone(changes)
	c := &conversion{store: r.store, scratch: r.ws.scratch, draft: g, repo: repo, attributes: attributes}
	filters, err := c.filtered(ctx, out)
	if err != nil {
		return nil, nil, err
	}
	converts, err := g.Attributes(ctx)
	if err != nil || (!converts && len(attributes) == 0 && len(filters) == 0) {
		return out, nil, err
	}
	for _, of := range []whichSide{beforeOf, afterOf} {
		for _, attributes := range []bool{false, true} {
			// A changed .gitattributes file is converted by itself, so that the base's counts for all others.
			if err := c.convert(ctx, of, attributes, out, filters); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, i := range slices.Sorted(maps.Keys(filters)) {
		ok, err := c.unfiltered(ctx, &out[i], filters[i])
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			refused = append(refused, out[i].Path)
		}
	}
	return out, refused, nil
}

// filtered returns the filters of files that attributes of today name: the workspace may have got them after the context was seeded.
func (c *conversion) filtered(ctx context.Context, changes []PickedChange) (map[int]string, error) {
	at := map[string]int{}
	for i, change := range changes {
		if change.After.Type == rootfs.TypeFile {
			at[c.within(change.Path)] = i
		}
	}
	if len(at) == 0 {
		return map[int]string{}, nil
	}
	named, err := c.draft.Filtered(ctx, slices.Sorted(maps.Keys(at)))
	filters := map[int]string{}
	for p, filter := range named {
		filters[at[p]] = filter
	}
	return filters, err
}

// within returns a path of the workspace relative to the repository.
func (c *conversion) within(p Path) string {
	return strings.TrimPrefix(strings.TrimPrefix(string(p), string(c.repo)), "/")
}

// convert converts one side of the changes, of .gitattributes files or of the others. It adds to filters what needs a filter program, and leaves that as
// it is.
func (c *conversion) convert(ctx context.Context, of whichSide, attributes bool, changes []PickedChange, filters map[int]string) (err error) {
	work, err := os.MkdirTemp(c.scratch, "clean-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	at, err := c.layOut(work, of, attributes, changes)
	if err != nil || len(at) == 0 {
		return err
	}
	paths := slices.Sorted(maps.Keys(at))
	named, err := c.draft.Filters(ctx, work, paths)
	if err != nil {
		return err
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		if named[p] != "" {
			filters[at[p]] = named[p]
		}
		return named[p] != ""
	})
	if len(paths) == 0 {
		return nil
	}
	ids, err := c.draft.Clean(ctx, work, paths)
	if err != nil {
		return err
	}
	for p, id := range ids {
		if err := c.read(ctx, id, of(&changes[at[p]])); err != nil {
			return err
		}
	}
	return nil
}

// read makes a blob the content of a version.
func (c *conversion) read(ctx context.Context, id string, v *Version) error {
	content, err := c.draft.Blob(id)
	if err == nil {
		v.Hash, v.Size, err = c.store.Put(ctx, content)
	}
	return err
}

// layOut makes a working tree of the files of one side, with the base's .gitattributes. It returns which change each path is of.
func (c *conversion) layOut(work string, of whichSide, attributes bool, changes []PickedChange) (map[string]int, error) {
	at := map[string]int{}
	for i := range changes {
		v, p := of(&changes[i]), c.within(changes[i].Path)
		if v.Type != rootfs.TypeFile || (path.Base(p) == ".gitattributes") != attributes {
			continue
		}
		at[p] = i
		if err := c.store.Place(v.Hash, filepath.Join(work, filepath.FromSlash(p))); err != nil {
			return nil, fmt.Errorf("lay out a file for git: %w", err)
		}
	}
	for p, v := range c.attributes {
		err := c.store.Place(v.Hash, filepath.Join(work, filepath.FromSlash(c.within(p))))
		// The side may have its own version, or a file where the directory was.
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, fmt.Errorf("lay out .gitattributes for git: %w", err)
		}
	}
	return at, nil
}

// unfiltered reports whether a change of a file with a filter can be committed without the filter: the change leaves the content as it is, or
// the contents are pointers of Git LFS. A version whose pointer the branch has becomes that pointer.
func (c *conversion) unfiltered(ctx context.Context, change *PickedChange, filter string) (bool, error) {
	at, e, err := c.draft.Entry(c.within(change.Path))
	if err != nil {
		return false, err
	}
	var now Version
	if at == c.within(change.Path) && (e.Mode == git.ModeFile || e.Mode == git.ModeExecutable) {
		if err := c.read(ctx, e.ID, &now); err != nil {
			return false, err
		}
	}
	if now.Hash != "" && change.Before.Hash == change.After.Hash {
		change.Before.Hash, change.Before.Size = now.Hash, now.Size
		change.After.Hash, change.After.Size = now.Hash, now.Size
		return true, nil
	}
	if filter != "lfs" {
		return false, nil
	}
	target, err := c.pointsTo(now)
	if err != nil {
		return false, err
	}
	for _, of := range []whichSide{beforeOf, afterOf} {
		v := of(change)
		if v.Type != rootfs.TypeFile {
			continue
		}
		if target != "" && v.Hash == target {
			v.Hash, v.Size = now.Hash, now.Size
			continue
		}
		if own, err := c.pointsTo(*v); err != nil || own == "" {
			return false, err
		}
	}
	return true, nil
}

// maxPointer bounds a pointer of Git LFS, in bytes (the specification of Git LFS, "The Pointer").
const maxPointer = 1024

// pointsTo returns the SHA-256 of the content that a pointer of Git LFS names, "" if the version is no pointer.
func (c *conversion) pointsTo(v Version) (string, error) {
	if v.Hash == "" || v.Size >= maxPointer {
		return "", nil
	}
	f, err := c.store.Open(v.Hash)
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(io.LimitReader(f, maxPointer))
	target := ""
	for n := 0; lines.Scan(); n++ {
		if n == 0 && lines.Text() != "version https://git-lfs.github.com/spec/v1" {
			break
		}
		if oid, ok := strings.CutPrefix(lines.Text(), "oid sha256:"); ok {
			target = oid
		}
	}
	return target, errors.Join(lines.Err(), f.Close())
}
