package rootfs

import (
	"io"
)

// dirNode is a held directory on which the recursive algorithms (Walk,
// RemoveAll, CopyTree) work, one component at a time: every name given to it is
// a single component without "/", never "", "." or "..", and is never followed
// when it is a link. Linux implements it with *at calls on a descriptor, other
// systems with os.Root. Errors are *fserr.Error or plain errno values.
type dirNode interface {
	// entries lists all names but reserved ones, with stats when asked.
	entries(stats bool) ([]Entry, error)
	// lstat returns the attributes of the name itself, of the directory for "".
	lstat(name string) (Stat, error)
	// openDir opens a child directory without following a link (ENOTDIR or ELOOP).
	openDir(name string) (dirNode, error)
	// openFile opens a child file without following a link (ELOOP) or blocking on a FIFO.
	openFile(name string, flags Flags, mode uint32) (File, error)
	readlink(name string) (string, error)
	symlink(target, name string) error
	mkdir(name string, mode uint32) error
	link(oldname string, to dirNode, newname string) error
	unlink(name string) error
	rmdir(name string) error
	// chmod, chown and utimes act on a child itself, on the directory for "".
	chmod(name string, mode uint32) error
	chown(name string, uid, gid int64) error
	utimes(name string, atimeNs, mtimeNs int64) error
	io.Closer
}

// treeRoot is what the recursive algorithms need of a Root implementation.
type treeRoot interface {
	Root
	// node resolves path, a directory, following a final link only when follow.
	node(path string, follow bool) (dirNode, error)
	// parent resolves all but path's last component and returns the directory, that
	// component, and whether path ended in a slash. The component is "" when path
	// is the root itself; "." and ".." at the end are EINVAL.
	parent(path string) (dir dirNode, base string, slash bool, err error)
}
