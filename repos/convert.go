package repos

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
	"github.com/ctxfs/ctxfs/review"
)

// side returns one version of a change.
type side func(c *review.PickedChange) *review.Version

func before(c *review.PickedChange) *review.Version { return &c.Before }
func after(c *review.PickedChange) *review.Version  { return &c.After }

// inBlobs returns the picked changes as git stores them: with line ends, encodings and keywords converted as the base's .gitattributes, the
// repository's info/attributes and core.autocrlf say. A file that a filter program converts is refused, unless it needs no conversion.
func (s *staging) inBlobs(ctx context.Context) (out []review.PickedChange, err error) {
	out = slices.Clone(s.picked.Changes)
	converts, err := s.draft.Attributes(ctx)
	if err != nil || (!converts && len(s.picked.Attributes) == 0) {
		return out, err
	}
	filters := map[int]string{}
	for _, of := range []side{before, after} {
		for _, attributes := range []bool{false, true} {
			// A changed .gitattributes file is converted by itself, so that the base's counts for all others.
			if err := s.convert(ctx, of, attributes, out, filters); err != nil {
				return nil, err
			}
		}
	}
	var refused []review.Path
	for _, i := range slices.Sorted(maps.Keys(filters)) {
		ok, err := s.unfiltered(&out[i], filters[i])
		if err != nil {
			return nil, err
		}
		if !ok {
			refused = append(refused, out[i].Path)
		}
	}
	if len(refused) > 0 {
		return nil, s.refuse(NeedsFilter, refused, "the attributes of these files name a filter program, such as Git LFS, which ctxfs does not run", "leave them out, and commit them with git")
	}
	return out, nil
}

// convert converts one side of the changes, of .gitattributes files or of the others. It adds to filters what needs a filter program, and leaves that as
// it is.
func (s *staging) convert(ctx context.Context, of side, attributes bool, changes []review.PickedChange, filters map[int]string) (err error) {
	work, err := os.MkdirTemp(s.r.cfg.Git.Scratch, "clean-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	at, err := s.layOut(work, of, attributes, changes)
	if err != nil || len(at) == 0 {
		return err
	}
	paths := slices.Sorted(maps.Keys(at))
	named, err := s.draft.Filters(ctx, work, paths)
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
	ids, err := s.draft.Clean(ctx, work, paths)
	if err != nil {
		return err
	}
	for p, id := range ids {
		if err := s.read(id, of(&changes[at[p]])); err != nil {
			return err
		}
	}
	return nil
}

// read makes a blob the content of a version.
func (s *staging) read(id string, v *review.Version) error {
	content, err := s.draft.Blob(id)
	if err == nil {
		v.Hash, v.Size, err = s.r.cfg.Reviews.Contents().Put(content)
	}
	return err
}

// layOut makes a working tree of the files of one side, with the base's .gitattributes. It returns which change each path is of.
func (s *staging) layOut(work string, of side, attributes bool, changes []review.PickedChange) (map[string]int, error) {
	contents := s.r.cfg.Reviews.Contents()
	at := map[string]int{}
	for i := range changes {
		v, p := of(&changes[i]), s.within(changes[i].Path)
		if v.Type != rootfs.TypeFile || (path.Base(p) == ".gitattributes") != attributes {
			continue
		}
		at[p] = i
		if err := contents.Place(v.Hash, filepath.Join(work, filepath.FromSlash(p))); err != nil {
			return nil, fmt.Errorf("lay out a file for git: %w", err)
		}
	}
	for p, v := range s.picked.Attributes {
		err := contents.Place(v.Hash, filepath.Join(work, filepath.FromSlash(s.within(p))))
		// The side may have its own version, or a file where the directory was.
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, fmt.Errorf("lay out .gitattributes for git: %w", err)
		}
	}
	return at, nil
}

// unfiltered reports whether a change of a file with a filter can be committed without the filter: the change leaves the content as it is, or
// the contents are pointers of Git LFS. A version whose pointer the branch has becomes that pointer.
func (s *staging) unfiltered(c *review.PickedChange, filter string) (bool, error) {
	at, e, err := s.draft.Entry(s.within(c.Path))
	if err != nil {
		return false, err
	}
	var now review.Version
	if at == s.within(c.Path) && (e.Mode == git.ModeFile || e.Mode == git.ModeExecutable) {
		if err := s.read(e.ID, &now); err != nil {
			return false, err
		}
	}
	if now.Hash != "" && c.Before.Hash == c.After.Hash {
		c.Before.Hash, c.Before.Size = now.Hash, now.Size
		c.After.Hash, c.After.Size = now.Hash, now.Size
		return true, nil
	}
	if filter != "lfs" {
		return false, nil
	}
	target, err := s.pointsTo(now)
	if err != nil {
		return false, err
	}
	for _, of := range []side{before, after} {
		v := of(c)
		if v.Type != rootfs.TypeFile {
			continue
		}
		if target != "" && v.Hash == target {
			v.Hash, v.Size = now.Hash, now.Size
			continue
		}
		if own, err := s.pointsTo(*v); err != nil || own == "" {
			return false, err
		}
	}
	return true, nil
}

// maxPointer bounds a pointer of Git LFS, in bytes (the specification of Git LFS, "The Pointer").
const maxPointer = 1024

// pointsTo returns the SHA-256 of the content that a pointer of Git LFS names, "" if the version is no pointer.
func (s *staging) pointsTo(v review.Version) (string, error) {
	if v.Hash == "" || v.Size >= maxPointer {
		return "", nil
	}
	f, err := s.r.cfg.Reviews.Contents().Open(v.Hash)
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
