package rootfs

import (
	"errors"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
)

// fdNode is a node.Node on Linux: each method makes an *at call on its descriptor with a single component, and follows no link.
type fdNode struct {
	fd   int
	root *linuxRoot
}

var _ node.Node = (*fdNode)(nil)

// newFDNode takes over fd, a directory opened O_RDONLY|O_DIRECTORY|O_CLOEXEC.
func newFDNode(fd int, r *linuxRoot) node.Node { return &fdNode{fd: fd, root: r} }

func (n *fdNode) Close() error { return unix.Close(n.fd) }

func (n *fdNode) WithFD(fn func(fd int) error) error { return fn(n.fd) }

// Entries lists from the beginning. Two calls at once would share the descriptor's position.
func (n *fdNode) Entries(l node.Listing) ([]Entry, error) {
	want := n.root.visible
	if l.All {
		want = func(name string) bool { return !n.root.barred(name) }
	}
	all, err := n.list(l, want)
	if err != nil || !l.Stats {
		return all, err
	}
	return statAll(n.fd, all)
}

func (n *fdNode) Reserved() ([]string, error) {
	all, err := n.list(node.Listing{}, Reserved)
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name
	}
	return names, err
}

func (n *fdNode) list(l node.Listing, want func(string) bool) ([]Entry, error) {
	if _, err := unix.Seek(n.fd, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	var out []Entry
	for {
		had := len(out)
		got, err := appendPage(out, n.fd, want)
		if err == nil {
			if l.Dirs {
				got = slices.DeleteFunc(got, func(e Entry) bool { return !l.Wants(e.Type) })
			}
			err = l.Admit(got[had:])
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = got
	}
}

func (n *fdNode) Lstat(name string) (Stat, error) {
	if name == "" {
		return node.StatFD(n.fd)
	}
	return node.StatAt(n.fd, name)
}

func (n *fdNode) OpenDir(name string) (node.Node, error) {
	fd, err := n.root.openBeneathNoFollow(n.fd, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return newFDNode(fd, n.root), nil
}

func (n *fdNode) Up() (node.Node, error) {
	fd, err := node.OpenAt(n.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return newFDNode(fd, n.root), nil
}

func (n *fdNode) Whiteout(name string) error {
	return n.root.naming(func() error { return unix.Mknodat(n.fd, name, unix.S_IFCHR, 0) })
}

func (n *fdNode) OpenFile(name string, flags Flags, mode uint32) (File, error) {
	sys, err := systemFlags(flags)
	if err != nil {
		return nil, err
	}
	if flags&O_CREAT == 0 {
		return n.openExisting(name, sys, flags)
	}
	for range maxRetries {
		f, err := n.create(name, sys, mode)
		if !errors.Is(err, unix.EEXIST) || flags.Exclusive() {
			return f, err
		}
		if f, err = n.openExisting(name, sys, flags); !errors.Is(err, unix.ENOENT) {
			return f, err
		}
	}
	return nil, errBusy
}

func (n *fdNode) openExisting(name string, sys int, flags Flags) (File, error) {
	fd, err := n.root.openBeneathNoFollow(n.fd, name, sys)
	if err != nil {
		return nil, err
	}
	var st Stat
	return n.root.serve(fd, flags, &st)
}

// create opens with O_EXCL, so that only a file that it made gets an owner and a mode.
func (n *fdNode) create(name string, sys int, mode uint32) (File, error) {
	fd, err := n.root.createNew(n.fd, name, sys, mode)
	if err != nil {
		return nil, err
	}
	return newFile(fd, n.root), nil
}

func (n *fdNode) Readlink(name string) (string, error) { return readlinkAt(n.fd, name) }

func (n *fdNode) Symlink(target, name string) error { return n.root.symlinkAt(target, n.fd, name) }

func (n *fdNode) Mkdir(name string, mode uint32) error { return n.root.mkdirAt(n.fd, name, mode) }

func (n *fdNode) Link(oldname string, to node.Node, newname string) error {
	dst, ok := to.(*fdNode)
	// A layer links to another one. Zones are apart, though they may be on one file system.
	if !ok || dst.root != n.root && (dst.root.opts.Zone || n.root.opts.Zone) {
		return unix.EXDEV
	}
	if dst.root.barred(newname) {
		return node.ErrBarred
	}
	return dst.root.naming(func() error { return unix.Linkat(n.fd, oldname, dst.fd, newname, 0) })
}

func (n *fdNode) Exchange(a, b string) error {
	return n.root.naming(func() error { return unix.Renameat2(n.fd, a, n.fd, b, unix.RENAME_EXCHANGE) })
}

func (n *fdNode) Move(oldname, newname string) error {
	return n.root.naming(func() error { return unix.Renameat2(n.fd, oldname, n.fd, newname, unix.RENAME_NOREPLACE) })
}

func (n *fdNode) MoveTo(oldname string, to node.Node, newname string) error {
	err := n.renameTo(oldname, to, newname, unix.RENAME_NOREPLACE)
	dst, ok := to.(*fdNode)
	if err != unix.EXDEV || !ok || dst.root != n.root {
		return err
	}
	return n.root.moveDir(place{dir: n.fd, base: oldname}, place{dir: dst.fd, base: newname})
}

func (n *fdNode) ExchangeWith(name string, other node.Node, otherName string) error {
	return n.renameTo(name, other, otherName, unix.RENAME_EXCHANGE)
}

func (n *fdNode) renameTo(name string, to node.Node, newname string, flags uint) error {
	dst, ok := to.(*fdNode)
	if !ok || dst.root != n.root && (dst.root.opts.Zone || n.root.opts.Zone) {
		return unix.EXDEV
	}
	if dst.root.barred(newname) {
		return node.ErrBarred
	}
	err := dst.root.naming(func() error { return unix.Renameat2(n.fd, name, dst.fd, newname, flags) })
	if err == unix.EINVAL {
		return unix.EOPNOTSUPP // both names are plain, and neither is below the other
	}
	return err
}

func (n *fdNode) Unlink(name string) error {
	return n.root.permitted(func() error { return unlinkAt(n.fd, name) })
}

func (n *fdNode) Rmdir(name string) error {
	return n.root.permitted(func() error { return unix.Unlinkat(n.fd, name, unix.AT_REMOVEDIR) })
}

func (n *fdNode) Chmod(name string, mode uint32) error {
	if err := n.root.opts.Refuse; err != nil {
		return err
	}
	mode &= 0o1777
	if name == "" {
		return unix.Fchmod(n.fd, mode)
	}
	fd, err := node.OpenAt(n.fd, name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer node.CloseFD(fd)
	st, err := node.StatFD(fd)
	if err != nil {
		return err
	}
	if st.Type() == TypeSymlink {
		return unix.EOPNOTSUPP
	}
	return node.ChmodFD(fd, mode)
}

func (n *fdNode) Chown(name string, uid, gid int64) error {
	if err := n.root.opts.Refuse; err != nil {
		return err
	}
	if err := node.MayOwn(n.root.opts, uid, gid); err != nil {
		return err
	}
	if name == "" {
		return unix.Fchown(n.fd, int(uid), int(gid))
	}
	return unix.Fchownat(n.fd, name, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW)
}

func (n *fdNode) Utimes(name string, atimeNs, mtimeNs int64) error {
	if err := n.root.opts.Refuse; err != nil {
		return err
	}
	if name == "" {
		return node.UtimesFD(n.fd, atimeNs, mtimeNs)
	}
	ts := []unix.Timespec{unix.NsecToTimespec(atimeNs), unix.NsecToTimespec(mtimeNs)}
	return unix.UtimesNanoAt(n.fd, name, ts, unix.AT_SYMLINK_NOFOLLOW)
}
