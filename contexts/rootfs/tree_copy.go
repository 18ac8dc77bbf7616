package rootfs

import (
	"context"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/fserr"
)

// copier is one CopyTree. One goroutine, the walker, goes down both trees and
// makes directories and links; file contents are copied by up to Workers more.
type copier struct {
	ctx context.Context
	// abort ends ctx when a worker fails.
	abort   context.CancelCauseFunc
	from    Nodes
	src     string
	opts    CopyOptions
	tally   *tally
	links   map[fileID]*linkClaim
	data    dataCopier
	base    Nodes // CopyOptions.Base's, nil when there is none
	workers errgroup.Group
	// guard is the destination's top directory: met in the source, it is inside it.
	guard              fileID
	srcTrail, dstTrail *trail
	levels             []*copyLevel
	// held is what the names in levels take in memory, in bytes.
	held int64
	// linker, when not nil, has it make links to the files instead of copies.
	linker *linker
}

var errInside = &fserr.Error{Code: fserr.EINVAL, Detail: "cannot copy a directory into itself"}

var errSameFile = &fserr.Error{Code: fserr.EINVAL, Detail: "source and destination are the same file"}

// CopyTree copies src of from to dst of to. A file, a link or a directory may
// stand at src; dst's parent must exist. When dst is an existing directory and
// src one too, they are merged. It opens, then checks; clones extents where the
// file system can, else copies ranges with holes kept; retries a file that
// changed underneath and reports one that kept changing. dst inside src is EINVAL. A directory more than 100,000 deep is
// ENAMETOOLONG. Of what no path of MaxPath can name, hard links become files of their own, and the callbacks are told the path
// of the last directory above it that can be named.
func CopyTree(ctx context.Context, from Tree, src string, to Tree, dst string, opts CopyOptions) (CopyReport, error) {
	source, err := nodesOf(from)
	if err != nil {
		return CopyReport{}, err
	}
	target, err := nodesOf(to)
	if err != nil {
		return CopyReport{}, err
	}
	if Reserved(path.Base(dst)) {
		return CopyReport{}, &fserr.Error{Code: fserr.EACCES}
	}
	inner, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	c := &copier{
		ctx: inner, abort: abort, from: source, src: src, opts: opts,
		tally: newTally(opts), links: map[fileID]*linkClaim{},
	}
	c.workers.SetLimit(max(1, opts.Workers))
	if opts.Base != nil {
		c.base, _ = opts.Base.Root.(Nodes)
	}
	err = c.top(target, dst)
	return c.tally.finish(), c.verdict(ctx, err)
}

// verdict chooses the error to tell: the caller's cancellation, then the
// worker's failure that stopped the walker, then the walker's own.
func (c *copier) verdict(ctx context.Context, err error) error {
	if stop := stopped(ctx, "%d files, %d bytes were copied", c.tally.report.Files, c.tally.report.Bytes); stop != nil && err != nil {
		return stop
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}

// top copies whatever stands at the source.
func (c *copier) top(to Nodes, dst string) error {
	stat := c.from.Lstat
	if c.opts.Dereference {
		stat = c.from.Stat
	}
	st, err := stat(c.src)
	if err != nil {
		return err
	}
	if err := c.admit(st); err != nil {
		return err
	}
	if !st.IsDir() {
		return c.topFile(st, to, dst)
	}
	if c.opts.NonRecursive {
		return &fserr.Error{Code: fserr.EISDIR, Detail: "the source is a directory", Hint: "ask for a recursive copy"}
	}
	return c.topDir(to, dst)
}

// topFile copies a source that is one file or link.
func (c *copier) topFile(st Stat, to Nodes, dst string) error {
	if t := st.Type(); t != TypeFile && t != TypeSymlink {
		c.tally.special()
		return &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "a FIFO, socket or device cannot be copied"}
	}
	src, name, _, err := c.from.parent(c.src)
	if err != nil {
		return err
	}
	in := hold(src)
	defer in.release()
	dir, base, slash, err := to.parent(dst)
	if err != nil {
		return err
	}
	out := hold(dir)
	defer out.release()
	if err := creatable(out, base, slash); err != nil {
		return err
	}
	job := &fileJob{src: spot{in, name}, dst: spot{out, base}, stat: st, followed: c.opts.Dereference}
	if st.Type() == TypeSymlink {
		return c.symlink(job)
	}
	return c.copyFile(job)
}

// creatable tells whether something that is no directory may stand at name in dir.
func creatable(dir dirNode, name string, slash bool) error {
	switch {
	case name == "":
		return fserr.EISDIR
	case !slash:
		return nil
	}
	if st, err := dir.lstat(name); err == nil && st.IsDir() {
		return fserr.EISDIR
	}
	return fserr.ENOTDIR
}

// topDir copies a source that is a directory.
func (c *copier) topDir(to Nodes, dst string) error {
	src, err := c.from.node(c.src, c.opts.Dereference)
	if err != nil {
		return err
	}
	st, err := src.lstat("")
	if err != nil {
		_ = src.Close()
		return err
	}
	c.srcTrail = newTrail(src, st.id())
	defer c.srcTrail.close()
	if err := outside(to, dst, st.id()); err != nil {
		return err
	}
	target, fresh, err := targetDir(to, dst)
	if err != nil {
		return err
	}
	own, err := target.lstat("")
	if err != nil {
		_ = target.Close()
		return err
	}
	c.guard, c.dstTrail = own.id(), newTrail(target, own.id())
	defer c.dstTrail.close()
	if own.id() == st.id() {
		return errInside
	}
	return c.copyDirs(st, fresh)
}

// outside refuses a dst that is the directory src or lies below it, by the
// identity of the directories on the way to it.
func outside(to Nodes, dst string, src fileID) error {
	real, err := to.Realpath(dst)
	if fserr.CodeOf(err) == fserr.ENOENT {
		real, err = to.Realpath(parentPath(dst))
	}
	if err != nil {
		return err
	}
	for {
		if st, err := to.Lstat(real); err == nil && st.id() == src {
			return errInside
		}
		if real == "/" {
			return nil
		}
		real = parentPath(real)
	}
}

// parentPath is p without its last component; "/" when there is only one.
func parentPath(p string) string {
	p = strings.TrimRight(p, "/")
	return "/" + strings.Trim(p[:strings.LastIndexByte(p, '/')+1], "/")
}

// targetDir opens dst, a directory, or makes it. A link there is not followed
// unless dst ends in a slash.
func targetDir(to Nodes, dst string) (n dirNode, fresh bool, err error) {
	st, err := to.Lstat(dst)
	switch {
	case err == nil && !st.IsDir():
		return nil, false, &fserr.Error{Code: fserr.ENOTDIR, Detail: "a directory cannot replace what is no directory"}
	case err == nil:
		n, err = to.node(dst, false)
		return n, false, err
	case fserr.CodeOf(err) != fserr.ENOENT:
		return nil, false, err
	}
	parent, base, _, err := to.parent(dst)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = parent.Close() }()
	fresh, err = makeDir(parent, base)
	if err != nil {
		return nil, false, err
	}
	n, err = parent.openDir(base)
	return n, fresh, err
}

// makeDir makes a directory that only the server can enter until it is complete,
// or accepts the one that exists.
func makeDir(in dirNode, name string) (fresh bool, err error) {
	err = in.mkdir(name, 0o700)
	if fserr.CodeOf(err) != fserr.EEXIST {
		return err == nil, err
	}
	st, err := in.lstat(name)
	if err == nil && !st.IsDir() {
		err = &fserr.Error{Code: fserr.ENOTDIR, Detail: "a directory cannot replace what is no directory"}
	}
	return false, err
}
