package batch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// write makes what a path leads to a file with a content. A new file gets the mode.
func (p *plan) write(i int, name string, c *content, mode uint32) error {
	at, err := p.find(name, !p.steps[i].Exclusive)
	switch {
	case err != nil:
		return err
	case at.slash:
		return fserr.EISDIR
	case p.steps[i].Exclusive && at.is != nil:
		return fserr.EEXIST
	case at.dir == nil, at.is != nil && at.is.isDir():
		return fserr.EISDIR
	case at.is != nil && at.is.st.Type() != rootfs.TypeFile:
		return &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "operation not supported, it is neither a file nor a directory"}
	case at.is != nil:
		if p.steps[i].Kind == Write {
			mode = at.is.st.Perm()
		}
		return p.replace(i, at.is, c, mode)
	}
	if err := p.creatable(at); err != nil {
		return err
	}
	made := &staged{content: c, mode: mode & 0o1777}
	e := &entry{st: rootfs.Stat{Mode: modeFile | mode&0o1777, Size: c.size}, content: c, made: made}
	p.add(op{step: i, kind: opPlace, to: at.path(), made: made})
	p.put(at, e)
	p.touched[i] = e
	return nil
}

// Types in the mode of a Stat.
const (
	modeFile = 0o100000
	modeDir  = 0o040000
	modeLink = 0o120000
)

// replace gives a file a new content and mode.
func (p *plan) replace(i int, e *entry, c *content, mode uint32) error {
	if err := p.writable(e); err != nil {
		return err
	}
	mode &= 0o1777
	made := &staged{content: c, mode: mode, like: e.like}
	p.add(op{step: i, kind: opReplace, to: e.path(), made: made, was: e.basis()})
	e.made, e.moved = made, false
	e.content, e.st.Size, e.st.Mode = c, c.size, e.st.Mode&^0o7777|mode
	p.touched[i] = e
	return nil
}

// accessWrite is W_OK, and ownerWrites the mode bit that the owner of a file needs.
const (
	accessWrite = 2
	ownerWrites = 0o200
)

// writable fails with EACCES if a write in place would: the rename that replaces a file does not look at the file's mode.
func (p *plan) writable(e *entry) error {
	if e.from != "" && e.content == nil && !e.modeChanged {
		return p.root.Access(e.from, accessWrite)
	}
	if os.Geteuid() != 0 && e.st.Mode&ownerWrites == 0 {
		return fserr.EACCES
	}
	return nil
}

func (p *plan) edit(i int, s *Step) error {
	at, err := p.find(s.Path, true)
	switch {
	case err != nil:
		return err
	case at.is == nil:
		return fserr.ENOENT
	case at.is.isDir():
		return fserr.EISDIR
	}
	old, err := p.read(at.is, MaxEdit)
	if err != nil {
		return err
	}
	data, err := s.Edit(old)
	if err != nil {
		return err
	}
	if p.edited += int64(len(data)); p.edited > maxEdited {
		return &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("the edits of a batch make more than %d bytes", maxEdited), Hint: "send several batches"}
	}
	return p.replace(i, at.is, newContent(data), at.is.st.Perm())
}

// read returns the content that a file has now.
func (p *plan) read(e *entry, limit int64) ([]byte, error) {
	from := e.from
	if e.content != nil {
		if from = e.content.from; from == "" {
			return e.content.data, nil
		}
	}
	return readFile(p.root, from, limit)
}

// readFile reads a file of at most limit bytes.
func readFile(root rootfs.Root, name string, limit int64) ([]byte, error) {
	f, st, err := root.OpenNoFollow(name, rootfs.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if st.Size > limit {
		return nil, tooLarge(st.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = tooLarge(int64(len(data)), limit)
	}
	return data, err
}

func tooLarge(size, limit int64) error {
	return &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("file too large, it has %d bytes and a batch edits files of up to %d", size, limit)}
}

func (p *plan) mkdir(i int, name string, mode uint32) error {
	at, err := p.find(name, false)
	switch {
	case err != nil:
		return err
	case at.is != nil:
		return fserr.EEXIST
	}
	if err := p.creatable(at); err != nil {
		return err
	}
	p.add(op{step: i, kind: opMkdir, to: at.path(), mode: mode & 0o1777})
	p.put(at, &entry{st: rootfs.Stat{Mode: modeDir | mode&0o1777}, children: map[string]*entry{}})
	return nil
}

// mkdirAll makes a directory and those above it.
func (p *plan) mkdirAll(i int, name string, mode uint32, last bool) error {
	at, err := p.find(name, true)
	switch {
	case err == nil && at.is != nil && at.is.isDir():
		return nil
	case err == nil && at.is != nil && last:
		return fserr.EEXIST
	case err == nil && at.is != nil:
		return fserr.ENOTDIR
	case err != nil && fserr.CodeOf(err) != fserr.ENOENT:
		return err
	}
	if err != nil {
		trimmed := strings.TrimRight(name, "/")
		above := trimmed[:strings.LastIndexByte(trimmed, '/')+1]
		if strings.Trim(above, "/") == "" {
			return err
		}
		if err := p.mkdirAll(i, above, mode, false); err != nil {
			return err
		}
	}
	if err := p.mkdir(i, name, mode); !errors.Is(err, fserr.EEXIST) {
		return err
	}
	return fserr.ENOENT // it is a link that leads nowhere
}

func (p *plan) remove(i int, s *Step) error {
	at, err := p.find(s.Path, false)
	if s.Force && (fserr.CodeOf(err) == fserr.ENOENT || err == nil && at.is == nil) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.fixed(s.Path, at); err != nil {
		return err
	}
	switch {
	case at.is == nil:
		return fserr.ENOENT
	case at.is.isDir() && !s.Recursive:
		return &fserr.Error{Code: fserr.EISDIR, Hint: "set recursive to remove a directory"}
	}
	if at.is.isDir() && at.is.from != "" {
		if err := p.removable(at.is.from); err != nil {
			return err
		}
	}
	p.away(i, at.is)
	return nil
}

// removable refuses a directory that has a mount below it: such a directory can be moved away, and then not be removed. Directories that
// cannot be read are made readable when they are removed.
func (p *plan) removable(dir string) error {
	return p.root.Walk(p.ctx, dir, tree.WalkOptions{}, func(_ string, _ rootfs.Entry, err error) error {
		return tree.Ignoring(err, fserr.EACCES, fserr.ENOENT)
	})
}

// ownerBits are what the owner of a directory needs to move it, and all that is below, to another one.
const ownerBits = 0o700

// away takes an entry out of the tree.
func (p *plan) away(i int, e *entry) {
	at := e.path()
	if e.isDir() && e.st.Perm()&ownerBits != ownerBits {
		p.add(op{step: i, kind: opChmod, to: at, mode: e.st.Perm()&0o1777 | ownerBits, oldMode: e.st.Perm() & 0o1777})
	}
	p.add(op{step: i, kind: opAway, from: at, isDir: e.isDir(), was: e.basis()})
	p.vacate(e)
}

func (p *plan) rename(i int, s *Step) error {
	from, err := p.find(s.Path, false)
	if err != nil {
		return err
	}
	to, err := p.find(s.Dest, false)
	if err != nil {
		return err
	}
	if from.is == nil { // rename(2) resolves both parents before it
		return fserr.ENOENT
	}
	for name, at := range map[string]spot{s.Path: from, s.Dest: to} {
		if err := p.fixed(name, at); err != nil {
			return err
		}
	}
	if err := p.movable(from, to); err != nil || to.is == from.is {
		return err
	}
	if to.is != nil {
		p.away(i, to.is)
	}
	e := from.is
	p.add(op{step: i, kind: opMove, from: e.path(), to: to.path(), isDir: e.isDir(), ino: e.st.Ino, was: e.basis()})
	e.moved = true
	p.vacate(e)
	p.put(to, e)
	p.touched[i] = e
	return nil
}

// movable checks what rename(2) checks.
func (p *plan) movable(from, to spot) error {
	if isAbove(from.is, to.dir) {
		return fserr.EINVAL
	}
	if p.zoned && zoneOf(from.path()) != zoneOf(to.path()) {
		return &fserr.Error{Code: fserr.EXDEV, Hint: "the paths are in two zones: copy, then remove"}
	}
	switch {
	case to.slash && !from.is.isDir():
		return fserr.ENOTDIR
	case isAbove(to.is, from.dir):
		return fserr.ENOTEMPTY
	case to.is == nil:
		return p.creatable(to)
	case to.is == from.is:
		return nil
	case from.is.isDir() && !to.is.isDir():
		return fserr.ENOTDIR
	case !from.is.isDir() && to.is.isDir():
		return fserr.EISDIR
	case to.is.isDir():
		return p.empty(to.is)
	}
	return nil
}

// isAbove reports whether e is a directory or one above it.
func isAbove(e, dir *entry) bool {
	for ; dir != nil; dir = dir.parent {
		if dir == e {
			return true
		}
	}
	return false
}

// zoneOf returns the first name of a path.
func zoneOf(name string) string {
	zone, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	return zone
}

// empty fails with ENOTEMPTY if a directory has entries.
func (p *plan) empty(e *entry) error {
	for _, child := range e.children {
		if child != nil {
			return fserr.ENOTEMPTY
		}
	}
	if e.from == "" {
		return nil
	}
	dir, err := p.root.OpenDir(e.from)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // it was only read
	for {
		entries, err := dir.Next(len(e.children)+1, false)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, one := range entries {
			if _, removed := e.children[one.Name]; !removed {
				return fserr.ENOTEMPTY
			}
		}
	}
}

func (p *plan) copy(i int, s *Step) error {
	from, err := p.find(s.Path, true)
	switch {
	case err != nil:
		return err
	case from.is == nil:
		return fserr.ENOENT
	case from.is.isDir():
		return &fserr.Error{Code: fserr.EISDIR, Hint: "a batch copies single files"}
	case from.is.st.Type() != rootfs.TypeFile:
		return fserr.EOPNOTSUPP
	}
	if to, err := p.find(s.Dest, true); !s.Exclusive && (err != nil || to.is == from.is) {
		return err // a file over itself stays as it is
	}
	c := from.is.content
	if c == nil {
		c = contentOf(from.is)
		p.relied = append(p.relied, reliance{step: i, from: c.from, was: basis{st: from.is.before}})
	}
	return p.write(i, s.Dest, c, from.is.st.Perm())
}

func (p *plan) symlink(i int, s *Step) error {
	if s.Target == "" {
		return fserr.ENOENT
	}
	if err := checkPath(s.Target); err != nil {
		return err
	}
	at, err := p.find(s.Path, false)
	switch {
	case err != nil:
		return err
	case at.is != nil:
		return fserr.EEXIST
	case at.slash:
		return fserr.ENOENT
	}
	if err := p.creatable(at); err != nil {
		return err
	}
	made := &staged{target: s.Target}
	e := &entry{st: rootfs.Stat{Mode: modeLink | 0o777, Size: int64(len(s.Target))}, target: s.Target, made: made}
	p.add(op{step: i, kind: opPlace, to: at.path(), made: made})
	p.put(at, e)
	return nil
}

func (p *plan) chmod(i int, s *Step) error {
	at, err := p.find(s.Path, true)
	switch {
	case err != nil:
		return err
	case at.is == nil:
		return fserr.ENOENT
	case at.dir == nil || p.zoned && at.dir == p.top:
		return &fserr.Error{Code: fserr.EBUSY, Hint: "chmod the root of the context outside of a batch"}
	}
	mode := s.Mode & 0o1777
	p.add(op{step: i, kind: opChmod, to: at.path(), mode: mode, oldMode: at.is.st.Perm() & 0o1777, was: at.is.basis()})
	at.is.st.Mode, at.is.modeChanged = at.is.st.Mode&^0o7777|mode, true
	p.touched[i] = at.is
	return nil
}
