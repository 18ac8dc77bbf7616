package rootfs

import (
	"context"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// linkClaim is the first name met of a source file that has several. The copies
// of the others wait for it and become links to it.
type linkClaim struct {
	// done is closed once the fields below are final.
	done chan struct{}
	// dir is the directory below the top that holds the copy, ending in a slash or "".
	dir, name string
	ok        bool
	src       Stat
	dst       fileID
}

// settle ends the waiting; only the first call counts. A nil claim is nobody's.
func (l *linkClaim) settle(src, dst Stat, ok bool) {
	if l == nil {
		return
	}
	select {
	case <-l.done:
	default:
		l.ok, l.src, l.dst = ok, src, dst.id()
		close(l.done)
	}
}

// hardLink makes job's destination a link to the copy of the same source file
// under another name. linked is false when it has to be copied: it is the first,
// or the first was not copied, or cannot be linked to.
func (c *copier) hardLink(job *fileJob, dir string) (linked bool, err error) {
	first := c.links[job.stat.id()]
	if first == nil {
		job.claim = &linkClaim{done: make(chan struct{}), dir: dir, name: job.src.name}
		c.links[job.stat.id()] = job.claim
		return false, nil
	}
	select {
	case <-first.done:
	case <-c.ctx.Done():
		return false, context.Cause(c.ctx)
	}
	if !first.ok {
		return false, nil
	}
	return c.linkTo(first, job, dir)
}

func (c *copier) linkTo(first *linkClaim, job *fileJob, dir string) (linked bool, err error) {
	from, err := c.targetOf(first.dir, dir)
	if err != nil {
		return false, unlinkable(err)
	}
	defer from.release()
	made, err := c.put(job.dst, job.stat.id(), func() error {
		return from.link(first.name, job.dst.dir.dirNode, job.dst.name)
	})
	if err != nil || !made {
		return err == nil, unlinkable(err)
	}
	if st, err := job.dst.dir.lstat(job.dst.name); err != nil || st.id() != first.dst {
		// Somebody replaced the first copy: what was linked is not ours.
		return false, ignoring(job.dst.dir.unlink(job.dst.name), fserr.ENOENT)
	}
	c.tally.file(job.rel, first.src, "")
	return true, nil
}

// unlinkable drops the errors after which a copy will do instead of a link.
func unlinkable(err error) error {
	return ignoring(err, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP, fserr.EMLINK, fserr.EXDEV, fserr.EPERM, fserr.EOPNOTSUPP)
}

// targetOf opens the destination's directory rel, from the top, one component at
// a time; here is the current one. The caller releases it.
func (c *copier) targetOf(rel, here string) (*heldDir, error) {
	if rel == here {
		at, err := c.dstTrail.here()
		if err != nil {
			return nil, err
		}
		return at.share(), nil
	}
	at := c.dstTrail.top().share()
	for name := range strings.SplitSeq(strings.TrimSuffix(rel, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := at.openDir(name)
		at.release()
		if err != nil {
			return nil, err
		}
		at = hold(next)
	}
	return at, nil
}
