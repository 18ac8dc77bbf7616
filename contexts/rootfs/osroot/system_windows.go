package osroot

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

const extraFlags = 0

// blockSize is the unit of Statfs and Stat, in bytes.
const blockSize = 4096

func (n *dirNode) WithFD(func(fd int) error) error { return fserr.EOPNOTSUPP }

func osUnlink(n *dirNode, name string) error { return n.dir.Remove(name) }

// osRmdir checks for a directory first, because Root.Remove removes files too.
func osRmdir(n *dirNode, name string) error {
	info, err := n.dir.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fserr.ENOTDIR
	}
	return n.dir.Remove(name)
}

// osRename renames within the top, since Root.Rename works within one Root only. It removes an empty directory at the new name first.
func osRename(from *dirNode, oldname string, to *dirNode, newname string) error {
	oldrel, newrel := filepath.Join(from.rel, oldname), filepath.Join(to.rel, newname)
	if err := clearTarget(from, oldname, to, newname); err != nil {
		return err
	}
	return from.root.top.Rename(oldrel, newrel)
}

func clearTarget(from *dirNode, oldname string, to *dirNode, newname string) error {
	src, err := from.dir.Lstat(oldname)
	if err != nil {
		return err
	}
	dst, err := to.dir.Lstat(newname)
	switch {
	case codeOrNil(err) == fserr.ENOENT:
		return nil
	case err != nil:
		return err
	case os.SameFile(src, dst):
		return nil
	case dst.IsDir() && !src.IsDir():
		return fserr.EISDIR
	case src.IsDir() && !dst.IsDir():
		return fserr.ENOTDIR
	case dst.IsDir():
		return to.dir.Remove(newname)
	}
	return nil
}

func osLink(from *dirNode, oldname string, to *dirNode, newname string) error {
	return from.root.top.Link(filepath.Join(from.rel, oldname), filepath.Join(to.rel, newname))
}

// osUtimes refuses links: os cannot set their own times.
func osUtimes(n *dirNode, name string, atimeNs, mtimeNs int64) error {
	info, err := n.dir.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return fserr.EOPNOTSUPP
	}
	return n.dir.Chtimes(name, time.Unix(0, atimeNs), time.Unix(0, mtimeNs))
}

// osAccess checks only the read-only attribute.
func osAccess(n *dirNode, name string, mode uint32) error {
	info, err := n.dir.Lstat(name)
	if err != nil {
		return err
	}
	if mode&2 != 0 && info.Mode().Perm()&0o200 == 0 {
		return fserr.EACCES
	}
	return nil
}

func osStatfs(n *dirNode) (node.Statfs, error) {
	path, err := windows.UTF16PtrFromString(n.dir.Name())
	if err != nil {
		return node.Statfs{}, err
	}
	var avail, total, free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &avail, &total, &free); err != nil {
		return node.Statfs{}, err
	}
	return node.Statfs{Bsize: blockSize, Blocks: total / blockSize, Bfree: free / blockSize, Bavail: avail / blockSize}, nil
}

func osCopyXattrs(_, _ *os.File) error { return nil }

func osLstat(dir *os.Root, name string) (node.Stat, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return node.Stat{}, err
	}
	return osStat(info), nil
}

func osFstat(f *os.File) (node.Stat, error) {
	info, err := f.Stat()
	if err != nil {
		return node.Stat{}, err
	}
	return osStat(info), nil
}

// osStat converts os's attributes. Devices, inodes and owners are 0.
func osStat(info os.FileInfo) node.Stat {
	size := info.Size()
	st := node.Stat{
		Mode: linuxMode(info.Mode()), Nlink: 1, Size: size,
		Blksize: blockSize, Blocks: (size + 511) / 512, MtimeNs: info.ModTime().UnixNano(),
	}
	st.AtimeNs, st.CtimeNs, st.BirthtimeNs = st.MtimeNs, st.MtimeNs, st.MtimeNs
	if sys, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		st.AtimeNs, st.BirthtimeNs = sys.LastAccessTime.Nanoseconds(), sys.CreationTime.Nanoseconds()
	}
	return st
}

func linuxMode(m os.FileMode) uint32 {
	const first = node.S_IFIFO // the lowest of the S_IFMT bits
	for format := uint32(0); format < node.S_IFMT; format += first {
		if node.TypeOf(format) == typeOfFileMode(m) {
			return format | uint32(m.Perm())
		}
	}
	return uint32(m.Perm())
}

func osFutimes(f *os.File, atimeNs, mtimeNs int64) error {
	atime, mtime := windows.NsecToFiletime(atimeNs), windows.NsecToFiletime(mtimeNs)
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if conn.Control(func(h uintptr) { inner = windows.SetFileTime(windows.Handle(h), nil, &atime, &mtime) }) != nil {
		return os.ErrClosed
	}
	return inner
}

func osDatasync(f *os.File) error { return f.Sync() }
