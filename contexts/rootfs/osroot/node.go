package osroot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// dirNode is a node.Node.
type dirNode struct {
	root *Root
	dir  *os.Root
	// rel is the path from the top by which the walk came, in the system's form, "." for the top.
	rel   string
	id    node.FileID
	mount mountID
}

var _ node.Node = (*dirNode)(nil)

func (r *Root) openTop() (*dirNode, error) {
	dir, err := r.top.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	n := &dirNode{root: r, dir: dir, rel: "."}
	st, err := n.Lstat("")
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	n.id = st.ID()
	if n.mount, err = osMount(n, "."); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return n, nil
}

// enter opens the child directory that info describes. "/." makes os.Root open a directory only, so that a FIFO that replaced it does not
// block.
func (n *dirNode) enter(name string, info os.FileInfo) (*dirNode, error) {
	dir, err := n.dir.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	child := &dirNode{root: n.root, dir: dir, rel: filepath.Join(n.rel, name)}
	if err := child.verify(n, info); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return child, nil
}

// verify refuses a directory other than the one that info describes and, unless the options permit them, mount points.
func (n *dirNode) verify(parent *dirNode, info os.FileInfo) error {
	now, err := n.dir.Lstat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(info, now) {
		return fserr.ELOOP
	}
	st, err := n.Lstat("")
	if err != nil {
		return err
	}
	n.id = st.ID()
	n.mount, err = osMount(n, ".")
	if err == nil && !parent.admits(n.mount, true) {
		err = fserr.EXDEV
	}
	return err
}

// admits reports whether an entry of n may be on mount m. Where mounts have no IDs the device decides, but not for files: overlayfs gives
// them other devices.
func (n *dirNode) admits(m mountID, isDir bool) bool {
	return m == n.mount || n.root.opts.FollowMounts || !m.ByID && !isDir
}

func (n *dirNode) Close() error { return n.dir.Close() }

func (n *dirNode) Entries(l node.Listing) ([]node.Entry, error) {
	f, err := n.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	out, err := n.describe(list, l)
	if l.Dirs {
		out = slices.DeleteFunc(out, func(e node.Entry) bool { return !l.Wants(e.Type) })
	}
	if err == nil {
		err = l.Admit(out)
	}
	return out, err
}

func (n *dirNode) Reserved() ([]string, error) {
	f, err := n.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all, err := f.Readdirnames(-1)
	var names []string
	for _, name := range all {
		if node.Reserved(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// describe converts os's entries, without reserved names unless l has all and, with l.Stats, without what vanished.
func (n *dirNode) describe(list []os.DirEntry, l node.Listing) ([]node.Entry, error) {
	out := make([]node.Entry, 0, len(list))
	for _, d := range list {
		if node.Reserved(d.Name()) && !l.All {
			continue
		}
		e := node.Entry{Name: d.Name(), Type: typeOfFileMode(d.Type())}
		if l.Stats {
			st, err := n.Lstat(d.Name())
			if codeOrNil(err) == fserr.ENOENT {
				continue
			}
			if err != nil {
				return out, err
			}
			e.Stat, e.Type = &st, st.Type()
		}
		out = append(out, e)
	}
	return out, nil
}

func codeOrNil(err error) fserr.Code {
	if err == nil {
		return 0
	}
	return codeOf(err)
}

var typeOfOSMode = map[os.FileMode]node.Type{
	0: node.TypeFile, os.ModeDir: node.TypeDirectory, os.ModeSymlink: node.TypeSymlink, os.ModeNamedPipe: node.TypeFIFO,
	os.ModeSocket: node.TypeSocket, os.ModeDevice: node.TypeBlockDevice, os.ModeDevice | os.ModeCharDevice: node.TypeCharDevice,
}

// typeOfFileMode returns TypeUnknown for types that Linux does not have.
func typeOfFileMode(m os.FileMode) node.Type { return typeOfOSMode[m.Type()] }

// self returns name, or "." for "".
func self(name string) string {
	if name == "" {
		return "."
	}
	return name
}

func (n *dirNode) Lstat(name string) (node.Stat, error) { return osLstat(n.dir, self(name)) }

func (n *dirNode) OpenDir(name string) (node.Node, error) {
	info, err := n.dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fserr.ENOTDIR
	}
	child, err := n.enter(name, info)
	if err != nil {
		return nil, err
	}
	return child, nil
}

func (n *dirNode) OpenFile(name string, flags node.Flags, mode uint32) (node.File, error) {
	return retryMoved(func() (node.File, error) {
		pos := position{dir: n, base: name}
		info, err := n.dir.Lstat(name)
		if err != nil && codeOf(err) != fserr.ENOENT {
			return nil, err
		}
		if err == nil {
			pos.info = info
		}
		return pos.open(flags, mode)
	})
}

func (n *dirNode) Readlink(name string) (string, error) {
	info, err := n.dir.Lstat(name)
	if err != nil {
		return "", err
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return "", fserr.EINVAL
	}
	return n.dir.Readlink(name)
}

func (n *dirNode) Symlink(target, name string) error {
	if err := n.dir.Symlink(target, name); err != nil {
		return err
	}
	return n.own(name)
}

func (n *dirNode) Mkdir(name string, mode uint32) error {
	if err := n.dir.Mkdir(name, os.FileMode(mode&0o777)); err != nil {
		return err
	}
	if err := n.own(name); err != nil {
		return err
	}
	return n.dir.Chmod(name, osMode(mode))
}

// own gives a new entry to Options.Owner.
func (n *dirNode) own(name string) error {
	o := n.root.opts.Owner
	if o == nil {
		return nil
	}
	return n.dir.Lchown(name, o.UID, o.GID)
}

func (n *dirNode) Link(oldname string, to node.Node, newname string) error {
	dst, ok := to.(*dirNode)
	if !ok {
		return fserr.EXDEV
	}
	return osLink(n, oldname, dst, newname)
}

func (n *dirNode) Exchange(_, _ string) error { return fserr.EOPNOTSUPP }

func (n *dirNode) Move(oldname, newname string) error { return n.MoveTo(oldname, n, newname) }

func (n *dirNode) MoveTo(oldname string, to node.Node, newname string) error {
	dst, ok := to.(*dirNode)
	if !ok {
		return fserr.EXDEV
	}
	_, err := dst.dir.Lstat(newname)
	switch codeOrNil(err) {
	case 0:
		return fserr.EEXIST
	case fserr.ENOENT:
		return osRename(n, oldname, dst, newname)
	}
	return err
}

func (n *dirNode) ExchangeWith(string, node.Node, string) error { return fserr.EOPNOTSUPP }

func (n *dirNode) Unlink(name string) error {
	st, err := n.Lstat(name)
	if err == nil && st.IsDir() {
		return fserr.EISDIR
	}
	return osUnlink(n, name)
}

func (n *dirNode) Rmdir(name string) error { return osRmdir(n, name) }

func (n *dirNode) Chmod(name string, mode uint32) error {
	st, err := n.Lstat(name)
	if err != nil {
		return err
	}
	if st.Type() == node.TypeSymlink {
		return fserr.EOPNOTSUPP
	}
	return n.dir.Chmod(self(name), osMode(mode))
}

func (n *dirNode) Chown(name string, uid, gid int64) error {
	if err := node.MayOwn(n.root.opts, uid, gid); err != nil {
		return err
	}
	return n.dir.Lchown(self(name), int(uid), int(gid))
}

func (n *dirNode) Utimes(name string, atimeNs, mtimeNs int64) error {
	return osUtimes(n, self(name), atimeNs, mtimeNs)
}

func (n *dirNode) Up() (node.Node, error) { return nil, fserr.EOPNOTSUPP }

func (n *dirNode) Whiteout(string) error { return fserr.EOPNOTSUPP }

func (r *Root) Node(path string, follow bool) (node.Node, error) {
	pos, err := r.walk(path, walkMode{follow: follow})
	if err != nil {
		return nil, osError(err)
	}
	if pos.base == "" {
		return pos.dir, nil
	}
	defer func() { _ = pos.dir.Close() }()
	if err := pos.missing(); err != nil {
		return nil, osError(err)
	}
	child, err := pos.dir.OpenDir(pos.base)
	return child, osError(err)
}

func (r *Root) Parent(path string) (dir node.Node, base string, slash bool, err error) {
	pos, err := r.walk(path, walkMode{name: true})
	if err != nil {
		return nil, "", false, osError(err)
	}
	if pos.base == "" && pos.dot != "/" {
		_ = pos.dir.Close()
		return nil, "", false, osError(fserr.EINVAL)
	}
	return pos.dir, pos.base, pos.slash, nil
}

// listing lists a directory, page by page.
type listing struct {
	node *dirNode
	file *os.File
}

func (d *listing) Next(n int, stats bool) ([]node.Entry, error) {
	if n <= 0 {
		return nil, osError(fserr.EINVAL)
	}
	for {
		list, err := d.file.ReadDir(n)
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, osError(err)
		}
		out, err := d.node.describe(list, node.Listing{Stats: stats})
		if len(out) > 0 || err != nil {
			return out, osError(err)
		}
	}
}

func (d *listing) Close() error {
	_ = d.node.Close()
	return osError(d.file.Close())
}
