package node

import (
	"io"
	"os"
	"strings"
	"unsafe"

	"github.com/ctxfs/ctxfs/fserr"
)

// Limits of a path, in bytes, as on Linux (NAME_MAX, PATH_MAX).
const (
	MaxName = 255
	MaxPath = 4096
)

// ReservedPrefix starts the names of the temporary files that atomic writes
// need where O_TMPFILE is not to be had. They are hidden from listings, walks
// and watches, cannot be named by a caller, and are swept at start.
const ReservedPrefix = ".ctxfs-tmp-"

// Reserved reports whether name, one path component, is one of the service's own.
func Reserved(name string) bool { return strings.HasPrefix(name, ReservedPrefix) }

// Lookups answers questions that were asked together, before the first was answered: the
// directory of one is held for the next, since a walk to the name may take as long as it
// likes. It is for one goroutine.
type Lookups interface {
	// Stat is Inspector.Stat.
	Stat(path string) (Stat, error)
	// Lstat is Inspector.Lstat.
	Lstat(path string) (Stat, error)
	// Close lets go of what is held.
	Close()
}

// Options of Open.
type Options struct {
	// AllowChown permits owners other than the server's own uid and gid.
	AllowChown bool
	// Owner, when not nil, is given to everything created (a root server acting for the workspace's owner).
	Owner *Owner
	// Implementation forces one: "" picks the best, "openat2", "walk" (Linux
	// without openat2) or "osroot" (portable).
	Implementation string
	// FollowMounts lets resolution cross mount points; off for contexts.
	FollowMounts bool
}

// Owner is a numeric user and group.
type Owner struct{ UID, GID int }

// dirNode is a held directory on which the recursive algorithms (Walk,
// RemoveAll, CopyTree) work, one component at a time: every name given to it is
// a single component without "/", never "", "." or "..", and is never followed
// when it is a link. Linux implements it with *at calls on a descriptor, other
// systems with os.Root. Errors are *fserr.Error or plain errno values.
type Node interface {
	// entries lists all names but reserved ones, as l says.
	Entries(l Listing) ([]Entry, error)
	// lstat returns the attributes of the name itself, of the directory for "".
	Lstat(name string) (Stat, error)
	// reserved lists the names that entries leaves out.
	Reserved() ([]string, error)
	// openDir opens a child directory without following a link (ENOTDIR or ELOOP).
	OpenDir(name string) (Node, error)
	// up opens the directory above, wherever that is now: the caller compares identities. EOPNOTSUPP where that is not to be had.
	Up() (Node, error)
	// openFile opens a child file without following a link (ELOOP) or blocking on a FIFO.
	OpenFile(name string, flags Flags, mode uint32) (File, error)
	Readlink(name string) (string, error)
	Symlink(target, name string) error
	// whiteout makes what overlayfs takes for the deletion of name. EOPNOTSUPP where that is not to be had.
	Whiteout(name string) error
	Mkdir(name string, mode uint32) error
	Link(oldname string, to Node, newname string) error
	Unlink(name string) error
	Rmdir(name string) error
	// chmod, chown and utimes act on a child itself, on the directory for "".
	Chmod(name string, mode uint32) error
	Chown(name string, uid, gid int64) error
	Utimes(name string, atimeNs, mtimeNs int64) error
	// withFD calls fn with the directory's descriptor. EOPNOTSUPP where it has none.
	WithFD(fn func(fd int) error) error
	io.Closer
}

// listOptions say what entries returns. The zero value is all names, without stats.
type Listing struct {
	// stats fills Entry.Stat.
	Stats bool
	// dirs leaves out entries that are known to be no directories.
	Dirs bool
	// reserve is told how many further bytes of memory the listing takes. Its error ends the listing. May be nil.
	Reserve func(bytes int64) error
}

// wants reports whether an entry of this type belongs to the listing.
func (l Listing) Wants(t Type) bool { return !l.Dirs || t == TypeDirectory || t == TypeUnknown }

// admit reserves the memory of entries.
func (l Listing) Admit(entries []Entry) error {
	if l.Reserve == nil || len(entries) == 0 {
		return nil
	}
	return l.Reserve(l.bytes(entries))
}

// bytes is about what entries take in memory.
func (l Listing) bytes(entries []Entry) int64 {
	each := int64(unsafe.Sizeof(Entry{}))
	if l.Stats {
		each += int64(unsafe.Sizeof(Stat{}))
	}
	n := each * int64(len(entries))
	for i := range entries {
		n += int64(len(entries[i].Name))
	}
	return n
}

// mayOwn says whether uid and gid (-1 for unchanged) may be given to a file.
func MayOwn(o Options, uid, gid int64) error {
	const maxID = 1<<32 - 2
	if uid < -1 || gid < -1 || uid > maxID || gid > maxID {
		return fserr.EINVAL
	}
	ownUID := uid == -1 || uid == int64(os.Geteuid()) || (o.Owner != nil && uid == int64(o.Owner.UID))
	ownGID := gid == -1 || gid == int64(os.Getegid()) || (o.Owner != nil && gid == int64(o.Owner.GID))
	if o.AllowChown || (ownUID && ownGID) {
		return nil
	}
	return fserr.EPERM
}

// checkPath refuses what no resolution is needed to refuse.
func CheckPath(path string) error {
	switch {
	case path == "":
		return fserr.ENOENT
	case len(path) > MaxPath:
		return fserr.ENAMETOOLONG
	case strings.IndexByte(path, 0) >= 0:
		return &fserr.Error{Code: fserr.EINVAL, Detail: "the path has a NUL byte"}
	}
	return nil
}

// errOutside is the error of a path, or of a link on its way, that leaves the tree.
var ErrOutside = &fserr.Error{Code: fserr.EACCES, Detail: "permission denied, path leads outside the context"}
