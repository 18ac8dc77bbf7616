package tree

import (
	"errors"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// tick is more than the steps in which file systems count time. A file that changes twice within a step keeps its ctime.
const tick = 20 * time.Millisecond

// Earlier remembers what a copy has copied, so that a later copy of the same source to the same destination (CopyOptions.Earlier) copies only
// what changed since. It knows an unchanged entry by its inode and its ctime, which no program can set. The zero Earlier remembers nothing.
type Earlier struct {
	mu      sync.Mutex
	begun   int64
	entries map[string]copied
}

// copied is an entry as it was copied.
type copied struct {
	id      node.FileID
	ctimeNs int64
	// begun is when the copy began that copied the entry, in ns since the epoch.
	begun int64
}

// begin begins a copy, and reports whether there was an earlier one.
func (e *Earlier) begin() bool {
	e.begun = time.Now().UnixNano()
	if e.entries != nil {
		return true
	}
	e.entries = map[string]copied{}
	return false
}

// record remembers an entry, with its attributes from before it was copied.
func (e *Earlier) record(rel string, st node.Stat) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.entries[rel] = copied{st.ID(), st.CtimeNs, e.begun}
}

// same reports whether an entry is as it was when it was copied.
func (e *Earlier) same(rel string, st node.Stat) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was, ok := e.entries[rel]
	return ok && was.id == st.ID() && was.ctimeNs == st.CtimeNs && st.CtimeNs < was.begun-int64(tick)
}

// same reports whether an entry of the current level needs no copy. Entries without a path of their own are always copied, and so is what is
// in a directory that this copy made: a directory that comes back under its old name was removed meanwhile.
func (c *copier) same(l *copyLevel, rel string, st node.Stat) bool {
	return c.updating && !l.anew && !l.deep && len(rel) < node.MaxPath && c.opts.Earlier.same(rel, st)
}

// keeps reports whether the earlier copy of an entry that is the same stays. All names of a file must be one file in the copy: further names
// become links to a copy that stays, and a copy goes if another name was copied anew before, as after a rename of its directory.
func (c *copier) keeps(l *copyLevel, name string, st node.Stat) bool {
	if !c.opts.PreserveLinks || st.Nlink < 2 || st.IsDir() {
		return true
	}
	dst, err := c.dstTrail.Here()
	if err != nil {
		return false
	}
	own, err := dst.Lstat(name)
	if err != nil {
		return false
	}
	first := c.links[st.ID()]
	if first == nil {
		first = &linkClaim{done: make(chan struct{}), dir: l.rel, name: name}
		first.settle(st, own, true)
		c.links[st.ID()] = first
		return true
	}
	select {
	case <-first.done:
		return first.ok && first.dst == own.ID()
	default:
		return false
	}
}

// makeWay removes what an earlier copy has at a name, unless both it and the source are directories.
func (c *copier) makeWay(name string, st node.Stat) error {
	dst, err := c.dstTrail.Here()
	if err != nil {
		return err
	}
	old, err := dst.Lstat(name)
	switch {
	case fserr.CodeOf(err) == fserr.ENOENT:
		return nil
	case err != nil:
		return err
	case !old.IsDir():
		return Ignoring(dst.Unlink(name), fserr.ENOENT)
	case st.IsDir():
		return nil
	}
	return c.removeDir(dst, name)
}

// removeDir removes a directory of an earlier copy.
func (c *copier) removeDir(dst node.Node, name string) error {
	child, err := dst.OpenDir(name)
	if err != nil {
		return err
	}
	if err := child.Chmod("", 0o700); err != nil {
		return errors.Join(err, child.Close())
	}
	entries, err := child.Entries(node.Listing{})
	if err != nil {
		return errors.Join(err, child.Close())
	}
	if _, err := RemoveEntries(c.ctx, child, entries...); err != nil {
		return err
	}
	return dst.Rmdir(name)
}

// refresh readies the current directory of an earlier copy: it can be written to, and if the source has changed it loses its extended
// attributes, and the names that the source does not have any more.
func (c *copier) refresh(l *copyLevel, same bool) error {
	dst, err := c.dstTrail.Here()
	if err != nil {
		return err
	}
	if err := dst.Chmod("", 0o700); err != nil || same {
		return err
	}
	if c.opts.PreserveXattrs {
		if err := clearDirXattrs(dst, c.opts.MoreXattrs); err != nil {
			return err
		}
	}
	there := make(map[string]bool, len(l.entries))
	for _, e := range l.entries {
		there[e.Name] = true
	}
	old, err := dst.Entries(node.Listing{Stats: true})
	if err != nil {
		return err
	}
	for _, e := range old {
		switch {
		case there[e.Name]:
			continue
		case e.Stat.IsDir():
			err = c.removeDir(dst, e.Name)
		default:
			err = Ignoring(dst.Unlink(e.Name), fserr.ENOENT)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
