//go:build linux || darwin

package osroot

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// extraFlags keep an open from blocking on a FIFO or taking a terminal.
const extraFlags = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOFOLLOW

// WithFD calls fn with a descriptor of the directory.
func (n *dirNode) WithFD(fn func(fd int) error) error {
	f, err := n.dir.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return withFileFD(f, fn)
}

func (f *openFile) WithFD(fn func(fd int) error) error { return withFileFD(f.f, fn) }

func withFileFD(f *os.File, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if conn.Control(func(fd uintptr) { inner = fn(int(fd)) }) != nil {
		// It fails only with an error that os does not export.
		return os.ErrClosed
	}
	return inner
}

func osUnlink(n *dirNode, name string) error {
	return n.WithFD(func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

func osRmdir(n *dirNode, name string) error {
	return n.WithFD(func(fd int) error { return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) })
}

func osRename(from *dirNode, oldname string, to *dirNode, newname string) error {
	return from.WithFD(func(a int) error {
		return to.WithFD(func(b int) error { return unix.Renameat(a, oldname, b, newname) })
	})
}

func osLink(from *dirNode, oldname string, to *dirNode, newname string) error {
	return from.WithFD(func(a int) error {
		return to.WithFD(func(b int) error { return unix.Linkat(a, oldname, b, newname, 0) })
	})
}

func osUtimes(n *dirNode, name string, atimeNs, mtimeNs int64) error {
	ts := []unix.Timespec{unix.NsecToTimespec(atimeNs), unix.NsecToTimespec(mtimeNs)}
	return n.WithFD(func(fd int) error { return unix.UtimesNanoAt(fd, name, ts, unix.AT_SYMLINK_NOFOLLOW) })
}

func osStatfs(n *dirNode) (node.Statfs, error) {
	var st unix.Statfs_t
	err := n.WithFD(func(fd int) error { return unix.Fstatfs(fd, &st) })
	return node.Statfs{
		Type: uint64(st.Type), Bsize: uint64(st.Bsize), Blocks: st.Blocks,
		Bfree: st.Bfree, Bavail: st.Bavail, Files: st.Files, Ffree: st.Ffree,
	}, err
}

// osCopyXattrs copies the extended attributes that this process may set.
func osCopyXattrs(from, to *os.File) error {
	err := withFileFD(from, func(a int) error {
		return withFileFD(to, func(b int) error { return copyXattrs(a, b) })
	})
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

func copyXattrs(from, to int) error {
	buf := make([]byte, 64<<10) // XATTR_LIST_MAX and XATTR_SIZE_MAX
	n, err := unix.Flistxattr(from, buf)
	if err != nil {
		return err
	}
	for name := range strings.FieldsFuncSeq(string(buf[:n]), func(r rune) bool { return r == 0 }) {
		size, err := unix.Fgetxattr(from, name, buf)
		if fserr.CodeOf(err) == fserr.ENODATA {
			continue
		}
		if err != nil {
			return err
		}
		if err := unix.Fsetxattr(to, name, buf[:size], 0); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}
