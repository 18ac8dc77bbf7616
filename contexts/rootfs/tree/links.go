package tree

import (
	"context"
	"path"
	"strings"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// linkClaim is the first name that the walker meets of a source file with several. The others wait for its copy and become links to it.
type linkClaim struct {
	// done is closed when the fields below are final.
	done chan struct{}
	// dir is the directory below the top that holds the copy, ending in a slash or "".
	dir, name string
	ok        bool
	src       node.Stat
	dst       node.FileID
}

// settle ends the waiting. Only the first call counts. A nil claim does nothing.
func (l *linkClaim) settle(src, dst node.Stat, ok bool) {
	if l == nil {
		return
	}
	select {
	case <-l.done:
	default:
		l.ok, l.src, l.dst = ok, src, dst.ID()
		close(l.done)
	}
}

// hardLink makes job's destination a link to the copy of the same source file under another name. linked is false if job must be
// copied: it is the first name, or the first was not copied or cannot be linked to.
func (c *copier) hardLink(job *fileJob, dir string) (linked bool, err error) {
	first := c.links[job.stat.ID()]
	if first == nil {
		job.claim = &linkClaim{done: make(chan struct{}), dir: dir, name: job.src.name}
		c.links[job.stat.ID()] = job.claim
		return false, nil
	}
	c.flush() // the first name may be in the batch
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
	defer from.Release()
	made, err := c.put(job.dst, job.stat.ID(), func() error {
		return from.Link(first.name, job.dst.dir.Node, job.dst.name)
	})
	if err != nil || !made {
		return err == nil, unlinkable(err)
	}
	if st, err := job.dst.dir.Lstat(job.dst.name); err != nil || st.ID() != first.dst {
		// Another process replaced the first copy: the link is to its file.
		return false, Ignoring(job.dst.dir.Unlink(job.dst.name), fserr.ENOENT)
	}
	c.tally.file(job.rel, first.src, "")
	return true, nil
}

// unlinkable drops the errors after which the file is copied instead.
func unlinkable(err error) error {
	return Ignoring(err, fserr.ENOENT, fserr.ENOTDIR, fserr.ELOOP, fserr.EMLINK, fserr.EXDEV, fserr.EPERM, fserr.EOPNOTSUPP)
}

// targetOf opens the destination's directory rel from the top, one component at a time. here is the current one. The caller releases the
// result.
func (c *copier) targetOf(rel, here string) (*node.Held, error) {
	if rel == here {
		at, err := c.dstTrail.Here()
		if err != nil {
			return nil, err
		}
		return at.Share(), nil
	}
	at := c.dstTrail.Top().Share()
	for name := range strings.SplitSeq(strings.TrimSuffix(rel, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := at.OpenDir(name)
		at.Release()
		if err != nil {
			return nil, err
		}
		at = node.Hold(next)
	}
	return at, nil
}

// reuse makes job's destination another name of the base's file, if that is what a copy would be. It returns false if job must be copied.
func (c *copier) reuse(l *copyLevel, job *fileJob) (bool, error) {
	dir := c.baseDir(l)
	if dir == nil {
		return false, nil
	}
	name := job.src.name
	own, err := dir.Lstat(name)
	if err != nil || own.Type() != node.TypeFile || !c.opts.Base.Holds(job.rel, job.stat, own) {
		return false, nil //nolint:nilerr // what the base does not hold is copied
	}
	made, err := c.put(job.dst, job.stat.ID(), func() error { return dir.Link(name, job.dst.dir.Node, name) })
	switch fserr.CodeOf(err) {
	case fserr.EXDEV, fserr.EPERM, fserr.EOPNOTSUPP, fserr.ENOSYS: // the next link would fail too
		c.base = nil
		return false, nil
	case fserr.EMLINK, fserr.ENOENT:
		return false, nil
	}
	if err != nil || !made {
		job.claim.settle(node.Stat{}, node.Stat{}, false)
		return err == nil, err
	}
	job.claim.settle(job.stat, own, true)
	c.tally.bytes(job.stat.Size)
	c.tally.file(job.rel, job.stat, "")
	return true, nil
}

// baseDir opens the base's counterpart of the current directory, nil if there is none.
func (c *copier) baseDir(l *copyLevel) *node.Held {
	if c.base == nil || l.deep {
		return nil
	}
	if l.baseLooked {
		return l.base
	}
	l.baseLooked = true
	if n, err := c.base.Node(path.Clean("/"+l.rel), false); err == nil {
		l.base = node.Hold(n)
	}
	return l.base
}

// LinkedFile has the identities that overlayfs may show a linked file with: the layer's and its own.
type LinkedFile [2]node.FileID

// LinkFiles copies the directories below src to dst and links the files. Both trails are at their tops. It returns the files by their
// paths.
func LinkFiles(root Nodes, src, dst *node.Trail, workers int) (map[string]LinkedFile, error) {
	ctx, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	from, err := src.Top().Lstat("")
	if err != nil {
		return nil, err
	}
	to, err := dst.Top().Lstat("")
	if err != nil {
		return nil, err
	}
	opts := CopyOptions{PreserveTimestamps: true, PreserveXattrs: true, Workers: workers}
	linked := &linker{files: map[string]LinkedFile{}}
	c := &copier{
		ctx: ctx, abort: abort, from: root, opts: opts, tally: newTally(opts),
		guard: to.ID(), srcTrail: src, dstTrail: dst, linker: linked,
	}
	c.workers.SetLimit(workers)
	err = c.copyDirs(from, true)
	return linked.files, err
}

// linker makes a copier link files instead of copying them.
type linker struct {
	mu sync.Mutex
	// files has the linked files by their path in both trees.
	files map[string]LinkedFile
}

// linkFile links job's source into the new tree. It skips one that is gone.
func (c *copier) linkFile(job *fileJob) error {
	return namespaces.WithCapabilities(func() error {
		if err := job.src.dir.Link(job.src.name, job.dst.dir.Node, job.dst.name); err != nil {
			return Ignoring(err, fserr.ENOENT)
		}
		own, err := job.dst.dir.Lstat(job.dst.name)
		if err != nil {
			return err
		}
		c.linker.mu.Lock()
		defer c.linker.mu.Unlock()
		c.linker.files[job.rel] = LinkedFile{job.stat.ID(), own.ID()}
		return nil
	})
}
