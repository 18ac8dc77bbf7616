// Package node has what rootfs, tree, watch and osroot share: files and their attributes, held directories (Node), and the way
// from the top of a tree down to one of them (Trail).
//
// A Node does not check the names that it is given. The package is internal, so only those four can reach one. It must never open a
// path of more than one component.
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

// ReservedPrefix begins the names of temporary files. Atomic writes need such names where O_TMPFILE is missing. Listings, walks and
// watches hide them, callers cannot use them, and tree.Sweep removes them at start.
const ReservedPrefix = ".ctxfs-tmp-"

// Reserved reports whether name, one path component, is reserved for temporary files.
func Reserved(name string) bool { return strings.HasPrefix(name, ReservedPrefix) }

// Lookups answers questions that were asked together, before the first was answered. It may therefore keep the directory of one
// question open for the next. It is for one goroutine.
type Lookups interface {
	// Stat is Inspector.Stat.
	Stat(path string) (Stat, error)
	// Lstat is Inspector.Lstat.
	Lstat(path string) (Stat, error)
	// Close closes the directory that is open.
	Close()
}

// Options configure rootfs.Open.
type Options struct {
	// AllowChown permits owners other than the server's own uid and gid.
	AllowChown bool
	// Owner, if not nil, becomes the owner of everything created: a root server acts for the workspace's owner.
	Owner *Owner
	// Implementation selects one: "openat2", "walk" (Linux without openat2) or "osroot" (portable). "" selects the best.
	Implementation string
	// FollowMounts permits paths to cross mount points. Contexts do not use it.
	FollowMounts bool
	// Zone says that the root is one of several in a Zoned: a path that leads above it, or to "/", fails with *Leaving.
	Zone bool
	// Barred reports names that callers can neither see nor use, at any depth: they are not listed, and EACCES otherwise. nil means none.
	Barred func(name string) bool
	// Refuse is the error of every change; nil permits changes.
	Refuse error
	// Charge is called before up to so many bytes of content are written, and returns the error of the write. nil permits all.
	Charge func(bytes int64) error
}

// Special reports whether the options ask for what only Linux can do.
func (o Options) Special() bool {
	return o.Zone || o.Barred != nil || o.Refuse != nil || o.Charge != nil
}

// Leaving is the error of a path in a zone that leads to another path of the Zoned. Rest is that path.
type Leaving struct{ Rest string }

func (l *Leaving) Error() string { return "the path leads out of the zone" }

// Unwrap says that a path must not leave a zone that is used alone.
func (l *Leaving) Unwrap() error { return fserr.EACCES }

// ErrBarred is the error of a name that Options.Barred reports.
var ErrBarred = &fserr.Error{
	Code: fserr.EACCES, Detail: "permission denied, a direct zone shows neither repositories' .git nor contexts", Hint: "the host uses git there",
}

// Owner is a numeric user and group.
type Owner struct{ UID, GID int }

// Node is a held directory. Each name given to it must be a single component without "/", and not "", "." or "..". It follows no
// link. Linux implements it with *at calls on a descriptor, other systems with os.Root. Errors are *fserr.Error or errno values.
type Node interface {
	// Entries lists all names but reserved ones. Two calls at once on one Node are not allowed.
	Entries(l Listing) ([]Entry, error)
	// Reserved lists the names that Entries leaves out.
	Reserved() ([]string, error)
	// Lstat returns the attributes of the name itself, or of the directory for "".
	Lstat(name string) (Stat, error)
	// OpenDir opens a child directory without following a link (ENOTDIR or ELOOP).
	OpenDir(name string) (Node, error)
	// Up opens the directory above, which may be another one by now: compare identities. It fails with EOPNOTSUPP where it cannot.
	Up() (Node, error)
	// OpenFile opens a child file without following a link (ELOOP) or blocking on a FIFO.
	OpenFile(name string, flags Flags, mode uint32) (File, error)
	Readlink(name string) (string, error)
	Symlink(target, name string) error
	// Whiteout makes the device with which overlayfs marks name as deleted. It fails with EOPNOTSUPP where it cannot.
	Whiteout(name string) error
	Mkdir(name string, mode uint32) error
	Link(oldname string, to Node, newname string) error
	// Exchange swaps two names in one step. It fails with EOPNOTSUPP where the system cannot.
	Exchange(a, b string) error
	// Move renames, and fails with EEXIST if newname exists. Where the system cannot do both in one step, it looks first.
	Move(oldname, newname string) error
	// MoveTo is Move into another directory, and ExchangeWith is Exchange with a name of another directory. They fail with EXDEV between two
	// zones, and with EOPNOTSUPP where the system cannot do them in one step. A directory of a lower layer is moved as Root.Rename moves it.
	MoveTo(oldname string, to Node, newname string) error
	ExchangeWith(name string, other Node, otherName string) error
	Unlink(name string) error
	Rmdir(name string) error
	// Chmod, Chown and Utimes act on a child itself, or on the directory for "".
	Chmod(name string, mode uint32) error
	Chown(name string, uid, gid int64) error
	Utimes(name string, atimeNs, mtimeNs int64) error
	// WithFD calls fn with the directory's descriptor. It fails with EOPNOTSUPP where there is none.
	WithFD(fn func(fd int) error) error
	io.Closer
}

// Listing says what Entries returns. The zero Listing is all names but reserved ones, without attributes.
type Listing struct {
	// Stats fills Entry.Stat.
	Stats bool
	// Dirs leaves out entries that are known not to be directories.
	Dirs bool
	// All includes reserved names.
	All bool
	// Reserve is called with the further bytes of memory that the listing takes. Its error ends the listing. May be nil.
	Reserve func(bytes int64) error
}

// Wants reports whether an entry of this type belongs to the listing.
func (l Listing) Wants(t Type) bool { return !l.Dirs || t == TypeDirectory || t == TypeUnknown }

// Admit reserves the memory of entries.
func (l Listing) Admit(entries []Entry) error {
	if l.Reserve == nil || len(entries) == 0 {
		return nil
	}
	return l.Reserve(l.bytes(entries))
}

// bytes estimates the memory that entries take.
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

// MayOwn checks whether a file may get the owner uid and the group gid; -1 leaves one unchanged. It fails with EPERM or EINVAL.
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

// CheckPath refuses paths that no resolution could accept.
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

// ErrOutside is the error of a path that leads out of the tree, or has a link that does.
var ErrOutside = &fserr.Error{Code: fserr.EACCES, Detail: "permission denied, path leads outside the context"}
