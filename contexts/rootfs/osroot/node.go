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

// osNode is a held directory within an osRoot.
type osNode struct {
	root *Root
	dir  *os.Root
	// rel is the path walked from the root's top, in the system's form; "." for the top.
	rel   string
	id    node.FileID
	mount mountID
}

var _ node.Node = (*osNode)(nil)

func (r *Root) openTop() (*osNode, error) {
	dir, err := r.top.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	n := &osNode{root: r, dir: dir, rel: "."}
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

// enter opens the child directory that info was taken of. "/." makes os.Root
// ask for a directory, so that a FIFO put there meanwhile does not block.
func (n *osNode) enter(name string, info os.FileInfo) (*osNode, error) {
	dir, err := n.dir.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	child := &osNode{root: n.root, dir: dir, rel: filepath.Join(n.rel, name)}
	if err := child.verify(n, info); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return child, nil
}

// verify refuses a directory other than the one looked up, and a mount point
// unless these are followed.
func (n *osNode) verify(parent *osNode, info os.FileInfo) error {
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

// admits tells whether something on mount m may be used as an entry of n. Where mounts have no
// ids, a device is all there is; overlay gives files one of their own.
func (n *osNode) admits(m mountID, isDir bool) bool {
	return m == n.mount || n.root.opts.FollowMounts || !m.ByID && !isDir
}

func (n *osNode) Close() error { return n.dir.Close() }

func (n *osNode) Entries(l node.Listing) ([]node.Entry, error) {
	f, err := n.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	out, err := n.describe(list, l.Stats)
	if l.Dirs {
		out = slices.DeleteFunc(out, func(e node.Entry) bool { return !l.Wants(e.Type) })
	}
	if err == nil {
		err = l.Admit(out)
	}
	return out, err
}

func (n *osNode) Reserved() ([]string, error) {
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

// describe turns os's entries into ours, leaving out reserved names and, with
// stats, what vanished.
func (n *osNode) describe(list []os.DirEntry, stats bool) ([]node.Entry, error) {
	out := make([]node.Entry, 0, len(list))
	for _, d := range list {
		if node.Reserved(d.Name()) {
			continue
		}
		e := node.Entry{Name: d.Name(), Type: typeOfFileMode(d.Type())}
		if stats {
			st, err := n.Lstat(d.Name())
			if osCodeOrNil(err) == fserr.ENOENT {
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

func osCodeOrNil(err error) fserr.Code {
	if err == nil {
		return 0
	}
	return osCode(err)
}

var typeOfOSMode = map[os.FileMode]node.Type{
	0: node.TypeFile, os.ModeDir: node.TypeDirectory, os.ModeSymlink: node.TypeSymlink, os.ModeNamedPipe: node.TypeFIFO,
	os.ModeSocket: node.TypeSocket, os.ModeDevice: node.TypeBlockDevice, os.ModeDevice | os.ModeCharDevice: node.TypeCharDevice,
}

// typeOfFileMode is TypeUnknown for what Linux does not have.
func typeOfFileMode(m os.FileMode) node.Type { return typeOfOSMode[m.Type()] }

// self is name, or the directory itself for "".
func self(name string) string {
	if name == "" {
		return "."
	}
	return name
}

func (n *osNode) Lstat(name string) (node.Stat, error) { return osLstat(n.dir, self(name)) }

func (n *osNode) OpenDir(name string) (node.Node, error) {
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

func (n *osNode) OpenFile(name string, flags node.Flags, mode uint32) (node.File, error) {
	return retryMoved(func() (node.File, error) {
		pos := osPos{dir: n, base: name}
		info, err := n.dir.Lstat(name)
		if err != nil && osCode(err) != fserr.ENOENT {
			return nil, err
		}
		if err == nil {
			pos.info = info
		}
		return pos.open(flags, mode)
	})
}

func (n *osNode) Readlink(name string) (string, error) {
	info, err := n.dir.Lstat(name)
	if err != nil {
		return "", err
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return "", fserr.EINVAL
	}
	return n.dir.Readlink(name)
}

func (n *osNode) Symlink(target, name string) error {
	if err := n.dir.Symlink(target, name); err != nil {
		return err
	}
	return n.own(name)
}

func (n *osNode) Mkdir(name string, mode uint32) error {
	if err := n.dir.Mkdir(name, os.FileMode(mode&0o777)); err != nil {
		return err
	}
	if err := n.own(name); err != nil {
		return err
	}
	return n.dir.Chmod(name, osMode(mode))
}

// own gives what was just made to Options.Owner.
func (n *osNode) own(name string) error {
	o := n.root.opts.Owner
	if o == nil {
		return nil
	}
	return n.dir.Lchown(name, o.UID, o.GID)
}

func (n *osNode) Link(oldname string, to node.Node, newname string) error {
	dst, ok := to.(*osNode)
	if !ok {
		return fserr.EXDEV
	}
	return osLink(n, oldname, dst, newname)
}

func (n *osNode) Unlink(name string) error {
	st, err := n.Lstat(name)
	if err == nil && st.IsDir() {
		return fserr.EISDIR
	}
	return osUnlink(n, name)
}

func (n *osNode) Rmdir(name string) error { return osRmdir(n, name) }

func (n *osNode) Chmod(name string, mode uint32) error {
	st, err := n.Lstat(name)
	if err != nil {
		return err
	}
	if st.Type() == node.TypeSymlink {
		return fserr.EOPNOTSUPP
	}
	return n.dir.Chmod(self(name), osMode(mode))
}

func (n *osNode) Chown(name string, uid, gid int64) error {
	if err := node.MayOwn(n.root.opts, uid, gid); err != nil {
		return err
	}
	return n.dir.Lchown(self(name), int(uid), int(gid))
}

func (n *osNode) Utimes(name string, atimeNs, mtimeNs int64) error {
	return osUtimes(n, self(name), atimeNs, mtimeNs)
}

func (n *osNode) Up() (node.Node, error) { return nil, fserr.EOPNOTSUPP }

func (n *osNode) Whiteout(string) error { return fserr.EOPNOTSUPP }

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

// osDir lists a directory, page by page.
type osDir struct {
	node *osNode
	file *os.File
}

func (d *osDir) Next(n int, stats bool) ([]node.Entry, error) {
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
		out, err := d.node.describe(list, stats)
		if len(out) > 0 || err != nil {
			return out, osError(err)
		}
	}
}

func (d *osDir) Close() error {
	_ = d.node.Close()
	return osError(d.file.Close())
}
