package rootfs

import (
	"io"
	"unsafe"
)

// dirNode is a held directory on which the recursive algorithms (Walk,
// RemoveAll, CopyTree) work, one component at a time: every name given to it is
// a single component without "/", never "", "." or "..", and is never followed
// when it is a link. Linux implements it with *at calls on a descriptor, other
// systems with os.Root. Errors are *fserr.Error or plain errno values.
type dirNode interface {
	// entries lists all names but reserved ones, as l says.
	entries(l listOptions) ([]Entry, error)
	// lstat returns the attributes of the name itself, of the directory for "".
	lstat(name string) (Stat, error)
	// reserved lists the names that entries leaves out.
	reserved() ([]string, error)
	// openDir opens a child directory without following a link (ENOTDIR or ELOOP).
	openDir(name string) (dirNode, error)
	// up opens the directory above, wherever that is now: the caller compares identities. EOPNOTSUPP where that is not to be had.
	up() (dirNode, error)
	// openFile opens a child file without following a link (ELOOP) or blocking on a FIFO.
	openFile(name string, flags Flags, mode uint32) (File, error)
	readlink(name string) (string, error)
	symlink(target, name string) error
	// whiteout makes what overlayfs takes for the deletion of name. EOPNOTSUPP where that is not to be had.
	whiteout(name string) error
	mkdir(name string, mode uint32) error
	link(oldname string, to dirNode, newname string) error
	unlink(name string) error
	rmdir(name string) error
	// chmod, chown and utimes act on a child itself, on the directory for "".
	chmod(name string, mode uint32) error
	chown(name string, uid, gid int64) error
	utimes(name string, atimeNs, mtimeNs int64) error
	// withFD calls fn with the directory's descriptor. EOPNOTSUPP where it has none.
	withFD(fn func(fd int) error) error
	io.Closer
}

// listOptions say what entries returns. The zero value is all names, without stats.
type listOptions struct {
	// stats fills Entry.Stat.
	stats bool
	// dirs leaves out entries that are known to be no directories.
	dirs bool
	// reserve is told how many further bytes of memory the listing takes. Its error ends the listing. May be nil.
	reserve func(bytes int64) error
}

// wants reports whether an entry of this type belongs to the listing.
func (l listOptions) wants(t Type) bool { return !l.dirs || t == TypeDirectory || t == TypeUnknown }

// admit reserves the memory of entries.
func (l listOptions) admit(entries []Entry) error {
	if l.reserve == nil || len(entries) == 0 {
		return nil
	}
	return l.reserve(l.bytes(entries))
}

// bytes is about what entries take in memory.
func (l listOptions) bytes(entries []Entry) int64 {
	each := int64(unsafe.Sizeof(Entry{}))
	if l.stats {
		each += int64(unsafe.Sizeof(Stat{}))
	}
	n := each * int64(len(entries))
	for i := range entries {
		n += int64(len(entries[i].Name))
	}
	return n
}
