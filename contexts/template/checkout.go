package template

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// maxTreeDepth bounds how deep a repository's directories may be nested.
const maxTreeDepth = 128

// tally counts what a build has written, and stops one that exceeds the limits: a
// repository of a few kilobytes can name endless files.
type tally struct {
	maxFiles, maxBytes int64
	files, dirs, bytes int64
}

func (t *tally) check() error {
	if t.files <= t.maxFiles && t.dirs <= t.maxFiles && t.bytes <= t.maxBytes {
		return nil
	}
	return &fserr.Error{
		Code:   fserr.EFBIG,
		Detail: fmt.Sprintf("the template has more than %s files or %s", seed.Count(t.maxFiles), seed.Size(t.maxBytes)),
		Hint:   "leave a repository out, or raise --seed-max-bytes / --seed-max-files",
	}
}

// checkout writes one commit's files below a directory. It knows files, executable
// files, links and directories; submodules are empty directories, as in a clone
// without them. Every name is made anew, so nothing that a repository holds can
// stand in the way of what comes after it: not a link, not a second entry of the same name.
type checkout struct {
	ctx     context.Context
	objects *git.Objects
	dst     rootfs.Root
	tally   *tally
	// written is called after every file.
	written func()
}

// commit writes the commit's files into dir, which exists and is empty.
func (c *checkout) commit(commit, dir string) error {
	tree, err := c.objects.TreeOf(commit)
	if err != nil {
		return err
	}
	return c.tree(tree, dir, "", 0)
}

// tree writes a tree object. rel is where it is in the repository, for messages.
func (c *checkout) tree(id, dir, rel string, depth int) error {
	if depth > maxTreeDepth {
		return git.RefuseEntry(rel, fmt.Sprintf("it lies more than %d levels deep", maxTreeDepth))
	}
	entries, err := c.objects.Tree(id, rel)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := checkName(e.Name); err != nil {
			return git.RefuseEntry(path.Join(rel, e.Name), err.Error())
		}
	}
	for _, e := range entries {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(e, path.Join(dir, e.Name), path.Join(rel, e.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkout) entry(e git.TreeEntry, p, rel string, depth int) error {
	switch e.Mode {
	case 0o100644, 0o100664: // the second was written by git before 2005
		return c.file(e.ID, p, 0o644)
	case 0o100755:
		return c.file(e.ID, p, 0o755)
	case 0o120000:
		return c.link(e.ID, p, rel)
	case 0o40000, 0o160000:
		c.tally.dirs++
		if err := errors.Join(c.tally.check(), c.dst.Mkdir(p, 0o755)); err != nil || e.Mode == 0o160000 {
			return err
		}
		return c.tree(e.ID, p, rel, depth+1)
	}
	return git.RefuseEntry(rel, fmt.Sprintf("mode %o is none that git gives", e.Mode))
}

// blob asks for a file's content and counts it, before any of it is written.
func (c *checkout) blob(id string) (size int64, err error) {
	if size, err = c.objects.Blob(id); err != nil {
		return 0, err
	}
	c.tally.files++
	c.tally.bytes += size
	return size, c.tally.check()
}

func (c *checkout) file(id, p string, mode uint32) (err error) {
	if _, err := c.blob(id); err != nil {
		return err
	}
	f, err := c.dst.OpenFile(p, rootfs.O_WRONLY|rootfs.O_CREAT|rootfs.O_EXCL|rootfs.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	err = c.objects.CopyTo(f)
	c.written()
	return errors.Join(err, f.Close())
}

func (c *checkout) link(id, p, rel string) error {
	size, err := c.blob(id)
	if err != nil {
		return err
	}
	if size == 0 || size >= rootfs.MaxPath {
		return git.RefuseEntry(rel, "it is a link of no, or too long a target")
	}
	var target strings.Builder
	if err := c.objects.CopyTo(&target); err != nil {
		return err
	}
	if strings.Contains(target.String(), "\x00") {
		return git.RefuseEntry(rel, "it is a link whose target has a NUL")
	}
	c.written()
	return c.dst.Symlink(target.String(), p)
}
