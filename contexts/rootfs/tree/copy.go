package tree

import (
	"context"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// CopyOptions of Copy.
type CopyOptions struct {
	// Skip reports whether to leave out an entry and what is below it. rel is relative to src. May be nil.
	Skip func(rel string, e node.Entry) bool
	// Admit is called before each entry is copied, from one goroutine. Its error ends the copy. May be nil.
	Admit func(src node.Stat) error
	// Reserve is as WalkOptions.Reserve.
	Reserve func(bytes int64) error
	// Progress is called at most every 100 ms and at the end, from one goroutine at a time. May be nil.
	Progress func(CopyProgress)
	// Overwrite replaces existing files; without it an existing destination is kept. A file never replaces a directory (EISDIR), nor the
	// reverse (ENOTDIR).
	Overwrite bool
	// ErrorOnExist makes Copy fail with EEXIST for an existing destination file, if Overwrite is off.
	ErrorOnExist bool
	// Dereference copies what links point to (within the tree) instead of links.
	Dereference bool
	// PreserveTimestamps keeps atime and mtime in ns. Modes are always kept.
	PreserveTimestamps bool
	// PreserveLinks keeps hard links within the tree, and PreserveXattrs user xattrs; seeding sets both.
	PreserveLinks, PreserveXattrs bool
	// MoreXattrs is a prefix of further extended attributes that PreserveXattrs keeps; "" means none.
	MoreXattrs string
	// PreserveOwner keeps owner and group, as far as this process may give files away.
	PreserveOwner bool
	// Whiteouts puts overlayfs's mark of a deletion, a device, in place of each FIFO, socket and device. These are skipped otherwise.
	Whiteouts bool
	// RewriteLink maps a link's target, given rel; nil stores it byte for byte.
	RewriteLink func(rel, target string) string
	// NonRecursive refuses a source directory with EISDIR.
	NonRecursive bool
	// Workers bounds the files copied at once; 0 means 1.
	Workers int
	// Unseen says that no other program can reach the destination before the copy ends. A file then has its mode from the start, which
	// saves a system call.
	Unseen bool
	// Record is called for each entry that was copied, with its source's attributes at that time, from one goroutine at a time. May be
	// nil.
	Record func(rel string, src node.Stat, linkTarget string)
	// Made is called for each file that the copy made, when its content and attributes are final, and for each directory that it made
	// with extended attributes. Workers call it at the same time. Its error ends the copy. May be nil.
	Made func(m Made) error
	// Base, if not nil, has files to link to instead of copying.
	Base *CopyBase
	// Earlier, if not nil, remembers what is copied. If it remembers a copy already, dst is that copy, and Copy brings it up to date: it
	// copies what changed, and removes what is gone.
	Earlier *Earlier
}

// Made is a new file or directory.
type Made struct {
	// Rel is its path below the copy's top.
	Rel string
	// Stat has the new file's attributes; they are zero for a directory.
	Stat node.Stat
	// Content is the new file, open for reading until Made returns; nil for a directory.
	Content io.ReaderAt
	// Xattrs are the extended attributes that were copied, by name.
	Xattrs map[string][]byte
}

// CopyBase is a tree on the destination's file system whose files never change, such as an earlier copy of the same source. Copy makes
// hard links to its files where they are what a copy would be, and copies where a link is not possible.
type CopyBase struct {
	Root Tree
	// Holds reports whether the file at rel, with attributes base, is what a copy of a file with attributes src would be.
	Holds func(rel string, src, base node.Stat) bool
}

// CopyProgress counts what a copy has done.
type CopyProgress struct{ Files, Bytes int64 }

// CopyReport says what a copy did.
type CopyReport struct {
	CopyProgress
	// Special counts FIFOs, sockets and devices that were skipped.
	Special int64
	// Unstable lists files (relative to src) that kept changing while they were read.
	Unstable []string
}

// copier is one Copy. One goroutine, the walker, goes down both trees and makes directories and links. Up to Workers more copy files.
type copier struct {
	ctx context.Context
	// abort ends ctx when a worker fails.
	abort context.CancelCauseFunc
	from  Nodes
	src   string
	opts  CopyOptions
	tally *tally
	links map[node.FileID]*linkClaim
	data  dataCopier
	// updating says that dst is a copy that CopyOptions.Earlier remembers.
	updating bool
	base     Nodes // CopyOptions.Base's, nil if there is none
	workers  errgroup.Group
	// batch has the files for the next worker, batched their sizes in all.
	batch   []*fileJob
	batched int64
	// guard is the destination's top directory. If the walker meets it in the source, the destination is inside the source.
	guard              node.FileID
	srcTrail, dstTrail *node.Trail
	levels             []*copyLevel
	// held counts the bytes of memory that the names in levels take.
	held int64
	// linker, if not nil, makes the copier link files instead of copying them.
	linker *linker
}

var errInside = &fserr.Error{Code: fserr.EINVAL, Detail: "cannot copy a directory into itself"}

var errSameFile = &fserr.Error{Code: fserr.EINVAL, Detail: "source and destination are the same file"}

// Copy copies src of from to dst of to. src is a file, a link or a directory; dst's parent must exist. If both are directories, they
// are merged. Copy clones extents where the file system can, else it copies ranges and keeps holes. It copies a file again that changed
// meanwhile, and reports one that kept changing.
//
// Copy fails with EINVAL if dst is inside src, and with ENAMETOOLONG for a directory more than 100,000 deep. For what no path of MaxPath
// can name, hard links become files of their own, and the callbacks get the path of the last directory above that can be named.
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
	c.updating = opts.Earlier != nil && opts.Earlier.begin()
	c.workers.SetLimit(max(1, opts.Workers))
	if opts.Base != nil {
		c.base, _ = opts.Base.Root.(Nodes)
	}
	err = c.top(target, dst)
	return c.tally.finish(), c.verdict(ctx, err)
}

// verdict chooses the error to return: the caller's cancellation, then the worker's failure that stopped the walker, then the walker's.
func (c *copier) verdict(ctx context.Context, err error) error {
	if stop := stopped(ctx, "%d files, %d bytes were copied", c.tally.report.Files, c.tally.report.Bytes); stop != nil && err != nil {
		return stop
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}

// top copies the source, whatever its type.
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

// creatable checks whether a file may be created at name in dir.
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

// outside refuses a dst that is the directory src or is below it, by the identity of the directories on the way to dst.
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

// parentPath returns p without its last component, "/" if there is only one.
func parentPath(p string) string {
	p = strings.TrimRight(p, "/")
	return "/" + strings.Trim(p[:strings.LastIndexByte(p, '/')+1], "/")
}

// targetDir opens or makes the directory dst. It follows a link there only if dst ends in a slash.
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

// makeDir makes a directory that only the server can enter until it is complete, or accepts one that exists.
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

// tally counts for the report and calls the callbacks one at a time.
type tally struct {
	mu       sync.Mutex
	opts     CopyOptions
	report   CopyReport
	reported time.Time
}

func newTally(opts CopyOptions) *tally { return &tally{opts: opts} }

func (t *tally) bytes(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Bytes += n
	t.progress(false)
}

// file counts a copied file or link. bytes counts its content.
func (t *tally) file(rel string, st node.Stat, target string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Files++
	if t.opts.Earlier != nil {
		t.opts.Earlier.record(rel, st)
	}
	if t.opts.Record != nil {
		t.opts.Record(rel, st, target)
	}
	t.progress(false)
}

func (t *tally) record(rel string, st node.Stat, target string) {
	if t.opts.Earlier != nil {
		t.opts.Earlier.record(rel, st)
	}
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

// progress calls Progress, at most every progressEvery. mu is held.
func (t *tally) progress(last bool) {
	if t.opts.Progress == nil || (!last && time.Since(t.reported) < progressEvery) {
		return
	}
	t.reported = time.Now()
	t.opts.Progress(t.report.CopyProgress)
}

// finish reports the last progress and returns the report.
func (t *tally) finish() CopyReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress(true)
	return t.report
}
