// Package rootfs is the only package that opens a path inside a context (or any
// other tree that somebody hostile may write to).
//
// # Vocabulary
//
// A Root is a held directory descriptor together with the promise that no
// operation on it touches anything outside that directory, whatever the path
// says, whatever links stand on the way, and whatever another process moves
// while the operation runs. A path is virtual: it starts at the root, a leading
// slash means nothing, and it is a Go string of arbitrary bytes without NUL.
//
// # Rules, the same for every implementation
//
//   - Resolution is POSIX: "a/../b" is ENOENT when a is missing.
//   - ".." beyond the root is EACCES. A relative link whose target leads outside is
//     EACCES when followed, dangling or not; an absolute target means the root of
//     the tree. Such a link can still be lstat'ed, read, renamed and unlinked.
//   - A component over 255 bytes or a path over 4096 is ENAMETOOLONG, and so may be a path
//     that links lead more than 2048 levels down, where no path could name it; NUL is EINVAL;
//     an empty path is ENOENT, as in POSIX. "/" and "." are the root itself.
//   - A trailing slash demands a directory (ENOTDIR otherwise) and follows a final link.
//   - "/", "." and ".." as the target of a mutation are EBUSY, EINVAL or ENOTEMPTY as on Linux.
//   - Only regular files and directories are opened; FIFOs, sockets and devices are
//     refused at once with EOPNOTSUPP, without blocking.
//   - setuid, setgid bits asked for are dropped silently from modes (as for an
//     unprivileged writer); device nodes cannot be made.
//   - Names that end up hidden (see Reserved) are ENOENT to look up and EACCES to create.
//
// # Errors
//
// Every error is a *fserr.Error (or wraps one) with Code set; Op and paths are
// filled in by the caller through fserr.Wrap. No error text carries a server path.
package rootfs

import (
	"context"
	"io"
	"strings"

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
	// OpenStat opens what exists, as OpenFile does, and tells its attributes as they were
	// then, but for the birth time, which may be that of the last change: to ask the File
	// would cost one more system call. flags must neither create nor truncate (EINVAL).
	OpenStat(path string, flags Flags) (File, Stat, error)
	// CreateAtomic starts a file that appears at path, whole, on Commit, and not
	// at all otherwise. An existing regular file's mode, owner and xattrs are kept;
	// a new one gets mode. When path ends in a link, its target is replaced. With
	// exclusive, an existing path is EEXIST at Commit (and at once if seen).
	CreateAtomic(path string, mode uint32, exclusive bool) (AtomicFile, error)
	// OpenDir opens the directory path for listing, following a final link.
	OpenDir(path string) (Dir, error)
}

// Inspector answers questions and changes nothing.
type Inspector interface {
	// Stat returns the attributes of path, following a final link.
	Stat(path string) (Stat, error)
	// Lstat returns the attributes of path itself. With a trailing slash it is Stat of a directory.
	Lstat(path string) (Stat, error)
	// Statfs describes the file system that holds path.
	Statfs(path string) (Statfs, error)
	// Access checks path for mode, a union of R_OK (4), W_OK (2), X_OK (1); 0 asks
	// for existence. EACCES, EROFS or EPERM (an immutable file) when refused, EINVAL for other bits.
	Access(path string, mode uint32) error
	// Realpath returns the virtual absolute path of what path resolves to, from
	// its descriptor; ENOENT when it was deleted, EACCES when it is no longer under the root.
	Realpath(path string) (string, error)
	// Readlink returns the stored target, byte for byte; EINVAL when path is no link.
	Readlink(path string) (string, error)
	// Lookups begins a run of questions that were asked together. It must be closed.
	Lookups() Lookups
}

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

// Mutator changes names.
type Mutator interface {
	// Mkdir makes one directory; EEXIST when anything stands there.
	Mkdir(path string, mode uint32) error
	// MkdirAll makes path and missing parents and returns the virtual absolute path
	// of the first directory made, "" when all existed. A file on the way is
	// ENOTDIR, one at the end EEXIST; a dangling link is ENOENT, as Node says.
	MkdirAll(path string, mode uint32) (first string, err error)
	// Symlink stores target, byte for byte, as a link at path.
	Symlink(target, path string) error
	// Link makes newpath another name of oldpath; a final link is not followed; a directory is EPERM.
	Link(oldpath, newpath string) error
	// Rename moves oldpath to newpath, replacing as rename(2) does.
	Rename(oldpath, newpath string) error
	// Unlink removes a name that is no directory (EISDIR when it is one, Linux; never EPERM).
	Unlink(path string) error
	// Rmdir removes an empty directory.
	Rmdir(path string) error
}

// Attributes changes metadata. follow says whether a final link is followed.
type Attributes interface {
	// Chmod sets the permission bits (07777 masked by what is allowed) of path, following a final link.
	Chmod(path string, mode uint32) error
	// Chown sets owner and group; -1 leaves one as it is. Others than the server's
	// own are EPERM unless Options.AllowChown.
	Chown(path string, uid, gid int64, follow bool) error
	// Utimes sets access and modification time, in ns since the epoch.
	Utimes(path string, atimeNs, mtimeNs int64, follow bool) error
}

// Trees works recursively, by descriptor, never following links out of the tree. All stop
// at ctx's end with ECANCELED (or ETIMEDOUT) and say what had been done.
type Trees interface {
	// Walk calls fn for every entry below dir (not dir itself), parents before
	// children, siblings in directory order. fn may return SkipDir for a directory.
	// An entry that vanishes during the walk is passed over.
	Walk(ctx context.Context, dir string, opts WalkOptions, fn WalkFunc) error
	// RemoveAll removes path and what is below it; nothing there is ENOENT.
	// It removes links themselves. It returns the number of entries removed.
	RemoveAll(ctx context.Context, path string) (removed int64, err error)
	// Watch reports changes of path (a file or a directory) until the Watcher is closed.
	Watch(path string, opts WatchOptions) (Watcher, error)
	// OpenNoFollow opens path without following a link anywhere on the way (ELOOP):
	// the way to open what Walk reported. It tells the attributes as OpenStat does. flags must
	// not create; with O_TRUNC the attributes are of before.
	OpenNoFollow(path string, flags Flags) (File, Stat, error)
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

// WalkOptions of Walk.
type WalkOptions struct {
	// Stats fills Entry.Stat.
	Stats bool
	// Deep enters directories whose path is longer than MaxPath, too. What is in them is reported with the path of the last directory
	// above it that a path can name.
	Deep bool
	// MaxDepth bounds the recursion; 0 means no bound beyond MaxPath. 1 lists dir alone.
	MaxDepth int
	// Reserve is told how many bytes of memory the walk's names take now, when that changes. Its error, when they became more,
	// ends the walk. May be nil.
	Reserve func(bytes int64) error
}

// WalkFunc receives an entry and its path relative to the walked directory,
// without a leading slash. err tells that a directory could not be read (its
// entry was reported before); returning nil goes on without it.
type WalkFunc func(rel string, e Entry, err error) error

// SkipDir as a WalkFunc's result passes over the directory's content.
const SkipDir = walkSignal("skip this directory")

type walkSignal string

func (s walkSignal) Error() string { return string(s) }

// WatchOptions of Watch.
type WatchOptions struct {
	// Recursive watches directories below too, new ones included.
	Recursive bool
	// Queue bounds the events held for a slow reader; 0 means 4096. Beyond it events are dropped, and once the reader has
	// taken those that are held, an Overflow is delivered.
	Queue int
	// Budget bounds what the queues of all watches that share it take; nil means no bound. Beyond it is as beyond Queue.
	Budget *WatchBudget
}

// Watcher delivers events until Close. Watches are in place when Watch returns.
type Watcher interface {
	// Events delivers events; it is closed after Close, or when the watched root itself is gone.
	Events() <-chan WatchEvent
	io.Closer
}

// WatchEvent is one change, in fs.watch's terms.
type WatchEvent struct {
	// Kind is WatchRename (a name came or went) or WatchChange (content or
	// attributes), or WatchOverflow (events were lost; list again).
	Kind WatchKind
	// Name is the path relative to the watched directory, without leading slash;
	// of a watched file its base name.
	Name string
}

// WatchKind is a WatchEvent's kind.
type WatchKind uint8

// The kinds of WatchEvent.
const (
	WatchRename WatchKind = iota + 1
	WatchChange
	WatchOverflow
)

// CopyOptions of CopyTree.
type CopyOptions struct {
	// Skip leaves an entry (and what is below it) out; rel is relative to src. May be nil.
	Skip func(rel string, e Entry) bool
	// Admit is asked before each entry is copied, from one goroutine; an error ends the copy. May be nil.
	Admit func(src Stat) error
	// Reserve is as WalkOptions.Reserve.
	Reserve func(bytes int64) error
	// Progress is told now and then, from one goroutine at a time. May be nil.
	Progress func(CopyProgress)
	// Overwrite replaces existing files (never directories by files or the reverse:
	// EISDIR, ENOTDIR); without it an existing destination is kept.
	Overwrite bool
	// ErrorOnExist makes an existing destination file EEXIST when Overwrite is off.
	ErrorOnExist bool
	// Dereference copies what links point to (within the tree) instead of links.
	Dereference bool
	// PreserveTimestamps keeps atime and mtime in ns. Modes are always kept.
	PreserveTimestamps bool
	// PreserveLinks keeps hard links within the tree, and PreserveXattrs user xattrs; seeding sets both.
	PreserveLinks, PreserveXattrs bool
	// MoreXattrs begins the names of further extended attributes that PreserveXattrs keeps of files and
	// directories; "" means none.
	MoreXattrs string
	// PreserveOwner keeps owner and group, as far as this process may give files away.
	PreserveOwner bool
	// Whiteouts makes overlayfs's mark of a deletion, a device, in place of each FIFO, socket and device, which are skipped.
	Whiteouts bool
	// RewriteLink maps a link's target, given rel; nil stores it byte for byte.
	RewriteLink func(rel, target string) string
	// NonRecursive refuses a source directory with EISDIR.
	NonRecursive bool
	// Workers bounds the files copied at once; 0 means 1.
	Workers int
	// Record, when set, is told of each entry that was copied, with its source's
	// Stat as it was copied. Calls are serialised.
	Record func(rel string, src Stat, linkTarget string)
	// Base, when set, is where unchanged files need not be copied from.
	Base *CopyBase
}

// CopyBase is a tree on the destination's file system whose files nobody ever changes, such as an
// earlier copy of the same source. What it still holds gets another name (a hard link) in the
// destination; where that cannot be, it is copied.
type CopyBase struct {
	Root Tree
	// Holds tells whether the file at rel, base, is what a copy of src, the source's, would be.
	Holds func(rel string, src, base Stat) bool
}

// CopyProgress counts what a copy has done so far.
type CopyProgress struct{ Files, Bytes int64 }

// CopyReport says what a copy did.
type CopyReport struct {
	CopyProgress
	// Special counts FIFOs, sockets and devices that were skipped.
	Special int64
	// Unstable lists files (relative to src) that kept changing while they were read.
	Unstable []string
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

func openPortable(dir string, opts Options) (Root, error) {
	r, err := openOSRoot(dir, opts)
	if err != nil {
		return nil, err
	}
	return r, nil
}
