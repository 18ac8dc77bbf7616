package tree

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// Draft is a tree that is made under a reserved name, and then moved to its place. It lies in its place if that exists, else beside it:
//
//	NewDraft, Dir, File, Symlink, Link, …, Place, Drop    the tree is in its place
//	NewDraft, …, Drop                                     nothing happened
//
// Names are relative and clean. Missing directories above a name are made. No part of a name may be a link, also when a hostile process
// swaps the tree's directories. Sweep removes what a killed process left. A Draft is for one goroutine.
type Draft struct {
	// Admit is called with the number of entries before they are made. Its error ends the call. It may be changed between calls.
	Admit func(entries int64) error
	// Reserve is called with the further bytes of memory that the names kept for Place take. Its error ends the call. May be nil.
	Reserve func(bytes int64) error

	// home is the directory that has the draft, under the name tmp; nil after Drop and Leave. dropped is the result of Drop.
	home    node.Node
	tmp     string
	dropped error
	// base is the name in home of a place that does not exist; "" if home is the place. Then place is home, opened again.
	base  string
	place node.Node
	// box is the draft's directory. It has the tree under the name draftTree.
	box node.Node
	// tree is in a directory of the tree; nil if begin failed.
	tree *cursor
	// dirs have the attributes that directories get in the end, by name.
	dirs map[string]DirAttributes
}

// DirAttributes are what a directory of a Draft gets when nothing in it changes any more.
type DirAttributes struct {
	Mode    uint32
	MtimeNs int64
}

const (
	draftTree  = "tree"
	draftSpool = "spool"
	// draftDirMode is the mode of directories without attributes of their own.
	draftDirMode = 0o755
)

// NewDraft begins a tree at place, a directory, which Place fills, or a missing name in a directory that exists. A final link at place is
// followed.
func NewDraft(r Tree, place string) (_ *Draft, err error) {
	nodes, err := nodesOf(r)
	if err != nil {
		return nil, err
	}
	d := &Draft{tmp: PassingName(), dirs: map[string]DirAttributes{}}
	d.home, err = nodes.Node(place, true)
	if fserr.CodeOf(err) == fserr.ENOENT {
		d.home, d.base, err = missingIn(nodes, place)
	}
	if err != nil {
		return nil, err
	}
	if d.base == "" {
		d.place, err = nodes.Node(place, true)
	}
	if err != nil {
		return nil, errors.Join(err, d.home.Close())
	}
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, d.Drop(context.Background()))
	}
	return d, nil
}

// missingIn opens the directory of a place that does not exist.
func missingIn(nodes Nodes, place string) (node.Node, string, error) {
	dir, base, _, err := nodes.Parent(place)
	if err != nil {
		return nil, "", err
	}
	switch _, err = dir.Lstat(base); {
	case err == nil: // a link that leads nowhere
		err = fserr.ENOENT
	case fserr.CodeOf(err) == fserr.ENOENT:
		return dir, base, nil
	}
	return nil, "", errors.Join(err, dir.Close())
}

// begin makes the draft's directories.
func (d *Draft) begin() (err error) {
	if err := d.home.Mkdir(d.tmp, 0o700); err != nil {
		return err
	}
	if d.box, err = d.home.OpenDir(d.tmp); err != nil {
		return err
	}
	if err := d.box.Mkdir(draftTree, draftDirMode); err != nil {
		return err
	}
	top, err := d.box.OpenDir(draftTree)
	if err != nil {
		return err
	}
	st, err := top.Lstat("")
	if err != nil {
		return errors.Join(err, top.Close())
	}
	d.tree = &cursor{trail: node.NewTrail(top, st.ID())}
	return nil
}

// Spool makes a file beside the tree, which Drop and Place remove.
func (d *Draft) Spool() (node.File, error) {
	return d.box.OpenFile(draftSpool, node.O_RDWR|node.O_CREAT|node.O_EXCL|node.O_NOFOLLOW, 0o600)
}

// Dir makes a directory, or accepts one that the draft has; "." is the tree itself. It gets its attributes from Place.
func (d *Draft) Dir(name string, a DirAttributes) error {
	if err := d.reserve(name); err != nil {
		return err
	}
	if _, err := d.tree.enter(name, d.make); err != nil {
		return err
	}
	d.dirs[name] = a
	return nil
}

// File makes a file, open for writing. It fails with EEXIST if the draft has the name.
func (d *Draft) File(name string, mode uint32) (f node.File, err error) {
	err = d.leaf(name, func(dir node.Node, base string) (err error) {
		f, err = dir.OpenFile(base, node.O_WRONLY|node.O_CREAT|node.O_EXCL|node.O_NOFOLLOW, mode&0o1777)
		return err
	})
	return f, err
}

// Symlink makes a symbolic link with a modification time. It fails with EEXIST if the draft has the name.
func (d *Draft) Symlink(name, target string, mtimeNs int64) error {
	return d.leaf(name, func(dir node.Node, base string) error {
		if err := dir.Symlink(target, base); err != nil {
			return err
		}
		return dir.Utimes(base, mtimeNs, mtimeNs)
	})
}

// Link makes a further name of a file that the draft has.
func (d *Draft) Link(name, file string) error {
	here, err := d.tree.enter(path.Dir(file), nil)
	if err != nil {
		return err
	}
	from := here.Share()
	defer from.Release()
	st, err := from.Lstat(path.Base(file))
	if err != nil {
		return err
	}
	if st.Type() != node.TypeFile {
		return fserr.EPERM
	}
	return d.leaf(name, func(dir node.Node, base string) error { return from.Link(path.Base(file), dir, base) })
}

// leaf calls make in the directory of a name.
func (d *Draft) leaf(name string, make func(dir node.Node, base string) error) error {
	here, err := d.tree.enter(path.Dir(name), d.make)
	if err != nil {
		return err
	}
	if err := d.admit(); err != nil {
		return err
	}
	return make(here.Node, path.Base(name))
}

func (d *Draft) admit() error {
	if d.Admit == nil {
		return nil
	}
	return d.Admit(1)
}

// make makes a directory of the tree.
func (d *Draft) make(in node.Node, name string) error {
	if err := d.admit(); err != nil {
		return err
	}
	return in.Mkdir(name, draftDirMode)
}

// cursor is in a directory of a tree, whose path has these names.
type cursor struct {
	trail *node.Trail
	names []string
}

// enter goes to a directory by its path from the top, "." for the top itself. It calls missing, unless that is nil, for a directory that does
// not exist.
func (c *cursor) enter(dir string, missing func(in node.Node, name string) error) (*node.Held, error) {
	var names []string
	if dir != "." {
		names = strings.Split(dir, "/")
	}
	common := 0
	for common < len(names) && common < len(c.names) && names[common] == c.names[common] {
		common++
	}
	for len(c.names) > common {
		c.trail.Leave()
		c.names = c.names[:len(c.names)-1]
	}
	for _, name := range names[common:] {
		if err := c.step(name, missing); err != nil {
			return nil, err
		}
		c.names = append(c.names, name)
	}
	return c.trail.Here()
}

func (c *cursor) step(name string, missing func(in node.Node, name string) error) error {
	_, err := c.trail.Enter(name)
	if missing == nil || fserr.CodeOf(err) != fserr.ENOENT {
		return err
	}
	here, err := c.trail.Here()
	if err != nil {
		return err
	}
	if err := missing(here.Node, name); err != nil {
		return err
	}
	_, err = c.trail.Enter(name)
	return err
}

// Drop removes what is left under the reserved name. The draft cannot be used any more. Dropping it again returns the same.
func (d *Draft) Drop(ctx context.Context) error {
	if d.home != nil {
		d.close()
		_, d.dropped = RemoveEntries(ctx, d.home, node.Entry{Name: d.tmp, Type: node.TypeDirectory}) // closes home
		d.home = nil
	}
	return d.dropped
}

// Leave closes the draft and removes nothing: the tree that has it is going to be removed as a whole.
func (d *Draft) Leave() {
	if d.home == nil {
		return
	}
	d.close()
	_ = d.home.Close() // nothing was written through it
	d.home = nil
}

// close closes all directories but home.
func (d *Draft) close() {
	if d.tree != nil {
		d.tree.trail.Close()
	}
	for _, n := range []node.Node{d.box, d.place} {
		if n != nil {
			_ = n.Close() // nothing was written through it
		}
	}
}

// reserve reserves memory for a name that is kept.
func (d *Draft) reserve(name string) error {
	const each = 128
	return d.keep(int64(len(name)) + each)
}

func (d *Draft) keep(bytes int64) error {
	if d.Reserve == nil {
		return nil
	}
	return d.Reserve(bytes)
}
