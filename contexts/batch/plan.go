package batch

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// entry is a file, link or directory in the picture of the tree that the steps make.
type entry struct {
	parent *entry
	name   string
	st     rootfs.Stat
	// before has the attributes before the batch; it does not count if a step made the entry.
	before rootfs.Stat
	// from is where the entry was before the batch; "" if a step made it.
	from string
	// content is a file's new content; nil if it is what it was.
	content *content
	// like is a file before the batch whose owner and attributes the new content gets; "" for none.
	like string
	// target is that of a link.
	target string
	// modeChanged says that a step set the mode.
	modeChanged bool
	// moved says that a step moved it. made is what a step puts in its place; nil if that is what was there before the batch.
	moved bool
	made  *staged
	// children of a directory are those that were looked at; nil is nothing there. A directory without from has no others.
	children map[string]*entry
}

func (e *entry) isDir() bool { return e.st.IsDir() }

// path is where the entry is now.
func (e *entry) path() string {
	var names []string
	for ; e.parent != nil; e = e.parent {
		names = append(names, e.name)
	}
	slices.Reverse(names)
	return "/" + strings.Join(names, "/")
}

// alive reports whether the entry is still in the tree.
func (e *entry) alive() bool {
	return e.parent == nil || e.parent.children[e.name] == e && e.parent.alive()
}

// content is a file's: data, or that of a file before the batch.
type content struct {
	data []byte
	from string
	size int64
	// takes is the disk space of the content, in bytes. A copy keeps the holes of its source.
	takes int64
}

func newContent(data []byte) *content {
	return &content{data: data, size: int64(len(data)), takes: int64(len(data))}
}

// contentOf is the content of a file before the batch.
func contentOf(e *entry) *content {
	const blockSize = 512 // of st_blocks
	return &content{from: e.from, size: e.st.Size, takes: min(e.st.Size, e.st.Blocks*blockSize)}
}

// op is a change that a step makes.
type op struct {
	step int
	kind opKind
	// from and to are paths without links at the time of the op.
	from, to string
	// made is what is staged for the op.
	made *staged
	// was is the file or link that the op changes or moves; nil for a directory, and if there is none.
	was *basis
	// isDir says that from is a directory, whose inode is ino; 0 if an earlier step makes it.
	isDir bool
	ino   uint64
	// mode and oldMode are permission bits.
	mode, oldMode uint32
}

type opKind int

const (
	opPlace   opKind = iota // made appears at to, where nothing is
	opReplace               // made takes the place of the file at to
	opAway                  // from goes into the hidden directory
	opMove                  // from moves to to, where nothing is
	opMkdir
	opChmod
)

// staged is a file or link to be made.
type staged struct {
	content *content
	// target is a link's; then content is nil.
	target string
	mode   uint32
	like   string
	// st is set when it is staged.
	st rootfs.Stat
}

// plan is the picture of the tree.
type plan struct {
	ctx   context.Context //nolint:containedctx // it is the batch's
	root  rootfs.Root
	zoned bool
	top   *entry
	steps []Step
	ops   []op
	// relied are the files that conditions have looked at, and those that are copied.
	relied []reliance
	// gone are the paths before the batch at which something was removed, moved away or replaced.
	gone []string
	// touched has the entry that each step wrote; nil for none.
	touched []*entry
	// edited counts the bytes of the contents that edits made, which are in memory; names those of the paths in ops.
	edited int64
	names  int
}

// maxEdited bounds the contents that the edits of one batch make together, in bytes.
const maxEdited = 64 << 20

// maxOps and maxNames bound what a batch changes, and how long the paths of that are together, in bytes: a step can make many directories.
const (
	maxOps   = 20_000
	maxNames = 16 << 20
)

// newPlan checks all conditions and then plans the steps. An error is of the first step that fails, or of ctx.
func newPlan(ctx context.Context, root rootfs.Root, steps []Step) (*plan, error) {
	st, err := root.Lstat("/")
	if err != nil {
		return nil, err
	}
	p := &plan{ctx: ctx, root: root, steps: steps, top: &entry{st: st, from: "/", children: map[string]*entry{}}, touched: make([]*entry, len(steps))}
	_, p.zoned = root.(*rootfs.Zoned)
	for i := range steps {
		for _, c := range steps[i].Conditions {
			if err := p.check(i, c); err != nil {
				return nil, failed(i, &steps[i], err)
			}
		}
	}
	for i := range steps {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		err := p.step(i)
		if err == nil && (len(p.ops) > maxOps || p.names > maxNames) {
			err = &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("the batch makes more than %d changes, or their paths have more than 16 MiB", maxOps), Hint: "make several batches"}
		}
		if err != nil {
			return nil, failed(i, &steps[i], err)
		}
	}
	return p, nil
}

func (p *plan) check(i int, c Condition) error {
	at, err := p.find(c.Path, c.Follow)
	if err != nil && fserr.CodeOf(err) != fserr.ENOENT {
		return err
	}
	if err != nil || at.is == nil {
		return c.Check(nil)
	}
	p.relied = append(p.relied, reliance{step: i, from: at.is.from, was: basis{st: at.is.st}, check: c.Check})
	return c.Check(&at.is.st)
}

func (p *plan) step(i int) error {
	s := &p.steps[i]
	switch s.Kind {
	case Write:
		return p.write(i, s.Path, newContent(s.Data), s.Mode)
	case Edit:
		return p.edit(i, s)
	case Mkdir:
		if s.Recursive {
			return p.mkdirAll(i, s.Path, s.Mode, true)
		}
		return p.mkdir(i, s.Path, s.Mode)
	case Remove:
		return p.remove(i, s)
	case Rename:
		return p.rename(i, s)
	case Copy:
		return p.copy(i, s)
	case Symlink:
		return p.symlink(i, s)
	case Chmod:
		return p.chmod(i, s)
	}
	return fserr.Invalid("step %d does nothing", i)
}

// spot is where a path leads: a name in a directory, and what is there. dir is nil for the root.
type spot struct {
	dir  *entry
	name string
	is   *entry
	// slash says that the path ended in a slash.
	slash bool
}

func spotOf(e *entry) spot { return spot{dir: e.parent, name: e.name, is: e} }

// path of the spot.
func (s spot) path() string {
	if s.dir == nil {
		return "/"
	}
	return path.Join(s.dir.path(), s.name)
}

// maxLinks is how many links one path may follow, as on Linux.
const maxLinks = 40

// find resolves a path in the picture as POSIX does. It is ENOENT if a directory on the way is missing.
func (p *plan) find(name string, follow bool) (spot, error) {
	if err := checkPath(name); err != nil {
		return spot{}, err
	}
	at, todo, links := spot{is: p.top}, strings.Split(name, "/"), 0
	slash := strings.HasSuffix(name, "/")
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		if next == "" {
			continue
		}
		here := at.is
		switch {
		case here == nil:
			return spot{}, fserr.ENOENT
		case !here.isDir():
			return spot{}, fserr.ENOTDIR
		case next == ".":
			continue
		case next == ".." && here.parent == nil:
			return spot{}, &fserr.Error{Code: fserr.EACCES, Detail: "permission denied, path leads outside the context"}
		case next == "..":
			at = spotOf(here.parent)
			continue
		}
		child, err := p.child(here, next)
		if err != nil {
			return spot{}, err
		}
		if child == nil || child.st.Type() != rootfs.TypeSymlink || !follow && !slash && !more(todo) {
			at = spot{dir: here, name: next, is: child}
			continue
		}
		if links++; links > maxLinks {
			return spot{}, fserr.ELOOP
		}
		if strings.HasPrefix(child.target, "/") {
			at = spot{is: p.top}
		}
		todo = append(strings.Split(child.target, "/"), todo...)
	}
	at.slash = slash
	if slash && at.is != nil && !at.is.isDir() {
		return spot{}, fserr.ENOTDIR
	}
	return at, nil
}

// more reports whether a name follows.
func more(todo []string) bool {
	for _, name := range todo {
		if name != "" {
			return true
		}
	}
	return false
}

func checkPath(name string) error {
	switch {
	case name == "":
		return fserr.ENOENT
	case len(name) > rootfs.MaxPath:
		return fserr.ENAMETOOLONG
	case strings.IndexByte(name, 0) >= 0:
		return fserr.Invalid("the path has a NUL byte")
	}
	return nil
}

// child returns what a name of a directory is; nil if nothing is there.
func (p *plan) child(dir *entry, name string) (*entry, error) {
	if len(name) > rootfs.MaxName {
		return nil, fserr.ENAMETOOLONG
	}
	if e, known := dir.children[name]; known || dir.from == "" || rootfs.Reserved(name) {
		return e, nil
	}
	from := path.Join(dir.from, name)
	st, err := p.root.Lstat(from)
	if fserr.CodeOf(err) == fserr.ENOENT {
		dir.children[name] = nil
		return nil, nil //nolint:nilnil // nothing is there
	}
	if err != nil {
		return nil, err
	}
	e := &entry{parent: dir, name: name, st: st, before: st, from: from, like: from}
	switch st.Type() {
	case rootfs.TypeSymlink:
		if e.target, err = p.root.Readlink(from); err != nil {
			return nil, err
		}
	case rootfs.TypeDirectory:
		e.children = map[string]*entry{}
	}
	dir.children[name] = e
	return e, nil
}

// put puts an entry at a spot.
func (p *plan) put(at spot, e *entry) {
	e.parent, e.name = at.dir, at.name
	at.dir.children[at.name] = e
}

// vacate records that what was at a spot is not there any more.
func (p *plan) vacate(e *entry) {
	e.parent.children[e.name] = nil
	if e.from != "" {
		p.gone = append(p.gone, e.from)
	}
}

func (p *plan) add(o op) {
	p.ops = append(p.ops, o)
	p.names += len(o.from) + len(o.to)
}

// creatable refuses a spot at which nothing can be created.
func (p *plan) creatable(at spot) error {
	switch {
	case rootfs.Reserved(at.name):
		return &fserr.Error{Code: fserr.EACCES, Detail: "permission denied, names that begin with '" + rootfs.ReservedPrefix + "' are the service's own"}
	case p.zoned && at.dir == p.top:
		return &fserr.Error{Code: fserr.EACCES, Detail: "permission denied, nothing can be created beside the zones"}
	}
	return nil
}

// fixed refuses to remove or move the root, a zone, "." and "..".
func (p *plan) fixed(name string, at spot) error {
	last := path.Base(name)
	switch {
	case at.is != nil && at.dir == nil, p.zoned && at.dir == p.top:
		return fserr.EBUSY
	case last == "." || last == ".." || strings.HasSuffix(strings.TrimRight(name, "/"), "/."):
		return fserr.EINVAL
	}
	return nil
}
