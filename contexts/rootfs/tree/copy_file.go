package tree

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// copyTries is how often a file that keeps changing is copied before it is reported as unstable.
const copyTries = 4

// spot is a name in a held directory.
type spot struct {
	dir  *node.Held
	name string
}

// fileJob is a file or link to copy.
type fileJob struct {
	rel      string
	src, dst spot
	// stat has the source's attributes from the listing.
	stat node.Stat
	// deep says that no path can name it.
	deep bool
	// followed says that the root opens src, following links.
	followed bool
	// dir is the directory being filled, nil for a file at the top.
	dir   *copyDir
	claim *linkClaim
}

// leaf copies an entry of the current directory that is not a directory.
func (c *copier) leaf(l *copyLevel, rel, name string, st node.Stat, followed bool) error {
	t := st.Type()
	if t != node.TypeFile && t != node.TypeSymlink && c.linker == nil {
		c.tally.special()
		return c.whiteout(rel, name, st)
	}
	src, err := c.srcTrail.Here()
	if err != nil {
		return err
	}
	dst, err := c.dstTrail.Here()
	if err != nil {
		return err
	}
	job := &fileJob{rel: rel, src: spot{src, name}, dst: spot{dst, name}, stat: st, deep: l.deep, followed: followed, dir: l.dir}
	if c.linker != nil {
		return c.submit(job)
	}
	if t == node.TypeSymlink {
		return c.symlink(job)
	}
	if c.opts.PreserveLinks && st.Nlink > 1 && !followed && !l.deep {
		if linked, err := c.hardLink(job, l.rel); linked || err != nil {
			return err
		}
	}
	if !followed {
		if reused, err := c.reuse(l, job); reused || err != nil {
			return err
		}
	}
	return c.submit(job)
}

// whiteout makes the mark of a deletion in the current directory, if the options ask for it.
func (c *copier) whiteout(rel, name string, st node.Stat) error {
	if !c.opts.Whiteouts {
		return nil
	}
	dst, err := c.dstTrail.Here()
	if err == nil {
		err = dst.Whiteout(name)
	}
	if err == nil && c.opts.Earlier != nil {
		c.opts.Earlier.record(rel, st)
	}
	return err
}

// batchFiles and batchBytes bound the files of one batch. A worker that copies several files of one directory seldom waits for the
// directory's lock, and is woken less often.
const batchFiles, batchBytes = 64, 1 << 20

// submit copies a file now or gives it to a worker, which holds both directories until it is done.
func (c *copier) submit(job *fileJob) error {
	if c.opts.Workers <= 1 {
		return c.transfer(job)
	}
	job.src.dir.Share()
	job.dst.dir.Share()
	job.dir.pending.Add(1)
	c.batch = append(c.batch, job)
	c.batched += job.stat.Size
	if len(c.batch) >= batchFiles || c.batched >= batchBytes {
		c.flush()
	}
	return nil
}

// flush gives the batch to a worker.
func (c *copier) flush() {
	if len(c.batch) == 0 {
		return
	}
	batch := c.batch
	c.batch, c.batched = nil, 0
	c.workers.Go(func() error {
		for _, job := range batch {
			c.work(job)
		}
		return nil
	})
}

// work is a worker's part of submit.
func (c *copier) work(job *fileJob) {
	defer job.src.dir.Release()
	defer job.dst.dir.Release()
	err := context.Cause(c.ctx)
	if err == nil {
		err = c.transfer(job)
	}
	job.claim.settle(node.Stat{}, node.Stat{}, false)
	if done := c.settle(job.dir, job.dst.dir); err == nil {
		err = done
	}
	if err != nil {
		c.abort(AtRel(err, job.rel))
	}
}

func (c *copier) transfer(job *fileJob) error {
	if c.linker != nil {
		return c.linkFile(job)
	}
	return c.copyFile(job)
}

// copyFile copies one regular file. It skips one that is gone, and reports one that was replaced by something else as unstable.
func (c *copier) copyFile(job *fileJob) error {
	defer job.claim.settle(node.Stat{}, node.Stat{}, false)
	in, err := c.openSource(job)
	if err != nil {
		return c.unopened(job, err)
	}
	defer func() { _ = in.Close() }()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if st.Type() != node.TypeFile {
		c.tally.unstable(job.rel)
		return nil
	}
	return c.copyOpened(job, in, st)
}

// unopened decides about a source that was listed and cannot be opened now.
func (c *copier) unopened(job *fileJob, err error) error {
	switch {
	case job.dir == nil: // the top itself
		return err
	case fserr.CodeOf(err) == fserr.ENOENT:
		return nil
	case fserr.CodeOf(err) == fserr.EOPNOTSUPP, node.Vanished(err) && !job.followed:
		c.tally.unstable(job.rel)
		return nil
	}
	return err
}

func (c *copier) openSource(job *fileJob) (node.File, error) {
	if !job.followed {
		return job.src.dir.OpenFile(job.src.name, node.O_RDONLY|node.O_NOFOLLOW, 0)
	}
	if job.dir == nil {
		return c.from.OpenFile(c.src, node.O_RDONLY, 0)
	}
	return c.from.OpenFile(c.sourcePath(job.rel), node.O_RDONLY, 0)
}

// copyOpened makes the destination and fills it. If that fails it removes the destination: no file stays half copied.
func (c *copier) copyOpened(job *fileJob, in node.File, st node.Stat) error {
	flags, mode := node.O_CREAT|node.O_EXCL|node.O_NOFOLLOW|node.O_WRONLY, uint32(0o600)
	if c.opts.Made != nil {
		flags = flags&^node.O_ACCMODE | node.O_RDWR
	}
	if c.opts.Unseen {
		mode = keptMode(st)
	}
	var out node.File
	made, err := c.put(job.dst, st.ID(), func() (err error) {
		out, err = job.dst.dir.OpenFile(job.dst.name, flags, mode)
		return err
	})
	if !made || err != nil {
		return err
	}
	f := &filling{job: job, in: in, out: out, before: st, mode: mode}
	if err = charge(out, st); err == nil {
		err = c.complete(f)
	}
	if err != nil {
		f.own, _ = out.Stat() // its identity says what to remove
	}
	if closing := out.Close(); err == nil {
		err = closing
	}
	if err != nil {
		removeOwn(job.dst, f.own.ID())
		return err
	}
	if !f.stable {
		c.tally.unstable(job.rel)
	}
	job.claim.settle(f.before, f.own, true)
	c.tally.file(job.rel, f.before, "")
	return nil
}

// charge charges the zone of out, if it has a bound, for a copy that keeps the holes of a file.
func charge(out node.File, st node.Stat) error {
	if bounded, ok := out.(interface{ Charge(bytes int64) error }); ok {
		return bounded.Charge(min(st.Size, st.Blocks*512))
	}
	return nil
}

// filling is a file that is being copied.
type filling struct {
	job     *fileJob
	in, out node.File
	// before has the source's attributes at the time of the copy, own the copy's, if somebody needs them.
	before, own node.Stat
	// mode is what out has.
	mode uint32
	// stable says that the source did not change during the copy.
	stable bool
}

// complete gives a new file its content and attributes.
func (c *copier) complete(f *filling) error {
	if err := c.giveTo(f.job.dst.dir, f.job.dst.name, f.before); err != nil {
		return err
	}
	xattrs, err := c.fill(f)
	if err != nil || (f.job.claim == nil && c.opts.Made == nil) {
		return err
	}
	if f.own, err = f.out.Stat(); err != nil || c.opts.Made == nil {
		return err
	}
	return c.opts.Made(Made{Rel: f.job.rel, Stat: f.own, Content: f.out, Xattrs: xattrs})
}

// removeOwn removes the file at s if it is still the one with the identity made.
func removeOwn(s spot, made node.FileID) {
	if st, err := s.dir.Lstat(s.name); err == nil && st.ID() == made {
		_ = s.dir.Unlink(s.name)
	}
}

// fill copies content and attributes, and again if the source changed meanwhile. It returns the extended attributes.
func (c *copier) fill(f *filling) (xattrs map[string][]byte, err error) {
	for try := 0; try < copyTries && !f.stable; try++ {
		if err := c.fillOnce(f, try > 0); err != nil {
			return nil, err
		}
	}
	if c.opts.PreserveXattrs {
		if xattrs, err = copyFileXattrs(f.in, f.out, c.opts.MoreXattrs); err != nil {
			return nil, err
		}
	}
	if kept := keptMode(f.before); kept != f.mode {
		if err := f.out.Chmod(kept); err != nil {
			return nil, err
		}
	}
	if c.opts.PreserveTimestamps {
		err = f.out.Utimes(f.before.AtimeNs, f.before.MtimeNs)
	}
	return xattrs, err
}

func (c *copier) fillOnce(f *filling, again bool) (err error) {
	if again {
		if f.before, err = f.in.Stat(); err != nil {
			return err
		}
		if err := f.out.Truncate(0); err != nil {
			return err
		}
	}
	var copied int64
	err = c.data.copy(c.ctx, f.in, f.out, f.before, func(n int64) {
		copied += n
		c.tally.bytes(n)
	})
	if err != nil {
		return err
	}
	after, err := f.in.Stat()
	f.stable = err == nil && !f.before.Changed(after)
	if !f.stable {
		c.tally.bytes(-copied)
	}
	return err
}

// put calls make, which creates a name, and clears the way for it as the options say. made is false if an existing file was kept.
func (c *copier) put(at spot, src node.FileID, make func() error) (made bool, err error) {
	for range maxRounds {
		if err = make(); fserr.CodeOf(err) != fserr.EEXIST {
			return err == nil, err
		}
		if kept, err := c.clear(at, src); kept || err != nil {
			return false, err
		}
	}
	return false, err
}

// clear removes what is at a destination, or decides to keep it. It removes a link itself: nothing is written through one.
func (c *copier) clear(at spot, src node.FileID) (kept bool, err error) {
	st, err := at.dir.Lstat(at.name)
	switch {
	case fserr.CodeOf(err) == fserr.ENOENT:
		return false, nil
	case err != nil:
		return false, err
	case st.IsDir():
		return false, &fserr.Error{Code: fserr.EISDIR, Detail: "a file cannot replace a directory"}
	case st.ID() == src:
		return false, errSameFile
	case c.opts.Overwrite:
		return false, Ignoring(at.dir.Unlink(at.name), fserr.ENOENT)
	case c.opts.ErrorOnExist:
		return false, fserr.EEXIST
	}
	return true, nil
}

// symlink copies a link itself.
func (c *copier) symlink(job *fileJob) error {
	target, err := job.src.dir.Readlink(job.src.name)
	switch fserr.CodeOf(err) {
	case fserr.ENOENT:
		return nil
	case fserr.EINVAL: // no longer a link
		c.tally.unstable(job.rel)
		return nil
	}
	if err != nil {
		return err
	}
	if c.opts.RewriteLink != nil && !job.deep {
		target = c.opts.RewriteLink(job.rel, target)
	}
	made, err := c.put(job.dst, job.stat.ID(), func() error { return job.dst.dir.Symlink(target, job.dst.name) })
	if !made || err != nil {
		return err
	}
	if err = c.giveTo(job.dst.dir, job.dst.name, job.stat); err == nil && c.opts.PreserveTimestamps {
		err = Ignoring(job.dst.dir.Utimes(job.dst.name, job.stat.AtimeNs, job.stat.MtimeNs), fserr.EOPNOTSUPP)
	}
	if err != nil {
		return err
	}
	c.tally.file(job.rel, job.stat, target)
	return nil
}
