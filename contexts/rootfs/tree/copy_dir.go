package tree

import (
	"context"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// copyLevel is a directory on the walker's way.
type copyLevel struct {
	// rel ends in a slash, or is "" for the top. If deep, it belongs to the last directory above that a path can name.
	rel     string
	deep    bool
	entries []node.Entry
	// bytes is the memory of the entries.
	bytes int64
	dir   *copyDir
	// anew says that this copy made the directory, if it brings an earlier one up to date.
	anew bool
	// base is the directory's counterpart in CopyOptions.Base, nil if there is none. baseLooked says that it was looked for.
	base       *node.Held
	baseLooked bool
}

// copyDir is a directory being filled. It gets its mode and times when the walker and all workers are done with it, since it may be
// read-only, and filling it changes its times.
type copyDir struct {
	pending atomic.Int32
	stat    node.Stat
	// fresh says that the copy made it. An existing one keeps its mode.
	fresh bool
}

func newCopyDir(st node.Stat, fresh bool) *copyDir {
	d := &copyDir{stat: st, fresh: fresh}
	d.pending.Store(1)
	return d
}

// dirXattrs copies the extended attributes of the current directory, rel, if it was just made.
func (c *copier) dirXattrs(rel string, fresh bool) error {
	if !fresh || !c.opts.PreserveXattrs {
		return nil
	}
	src, err := c.srcTrail.Here()
	if err != nil {
		return err
	}
	dst, err := c.dstTrail.Here()
	if err != nil {
		return err
	}
	xattrs, err := copyDirXattrs(src, dst, c.opts.MoreXattrs)
	if err == nil && len(xattrs) > 0 && c.opts.Made != nil {
		err = c.opts.Made(Made{Rel: rel, Xattrs: xattrs})
	}
	return err
}

// settle ends one holder's work in d, which is open as dst. The last holder completes it.
func (c *copier) settle(d *copyDir, dst node.Node) error {
	if d == nil || d.pending.Add(-1) != 0 {
		return nil
	}
	if d.fresh {
		if err := c.giveTo(dst, "", d.stat); err != nil {
			return err
		}
	}
	if c.opts.PreserveTimestamps {
		if err := dst.Utimes("", d.stat.AtimeNs, d.stat.MtimeNs); err != nil {
			return err
		}
	}
	if !d.fresh {
		return nil
	}
	return dst.Chmod("", keptMode(d.stat))
}

// giveTo gives the owner of st to name in dir, or to dir itself for "", if the options keep owners.
func (c *copier) giveTo(dir node.Node, name string, st node.Stat) error {
	if !c.opts.PreserveOwner {
		return nil
	}
	own, err := dir.Lstat(name)
	if err != nil || (own.UID == st.UID && own.GID == st.GID) {
		return err
	}
	return Ignoring(dir.Chown(name, int64(st.UID), int64(st.GID)), fserr.EPERM)
}

// keptMode returns the mode that a copy keeps: all but setuid and setgid.
func keptMode(st node.Stat) uint32 { return st.Perm() &^ 0o6000 }

// copyDirs copies the tree below the tops of both trails.
func (c *copier) copyDirs(st node.Stat, fresh bool) error {
	here, err := c.srcTrail.Here()
	if err != nil {
		return err
	}
	top, err := c.list(here)
	if err != nil {
		return err
	}
	if c.updating {
		if err := c.refresh(top, false); err != nil {
			return err
		}
		fresh = true
	}
	if err := c.dirXattrs("", fresh); err != nil {
		return err
	}
	top.dir = newCopyDir(st, fresh)
	c.levels = []*copyLevel{top}
	err = c.run()
	if err != nil {
		c.abort(err)
	}
	c.flush()
	_ = c.workers.Wait() // workers fail through abort
	c.unwind()
	if err == nil {
		err = context.Cause(c.ctx)
	}
	return err
}

func (c *copier) run() error {
	for len(c.levels) > 0 {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		l := c.levels[len(c.levels)-1]
		if len(l.entries) == 0 {
			if err := c.leave(); err != nil {
				return AtRel(err, l.rel)
			}
			continue
		}
		e := l.entries[0]
		l.entries = l.entries[1:]
		if err := c.entry(l, e); err != nil {
			return AtRel(err, l.rel+e.Name)
		}
	}
	return nil
}

// unwind completes, after a failure, as many of the open directories as possible.
func (c *copier) unwind() {
	for len(c.levels) > 0 {
		last := len(c.levels) - 1
		if d := c.dstTrail.Opened(); d != nil {
			_ = c.settle(c.levels[last].dir, d)
		}
		c.pop()
	}
}

func (c *copier) leave() error {
	here, err := c.dstTrail.Here()
	if err != nil {
		return err
	}
	c.flush()
	err = c.settle(c.levels[len(c.levels)-1].dir, here)
	c.pop()
	return err
}

// pop goes up one level. The trails keep their tops until the copy ends.
func (c *copier) pop() {
	if base := c.levels[len(c.levels)-1].base; base != nil {
		base.Release()
	}
	_ = c.reserve(-c.levels[len(c.levels)-1].bytes) // less is never refused
	c.levels = c.levels[:len(c.levels)-1]
	if len(c.levels) > 0 {
		c.srcTrail.Leave()
		c.dstTrail.Leave()
	}
}

// entry copies one entry of the current directory.
func (c *copier) entry(l *copyLevel, e node.Entry) error {
	rel := l.rel + e.Name
	if c.opts.Skip != nil && c.opts.Skip(rel, e) {
		return nil
	}
	st, followed := *e.Stat, false
	if c.opts.Dereference && st.Type() == node.TypeSymlink {
		if l.deep {
			return &fserr.Error{Code: fserr.ENAMETOOLONG}
		}
		var err error
		if st, err = c.from.Stat(c.sourcePath(rel)); err != nil {
			return err
		}
		followed = true
	}
	if err := c.admit(st); err != nil {
		return err
	}
	same := c.same(l, rel, st) && c.keeps(l, e.Name, st)
	if c.updating && !same {
		if err := c.makeWay(e.Name, st); err != nil {
			return err
		}
	}
	if st.IsDir() {
		return c.descend(rel, e.Name, followed)
	}
	if same {
		return nil
	}
	return c.leaf(l, rel, e.Name, st, followed)
}

func (c *copier) admit(st node.Stat) error {
	if c.opts.Admit == nil {
		return nil
	}
	return c.opts.Admit(st)
}

// sourcePath returns rel as a path in the source's tree.
func (c *copier) sourcePath(rel string) string { return c.src + "/" + rel }

// descend makes the directory name the current one in both trees. It skips one that vanished or was replaced.
func (c *copier) descend(rel, name string, followed bool) error {
	switch {
	case c.srcTrail.Depth() >= maxTreeLevels:
		return errTooDeep()
	case len(rel) >= node.MaxPath && c.linker != nil:
		return &fserr.Error{Code: fserr.ENAMETOOLONG}
	}
	st, err := c.enterSource(rel, name, followed)
	if fserr.CodeOf(err) == fserr.ENOENT {
		return nil
	}
	if node.Vanished(err) && !followed {
		c.tally.unstable(rel)
		return nil
	}
	if err != nil {
		return err
	}
	l, err := c.enterTarget(rel, name, st)
	if err != nil {
		c.srcTrail.Leave()
		return err
	}
	c.levels = append(c.levels, l)
	c.tally.record(rel, st, "")
	return nil
}

func (c *copier) enterSource(rel, name string, followed bool) (node.Stat, error) {
	if !followed {
		return c.srcTrail.Enter(name)
	}
	reopen := func() (node.Node, error) { return c.from.Node(c.sourcePath(rel), true) }
	n, err := reopen()
	if err != nil {
		return node.Stat{}, err
	}
	st, err := n.Lstat("")
	if err == nil && c.srcTrail.Holds(st.ID()) {
		err = &fserr.Error{Code: fserr.ELOOP, Detail: "a link leads back to a directory it is in"}
	}
	if err != nil {
		_ = n.Close()
		return node.Stat{}, err
	}
	c.srcTrail.Jump(name, n, st.ID(), reopen)
	return st, nil
}

// list lists a directory of the source as a level. Its error ends the copy, so it does not return what it had reserved.
func (c *copier) list(dir node.Node) (*copyLevel, error) {
	l := &copyLevel{}
	var err error
	l.entries, err = dir.Entries(node.Listing{Stats: true, Reserve: func(bytes int64) error {
		l.bytes += bytes
		return c.reserve(bytes)
	}})
	return l, err
}

// reserve counts memory for names that the copy holds.
func (c *copier) reserve(bytes int64) error {
	c.held += bytes
	if c.opts.Reserve == nil {
		return nil
	}
	return c.opts.Reserve(c.held)
}

// enterTarget lists the source's current directory and enters its counterpart.
func (c *copier) enterTarget(rel, name string, st node.Stat) (*copyLevel, error) {
	if st.ID() == c.guard {
		return nil, errInside
	}
	src, err := c.srcTrail.Here()
	if err != nil {
		return nil, err
	}
	l, err := c.list(src)
	if err != nil {
		return nil, err
	}
	dst, err := c.dstTrail.Here()
	if err != nil {
		return nil, err
	}
	fresh, err := makeDir(dst, name)
	if err != nil {
		return nil, err
	}
	if _, err := c.dstTrail.Enter(name); err != nil {
		return nil, err
	}
	same := false
	l.anew = fresh
	if c.updating && !fresh {
		same = c.same(c.levels[len(c.levels)-1], rel, st)
		err, fresh = c.refresh(l, same), true
	}
	if err == nil {
		err = c.dirXattrs(rel, fresh && !same)
	}
	if err != nil {
		c.dstTrail.Leave()
		return nil, err
	}
	l.rel, l.dir = rel+"/", newCopyDir(st, fresh)
	if len(rel) >= node.MaxPath {
		l.rel, l.deep = c.levels[len(c.levels)-1].rel, true
	}
	return l, nil
}
