package rootfs

import (
	"path"

	"github.com/ctxfs/ctxfs/fserr"
)

// reuse makes job's destination another name of the base's file, when that is what a copy would
// be; false when it is to be copied.
func (c *copier) reuse(l *copyLevel, job *fileJob) (bool, error) {
	dir := c.baseDir(l)
	if dir == nil {
		return false, nil
	}
	name := job.src.name
	own, err := dir.lstat(name)
	if err != nil || own.Type() != TypeFile || !c.opts.Base.Holds(job.rel, job.stat, own) {
		return false, nil //nolint:nilerr // what the base does not hold is copied
	}
	made, err := c.put(job.dst, job.stat.id(), func() error { return dir.link(name, job.dst.dir.dirNode, name) })
	switch fserr.CodeOf(err) {
	case fserr.EXDEV, fserr.EPERM, fserr.EOPNOTSUPP, fserr.ENOSYS: // nor will the next one be linked
		c.base = nil
		return false, nil
	case fserr.EMLINK, fserr.ENOENT:
		return false, nil
	}
	if err != nil || !made {
		job.claim.settle(Stat{}, Stat{}, false)
		return err == nil, err
	}
	job.claim.settle(job.stat, own, true)
	c.tally.bytes(job.stat.Size)
	c.tally.file(job.rel, job.stat, "")
	return true, nil
}

// baseDir opens the base's counterpart of the current directory; nil when there is none.
func (c *copier) baseDir(l *copyLevel) *heldDir {
	if c.base == nil || l.deep {
		return nil
	}
	if l.baseLooked {
		return l.base
	}
	l.baseLooked = true
	if n, err := c.base.node(path.Clean("/"+l.rel), false); err == nil {
		l.base = hold(n)
	}
	return l.base
}
