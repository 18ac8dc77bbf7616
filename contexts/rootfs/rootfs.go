// Package rootfs opens paths inside a context, or inside any other tree that a hostile process may write to. Only this package and those
// below it do so: tree for recursive work, watch for changes, and osroot, the portable implementation. On Linux, rootfs itself resolves
// paths, by openat2 or component by component.
//
// # Vocabulary
//
// A Root is a held directory. No operation on it touches anything outside that directory, whatever path and links say, and whatever
// another process moves meanwhile. A path is virtual: it begins at the root, a leading slash has no meaning, and it is a string of any
// bytes except NUL.
//
// # Rules of every implementation
//
//   - Resolution is POSIX: "a/../b" is ENOENT if a is missing.
//   - ".." beyond the root is EACCES. A relative link whose target leads outside is EACCES when followed, dangling or not. An absolute
//     target means the root of the tree. Such links can still be lstat'ed, read, renamed and unlinked.
//   - A component over 255 bytes or a path over 4096 is ENAMETOOLONG. So may be a path that links lead more than 2048 levels down, where
//     no path could name it. NUL is EINVAL. An empty path is ENOENT, as in POSIX. "/" and "." are the root itself.
//   - A trailing slash requires a directory (ENOTDIR otherwise) and follows a final link.
//   - "/", "." and ".." as the target of a mutation are EBUSY, EINVAL or ENOTEMPTY, as on Linux.
//   - Only regular files and directories are opened. FIFOs, sockets and devices are EOPNOTSUPP, at once and without blocking.
//   - setuid and setgid are dropped from modes, as for an unprivileged writer. Device nodes cannot be made.
//   - A hidden name (see Reserved) is ENOENT to look up and EACCES to create.
//
// # Errors
//
// Each error is or wraps a *fserr.Error with a Code. The caller adds Op and paths by fserr.Wrap. No error text has a server path.
package rootfs

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/contexts/rootfs/osroot"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/fserr"
)

// ErrHalfMoved says that a rename was made, and that some of the old names of a directory of a lower layer are still there.
var ErrHalfMoved = errors.New("the directory was moved, but its old names could not be removed")

// The names that Root's methods use. They belong to package node, so that the packages below this one know them too.
type (
	File       = node.File
	AtomicFile = node.AtomicFile
	Dir        = node.Dir
	Entry      = node.Entry
	Type       = node.Type
	Stat       = node.Stat
	Statfs     = node.Statfs
	Lookups    = node.Lookups
	Flags      = node.Flags
	Options    = node.Options
	Owner      = node.Owner
)

// Limits of a path, in bytes, and the beginning of hidden names. See package node.
const (
	MaxName        = node.MaxName
	MaxPath        = node.MaxPath
	ReservedPrefix = node.ReservedPrefix
)

// Flags of OpenFile.
const (
	O_RDONLY    = node.O_RDONLY
	O_WRONLY    = node.O_WRONLY
	O_RDWR      = node.O_RDWR
	O_ACCMODE   = node.O_ACCMODE
	O_CREAT     = node.O_CREAT
	O_EXCL      = node.O_EXCL
	O_NOCTTY    = node.O_NOCTTY
	O_TRUNC     = node.O_TRUNC
	O_APPEND    = node.O_APPEND
	O_NONBLOCK  = node.O_NONBLOCK
	O_DSYNC     = node.O_DSYNC
	O_DIRECT    = node.O_DIRECT
	O_LARGEFILE = node.O_LARGEFILE
	O_DIRECTORY = node.O_DIRECTORY
	O_NOFOLLOW  = node.O_NOFOLLOW
	O_NOATIME   = node.O_NOATIME
	O_CLOEXEC   = node.O_CLOEXEC
	O_SYNC      = node.O_SYNC
)

// Types of an Entry.
const (
	TypeUnknown     = node.TypeUnknown
	TypeFile        = node.TypeFile
	TypeDirectory   = node.TypeDirectory
	TypeSymlink     = node.TypeSymlink
	TypeFIFO        = node.TypeFIFO
	TypeSocket      = node.TypeSocket
	TypeBlockDevice = node.TypeBlockDevice
)

// Reserved reports whether name, one path component, is one of the service's own.
func Reserved(name string) bool { return node.Reserved(name) }

// Root is one confined directory tree. It is safe for concurrent use. Close
// releases its descriptor; operations that run keep it until they end.
type Root interface {
	Opener
	Inspector
	Mutator
	Attributes
	Trees
	io.Closer
}

// Opener opens files.
type Opener interface {
	// OpenFile opens path with Linux open(2) flags (see Flags) and, when it
	// creates, mode (permission bits, umask not applied). The final link is followed unless
	// O_NOFOLLOW. With O_CREAT, a dangling link within the tree creates its target;
	// with O_CREAT|O_EXCL a link is EEXIST. A directory opens read-only. O_TRUNC is honoured.
	OpenFile(path string, flags Flags, mode uint32) (File, error)
	// OpenStat opens an existing file, as OpenFile does, and returns its attributes as they were
	// then. The birth time may be that of the last change. It saves the system call of File.Stat. flags must neither create nor truncate
	// (EINVAL).
	OpenStat(path string, flags Flags) (File, Stat, error)
	// CreateAtomic begins a file that appears at path, whole, on Commit, and not at all otherwise. It keeps the mode, owner and extended
	// attributes of an existing regular file; a new one gets mode. If path ends in a link, its target is replaced. With exclusive, an
	// existing path is EEXIST at Commit, and at once if it exists before.
	CreateAtomic(path string, mode uint32, exclusive bool) (AtomicFile, error)
	// OpenDir opens the directory path for listing, following a final link.
	OpenDir(path string) (Dir, error)
}

// Inspector reads and changes nothing.
type Inspector interface {
	// Stat returns the attributes of path, following a final link.
	Stat(path string) (Stat, error)
	// Lstat returns the attributes of path itself. With a trailing slash it is Stat of a directory.
	Lstat(path string) (Stat, error)
	// Statfs describes the file system of path.
	Statfs(path string) (Statfs, error)
	// Access checks path for mode, a union of R_OK (4), W_OK (2) and X_OK (1); 0 checks that it exists. It fails with EACCES, EROFS or EPERM
	// (an immutable file), and with EINVAL for other bits.
	Access(path string, mode uint32) error
	// Realpath returns the virtual absolute path of what path resolves to, from its descriptor. It fails with ENOENT if that was deleted, and
	// with EACCES if it is no longer under the root.
	Realpath(path string) (string, error)
	// Readlink returns the stored target, byte for byte. It fails with EINVAL if path is not a link.
	Readlink(path string) (string, error)
	// Lookups begins a run of questions that were asked together. Close it at the end.
	Lookups() Lookups
}

// Mutator changes names.
type Mutator interface {
	// Mkdir makes one directory. It fails with EEXIST if path exists.
	Mkdir(path string, mode uint32) error
	// MkdirAll makes path and missing parents. It returns the virtual absolute path of the first directory that it made, "" if all existed.
	// A file on the way is ENOTDIR, one at the end EEXIST, and a dangling link ENOENT, as in Node.
	MkdirAll(path string, mode uint32) (first string, err error)
	// Symlink stores target, byte for byte, as a link at path.
	Symlink(target, path string) error
	// Link makes newpath another name of oldpath. It does not follow a final link. A directory is EPERM.
	Link(oldpath, newpath string) error
	// Rename moves oldpath to newpath, replacing as rename(2) does.
	Rename(oldpath, newpath string) error
	// Unlink removes the name of a file or link. A directory is EISDIR, never EPERM.
	Unlink(path string) error
	// Rmdir removes an empty directory.
	Rmdir(path string) error
}

// Attributes changes metadata. follow says whether a final link is followed.
type Attributes interface {
	// Chmod sets the permission bits (07777 masked by what is allowed) of path, following a final link.
	Chmod(path string, mode uint32) error
	// Chown sets owner and group; -1 leaves one unchanged. Unless Options.AllowChown, others than the server's own are EPERM.
	Chown(path string, uid, gid int64, follow bool) error
	// Utimes sets access and modification time, in ns since the epoch.
	Utimes(path string, atimeNs, mtimeNs int64, follow bool) error
}

// Trees works recursively, by descriptor, and never follows links out of the tree. When ctx ends, its methods fail with ECANCELED or
// ETIMEDOUT and report what was done.
type Trees interface {
	// Walk calls fn for every entry below dir (not dir itself), parents before
	// children, siblings in directory order. fn may return tree.SkipDir for a directory. Walk skips entries that vanish.
	Walk(ctx context.Context, dir string, opts tree.WalkOptions, fn tree.WalkFunc) error
	// RemoveAll removes path and what is below it, links themselves included, and returns the number of entries removed. A missing path is
	// ENOENT.
	RemoveAll(ctx context.Context, path string) (removed int64, err error)
	// Watch reports changes of path (a file or a directory) until the Watcher is closed.
	Watch(path string, opts watch.Options) (watch.Watcher, error)
	// OpenNoFollow opens path, such as one that Walk reported. A link anywhere on the way is ELOOP. It returns the attributes as OpenStat
	// does; with O_TRUNC, they are older than the truncation. flags must not create.
	OpenNoFollow(path string, flags Flags) (File, Stat, error)
}

// Open opens dir, a server path, as a Root. dir itself must be a directory and
// not a symbolic link (ELOOP).
func Open(dir string, opts Options) (Root, error) {
	switch opts.Implementation {
	case "", "openat2", "walk", "osroot":
		return open(dir, opts)
	}
	return nil, &fserr.Error{Op: "open", Code: fserr.EINVAL, Detail: "unknown rootfs implementation " + opts.Implementation}
}

// Straight reports whether path exists and no link is on its way or at its end, so that it is its own Realpath if it is absolute and clean. It
// costs less than Realpath. It may be false for such a path too.
func Straight(root Root, path string) bool {
	r, ok := root.(interface{ straight(path string) bool })
	return ok && r.straight(path)
}

// Sub opens a directory of a root's top as a Root of its own, in which that directory is "/". name is one component. It fails with ENOENT if
// there is none, and with ELOOP or ENOTDIR if name is a link or no directory. Closing the root does not close it.
func Sub(root Root, name string) (Root, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, &fserr.Error{Op: "open", Path: name, Code: fserr.EINVAL, Detail: "no name of a directory"}
	}
	switch r := root.(type) {
	case interface {
		sub(name string) (Root, error)
	}:
		return r.sub(name)
	case *osroot.Root:
		sub, err := r.Sub(name)
		if err != nil {
			return nil, err
		}
		return sub, nil
	}
	return nil, &fserr.Error{Op: "open", Path: name, Code: fserr.EOPNOTSUPP, Detail: "the root cannot be opened in parts"}
}

func openPortable(dir string, opts Options) (Root, error) {
	r, err := osroot.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	return r, nil
}
