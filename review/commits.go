package review

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

const (
	// maxGits is how many git directories of one ignored directory are looked at.
	maxGits = 1000
	// maxLoose is how many entries below refs a git directory may have, maxRef the size of a file that has one ref, maxPacked that of packed-refs, and maxRefs
	// that of all files together that one look reads. A git directory that exceeds one of these counts as one with commits.
	maxLoose  = 1000
	maxRef    = 4 << 10
	maxPacked = 8 << 20
	maxRefs   = 64 << 20
)

// gitLook finds git directories with commits that are nowhere else. It reads their refs, and no objects: a branch, another local ref or a detached HEAD
// names such a commit unless a remote-tracking ref names it too. A panel may have written anything there. A file that is not regular has no refs.
type gitLook struct {
	root rootfs.Root
	// left is how many bytes may still be read.
	left int64
}

// errUnknown says that a git directory counts as one with commits: its refs cannot be read.
var errUnknown = errors.New("the refs cannot be read")

// refs has the IDs that refs name.
type refs struct{ own, remote, tags, head map[string]bool }

// in reports whether a git directory has commits.
func (c *gitLook) in(ctx context.Context, dir Path) (bool, error) {
	found := refs{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	err := c.read(ctx, dir, found)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil: // it may have some
		return true, nil
	}
	for id := range found.own {
		if !found.remote[id] {
			return true, nil
		}
	}
	for id := range found.head { // a clone of a tag has no branch
		if !found.remote[id] && !found.tags[id] {
			return true, nil
		}
	}
	return false, nil
}

// read reads the refs of a git directory.
func (c *gitLook) read(ctx context.Context, dir Path, to refs) error {
	if st, err := lstat(c.root, dir+"/reftable"); err == nil && st.IsDir() {
		return errUnknown // refs in another format
	}
	packed, err := c.file(dir+"/packed-refs", maxPacked)
	if err != nil {
		return err
	}
	for line := range strings.Lines(packed) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if peeled, ok := strings.CutPrefix(id, "^"); ok {
			id, name = peeled, "refs/tags/"
		}
		to.add(name, id)
	}
	head, err := c.file(dir+"/HEAD", maxRef)
	if err != nil {
		return err
	}
	to.add("HEAD", strings.TrimSpace(head))
	n := 0
	err = c.root.Walk(ctx, "/"+string(dir)+"/refs", tree.WalkOptions{}, func(rel string, e rootfs.Entry, walkErr error) error {
		if n++; n > maxLoose || walkErr != nil {
			return errUnknown
		}
		if e.Type != rootfs.TypeFile {
			return nil
		}
		text, err := c.file(dir+"/refs/"+Path(rel), maxRef)
		to.add("refs/"+rel, strings.TrimSpace(text))
		return err
	})
	if isAbsent(err) {
		return nil
	}
	return err
}

// file returns the content of a regular file, "" if there is none.
func (c *gitLook) file(p Path, most int64) (string, error) {
	f, _, err := c.root.OpenNoFollow("/"+string(p), rootfs.O_RDONLY)
	if code := fserr.CodeOf(err); isAbsent(err) || code == fserr.EOPNOTSUPP {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	most = min(most, c.left)
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	c.left -= int64(len(data))
	if err == nil && int64(len(data)) > most {
		err = errUnknown
	}
	return string(data), errors.Join(err, f.Close())
}

// add adds a ref. It leaves out what is no ID: a symbolic ref names another one.
func (r refs) add(name, id string) {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 20 && len(raw) != 32 || strings.Trim(id, "0") == "" {
		return
	}
	switch {
	case name == "HEAD":
		r.head[id] = true
	case strings.HasPrefix(name, "refs/remotes/"):
		r.remote[id] = true
	case strings.HasPrefix(name, "refs/tags/"):
		r.tags[id] = true
	default:
		r.own[id] = true
	}
}

// withCommits replaces the git directories among the differences, and those in directories that are one difference, by those that have commits, unless
// another difference is in what they have checked out.
func withCommits(ctx context.Context, root rootfs.Root, diffs []Difference, losable func(Difference) bool) ([]Difference, error) {
	var out []Difference
	var gits []Path
	for _, d := range diffs {
		switch {
		case d.Barred == BarredGit && d.After.Type == rootfs.TypeDirectory:
			gits = append(gits, d.Path)
		case d.Tree != nil:
			gits = append(gits, d.gits...)
		case losable(d):
			out = append(out, d)
		}
	}
	named := out
	c := gitLook{root, maxRefs}
	for _, dir := range gits {
		if slices.ContainsFunc(named, func(d Difference) bool { return isWithin(d.Path, parentOf(dir)) }) {
			continue
		}
		has, err := c.in(ctx, dir)
		if err != nil {
			return nil, err
		}
		if has {
			out = append(out, Difference{Path: dir, After: Version{Type: rootfs.TypeDirectory}, Barred: BarredGit})
		}
	}
	return out, nil
}
