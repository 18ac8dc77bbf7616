package tree

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// CopyOptions of CopyTree.
type CopyOptions struct {
	// Skip leaves an entry (and what is below it) out; rel is relative to src. May be nil.
	Skip func(rel string, e node.Entry) bool
	// Admit is asked before each entry is copied, from one goroutine; an error ends the copy. May be nil.
	Admit func(src node.Stat) error
	// Reserve is as WalkOptions.Reserve.
	Reserve func(bytes int64) error
	// Progress is told now and then, from one goroutine at a time. May be nil.
	Progress func(CopyProgress)
	// Overwrite replaces existing files (never directories by files or the reverse:
	// EISDIR, ENOTDIR); without it an existing destination is kept.
	Overwrite bool
	// ErrorOnExist makes an existing destination file EEXIST when Overwrite is off.
	ErrorOnExist bool
	// Dereference copies what links point to (within the tree) instead of links.
	Dereference bool
	// PreserveTimestamps keeps atime and mtime in ns. Modes are always kept.
	PreserveTimestamps bool
	// PreserveLinks keeps hard links within the tree, and PreserveXattrs user xattrs; seeding sets both.
	PreserveLinks, PreserveXattrs bool
	// MoreXattrs begins the names of further extended attributes that PreserveXattrs keeps of files and
	// directories; "" means none.
	MoreXattrs string
	// PreserveOwner keeps owner and group, as far as this process may give files away.
	PreserveOwner bool
	// Whiteouts makes overlayfs's mark of a deletion, a device, in place of each FIFO, socket and device, which are skipped.
	Whiteouts bool
	// RewriteLink maps a link's target, given rel; nil stores it byte for byte.
	RewriteLink func(rel, target string) string
	// NonRecursive refuses a source directory with EISDIR.
	NonRecursive bool
	// Workers bounds the files copied at once; 0 means 1.
	Workers int
	// Record, when set, is told of each entry that was copied, with its source's
	// Stat as it was copied. Calls are serialised.
	Record func(rel string, src node.Stat, linkTarget string)
	// Base, when set, is where unchanged files need not be copied from.
	Base *CopyBase
}

// CopyBase is a tree on the destination's file system whose files nobody ever changes, such as an
// earlier copy of the same source. What it still holds gets another name (a hard link) in the
// destination; where that cannot be, it is copied.
type CopyBase struct {
	Root Tree
	// Holds tells whether the file at rel, base, is what a copy of src, the source's, would be.
	Holds func(rel string, src, base node.Stat) bool
}

// CopyProgress counts what a copy has done so far.
type CopyProgress struct{ Files, Bytes int64 }

// CopyReport says what a copy did.
type CopyReport struct {
	CopyProgress
	// Special counts FIFOs, sockets and devices that were skipped.
	Special int64
	// Unstable lists files (relative to src) that kept changing while they were read.
	Unstable []string
}

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
	links   map[node.FileID]*linkClaim
	data    dataCopier
	base    Nodes // CopyOptions.Base's, nil when there is none
	workers errgroup.Group
	// guard is the destination's top directory: met in the source, it is inside it.
	guard              node.FileID
	srcTrail, dstTrail *node.Trail
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
func Copy(ctx context.Context, from Tree, src string, to Tree, dst string, opts CopyOptions) (CopyReport, error) {
	source, err := nodesOf(from)
	if err != nil {
		return CopyReport{}, err
	}
	target, err := nodesOf(to)
	if err != nil {
		return CopyReport{}, err
	}
	if node.Reserved(path.Base(dst)) {
		return CopyReport{}, &fserr.Error{Code: fserr.EACCES}
	}
	inner, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	c := &copier{
		ctx: inner, abort: abort, from: source, src: src, opts: opts,
		tally: newTally(opts), links: map[node.FileID]*linkClaim{},
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
func (c *copier) topFile(st node.Stat, to Nodes, dst string) error {
	if t := st.Type(); t != node.TypeFile && t != node.TypeSymlink {
		c.tally.special()
		return &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "a FIFO, socket or device cannot be copied"}
	}
	src, name, _, err := c.from.Parent(c.src)
	if err != nil {
		return err
	}
	in := node.Hold(src)
	defer in.Release()
	dir, base, slash, err := to.Parent(dst)
	if err != nil {
		return err
	}
	out := node.Hold(dir)
	defer out.Release()
	if err := creatable(out, base, slash); err != nil {
		return err
	}
	job := &fileJob{src: spot{in, name}, dst: spot{out, base}, stat: st, followed: c.opts.Dereference}
	if st.Type() == node.TypeSymlink {
		return c.symlink(job)
	}
	return c.copyFile(job)
}

// creatable tells whether something that is no directory may stand at name in dir.
func creatable(dir node.Node, name string, slash bool) error {
	switch {
	case name == "":
		return fserr.EISDIR
	case !slash:
		return nil
	}
	if st, err := dir.Lstat(name); err == nil && st.IsDir() {
		return fserr.EISDIR
	}
	return fserr.ENOTDIR
}

// topDir copies a source that is a directory.
func (c *copier) topDir(to Nodes, dst string) error {
	src, err := c.from.Node(c.src, c.opts.Dereference)
	if err != nil {
		return err
	}
	st, err := src.Lstat("")
	if err != nil {
		_ = src.Close()
		return err
	}
	c.srcTrail = node.NewTrail(src, st.ID())
	defer c.srcTrail.Close()
	if err := outside(to, dst, st.ID()); err != nil {
		return err
	}
	target, fresh, err := targetDir(to, dst)
	if err != nil {
		return err
	}
	own, err := target.Lstat("")
	if err != nil {
		_ = target.Close()
		return err
	}
	c.guard, c.dstTrail = own.ID(), node.NewTrail(target, own.ID())
	defer c.dstTrail.Close()
	if own.ID() == st.ID() {
		return errInside
	}
	return c.copyDirs(st, fresh)
}

// outside refuses a dst that is the directory src or lies below it, by the
// identity of the directories on the way to it.
func outside(to Nodes, dst string, src node.FileID) error {
	real, err := to.Realpath(dst)
	if fserr.CodeOf(err) == fserr.ENOENT {
		real, err = to.Realpath(parentPath(dst))
	}
	if err != nil {
		return err
	}
	for {
		if st, err := to.Lstat(real); err == nil && st.ID() == src {
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
func targetDir(to Nodes, dst string) (n node.Node, fresh bool, err error) {
	st, err := to.Lstat(dst)
	switch {
	case err == nil && !st.IsDir():
		return nil, false, &fserr.Error{Code: fserr.ENOTDIR, Detail: "a directory cannot replace what is no directory"}
	case err == nil:
		n, err = to.Node(dst, false)
		return n, false, err
	case fserr.CodeOf(err) != fserr.ENOENT:
		return nil, false, err
	}
	parent, base, _, err := to.Parent(dst)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = parent.Close() }()
	fresh, err = makeDir(parent, base)
	if err != nil {
		return nil, false, err
	}
	n, err = parent.OpenDir(base)
	return n, fresh, err
}

// makeDir makes a directory that only the server can enter until it is complete,
// or accepts the one that exists.
func makeDir(in node.Node, name string) (fresh bool, err error) {
	err = in.Mkdir(name, 0o700)
	if fserr.CodeOf(err) != fserr.EEXIST {
		return err == nil, err
	}
	st, err := in.Lstat(name)
	if err == nil && !st.IsDir() {
		err = &fserr.Error{Code: fserr.ENOTDIR, Detail: "a directory cannot replace what is no directory"}
	}
	return false, err
}

// progressEvery bounds how often CopyOptions.Progress is called.
const progressEvery = 100 * time.Millisecond

// tally counts for the report and serialises the callbacks.
type tally struct {
	mu     sync.Mutex
	opts   CopyOptions
	report CopyReport
	told   time.Time
}

func newTally(opts CopyOptions) *tally { return &tally{opts: opts} }

func (t *tally) bytes(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Bytes += n
	t.tell(false)
}

// file counts a copied file or link, whose content was counted by bytes.
func (t *tally) file(rel string, st node.Stat, target string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Files++
	if t.opts.Record != nil {
		t.opts.Record(rel, st, target)
	}
	t.tell(false)
}

func (t *tally) record(rel string, st node.Stat, target string) {
	if t.opts.Record == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opts.Record(rel, st, target)
}

func (t *tally) special() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Special++
}

func (t *tally) unstable(rel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Unstable = append(t.report.Unstable, rel)
}

// tell calls Progress, but not too often; mu is held.
func (t *tally) tell(last bool) {
	if t.opts.Progress == nil || (!last && time.Since(t.told) < progressEvery) {
		return
	}
	t.told = time.Now()
	t.opts.Progress(t.report.CopyProgress)
}

// finish tells the last progress and returns the report.
func (t *tally) finish() CopyReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(true)
	return t.report
}
