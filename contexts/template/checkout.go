package template

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Bounds of what a repository may hold: how deep it is, and one tree object in bytes.
const (
	maxTreeDepth = 128
	maxTreeSize  = 64 << 20
)

// tally counts what a build has written, and stops one that nobody meant: a
// repository of a few kilobytes can name more files than there are.
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
	objects *objects
	dst     rootfs.Root
	tally   *tally
	// written is told of every file.
	written func()
}

// refused says that a repository holds what cannot be in a context.
func refused(p, why string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("entry %.300q is refused: %s", p, why)}
}

// commit writes the commit's files into dir, which exists and is empty.
func (c *checkout) commit(commit, dir string) error {
	tree, err := c.objects.treeOf(commit)
	if err != nil {
		return lost("commit", commit, err)
	}
	return c.tree(tree, dir, "", 0)
}

// lost tells of an object that is not there, or not what it should be.
func lost(kind, id string, err error) error {
	if !errors.Is(err, errMissing) {
		return err
	}
	return &fserr.Error{
		Code: fserr.EIO, Err: err, Detail: fmt.Sprintf("its %s %.12s is missing or damaged", kind, id),
		Hint: "is it a shallow or partial clone? git fetch --unshallow, or git fsck",
	}
}

// tree writes a tree object. rel is where it is in the repository, for messages.
func (c *checkout) tree(id, dir, rel string, depth int) error {
	if depth > maxTreeDepth {
		return refused(rel, fmt.Sprintf("it lies more than %d levels deep", maxTreeDepth))
	}
	_, data, err := c.objects.read(id, "tree", maxTreeSize)
	if err != nil {
		return lost("tree", id, err)
	}
	entries, err := parseTree(data, len(id)/2, rel)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(e, path.Join(dir, e.name), path.Join(rel, e.name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkout) entry(e treeEntry, p, rel string, depth int) error {
	switch e.mode {
	case 0o100644, 0o100664: // the second was written by git before 2005
		return c.file(e.id, p, 0o644)
	case 0o100755:
		return c.file(e.id, p, 0o755)
	case 0o120000:
		return c.link(e.id, p, rel)
	case 0o40000, 0o160000:
		c.tally.dirs++
		if err := errors.Join(c.tally.check(), c.dst.Mkdir(p, 0o755)); err != nil || e.mode == 0o160000 {
			return err
		}
		return c.tree(e.id, p, rel, depth+1)
	}
	return refused(rel, fmt.Sprintf("mode %o is none that git gives", e.mode))
}

// blob asks for a file's content and counts it, before any of it is written.
func (c *checkout) blob(id string) (header, error) {
	h, err := c.objects.ask(id)
	if err == nil && h.kind != "blob" {
		err = errMissing
	}
	if err != nil {
		return h, lost("file", id, err)
	}
	c.tally.files++
	c.tally.bytes += h.size
	return h, c.tally.check()
}

func (c *checkout) file(id, p string, mode uint32) (err error) {
	h, err := c.blob(id)
	if err != nil {
		return err
	}
	f, err := c.dst.OpenFile(p, rootfs.O_WRONLY|rootfs.O_CREAT|rootfs.O_EXCL|rootfs.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	err = c.objects.copyBody(f, h.size)
	c.written()
	return errors.Join(err, f.Close())
}

func (c *checkout) link(id, p, rel string) error {
	h, err := c.blob(id)
	if err != nil {
		return err
	}
	if h.size == 0 || h.size >= rootfs.MaxPath {
		return refused(rel, "it is a link of no, or too long a target")
	}
	var target strings.Builder
	if err := c.objects.copyBody(&target, h.size); err != nil {
		return err
	}
	if strings.Contains(target.String(), "\x00") {
		return refused(rel, "it is a link whose target has a NUL")
	}
	c.written()
	return c.dst.Symlink(target.String(), p)
}

// treeEntry is one line of a tree object.
type treeEntry struct {
	mode uint32
	name string
	id   string
}

// parseTree reads a tree object: "mode SP name NUL id" for each entry, the id in
// hashLen bytes. Every name is checked, and that none comes twice.
func parseTree(data []byte, hashLen int, rel string) ([]treeEntry, error) {
	var out []treeEntry
	seen := map[string]bool{}
	for len(data) > 0 {
		mode, rest, ok1 := bytes.Cut(data, []byte(" "))
		name, rest, ok2 := bytes.Cut(rest, []byte("\x00"))
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if !ok1 || !ok2 || err != nil || len(rest) < hashLen {
			return nil, refused(rel, "its directory is damaged")
		}
		e := treeEntry{mode: uint32(m), name: string(name), id: hex.EncodeToString(rest[:hashLen])}
		if err := checkName(e.name); err != nil {
			return nil, refused(rel+"/"+e.name, err.Error())
		}
		if seen[e.name] {
			return nil, refused(path.Join(rel, e.name), "it is there twice")
		}
		seen[e.name] = true
		out, data = append(out, e), rest[hashLen:]
	}
	return out, nil
}
