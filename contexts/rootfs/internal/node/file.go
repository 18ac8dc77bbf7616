package node

import (
	"io"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// Flags are open(2) flags by their Linux (amd64) numbers, on every platform.
type Flags uint32

// The supported open(2) flags. Any other bit is EINVAL.
const (
	O_RDONLY    Flags = 0
	O_WRONLY    Flags = 1
	O_RDWR      Flags = 2
	O_ACCMODE   Flags = 3
	O_CREAT     Flags = 0o100
	O_EXCL      Flags = 0o200
	O_NOCTTY    Flags = 0o400
	O_TRUNC     Flags = 0o1000
	O_APPEND    Flags = 0o2000
	O_NONBLOCK  Flags = 0o4000
	O_DSYNC     Flags = 0o10000
	O_DIRECT    Flags = 0o40000
	O_LARGEFILE Flags = 0o100000
	O_DIRECTORY Flags = 0o200000
	O_NOFOLLOW  Flags = 0o400000
	O_NOATIME   Flags = 0o1000000
	O_CLOEXEC   Flags = 0o2000000
	O_SYNC      Flags = 0o4010000
)

// Readable reports whether the flags permit reading.
func (f Flags) Readable() bool { return f&O_ACCMODE == O_RDONLY || f&O_ACCMODE == O_RDWR }

// Writable reports whether the flags permit writing.
func (f Flags) Writable() bool { return f&O_ACCMODE == O_WRONLY || f&O_ACCMODE == O_RDWR }

// Exclusive reports whether the flags ask for a file that did not exist.
func (f Flags) Exclusive() bool { return f&(O_CREAT|O_EXCL) == O_CREAT|O_EXCL }

// File is an open regular file or directory. Its methods take no path, so nothing can redirect them. ReadAt and WriteAt neither use
// nor move the position that Read and Write share. Reading a directory is EISDIR.
type File interface {
	io.Reader
	io.Writer
	io.ReaderAt
	// WriteAt writes at off. On a file opened with O_APPEND it appends, as pwrite(2) does on Linux.
	io.WriterAt
	io.Seeker
	io.Closer
	// Stat returns the attributes.
	Stat() (Stat, error)
	// Truncate sets the size; growing fills with zeros.
	Truncate(size int64) error
	// Chmod sets the permission bits.
	Chmod(mode uint32) error
	// Chown is Attributes.Chown.
	Chown(uid, gid int64) error
	// Utimes sets the times, in ns since the epoch.
	Utimes(atimeNs, mtimeNs int64) error
	// Sync flushes content (and, unless dataOnly, metadata) to the disk.
	Sync(dataOnly bool) error
}

// AtomicFile is a file under construction. Call exactly one of Commit and Abort.
type AtomicFile interface {
	File
	// Commit puts the file in its place, instead of what stood there. With sync it flushes the file first.
	Commit(sync bool) error
	// Abort removes the file. After Commit it does nothing.
	Abort() error
	// Base returns the name that the file gets, without its directory. Links at the end of the path are resolved.
	Base() string
	// Appeared returns the attributes that the file had when Commit had put it in its place; the zero Stat if they are not known.
	Appeared() Stat
}

// Dir lists an open directory, without ".", ".." and reserved names.
type Dir interface {
	// Next returns up to n entries (n > 0), or io.EOF when there are no more. With stats each entry has its Stat (lstat), and one
	// that vanished is left out.
	Next(n int, stats bool) ([]Entry, error)
	io.Closer
}

// Entry is one name in a directory.
type Entry struct {
	Name string
	Type Type
	// Stat is the entry's own (lstat); nil unless it was requested.
	Stat *Stat
}

// Type is a type of file.
type Type uint8

// The types of file.
const (
	TypeUnknown Type = iota
	TypeFile
	TypeDirectory
	TypeSymlink
	TypeFIFO
	TypeSocket
	TypeCharDevice
	TypeBlockDevice
)

// Stat is struct stat. Times are ns since the epoch, saturating. Mode is the full st_mode, Linux bits.
type Stat struct {
	Dev, Ino, Rdev uint64
	Mode           uint32
	Nlink          uint64
	UID, GID       uint32
	Size           int64
	Blksize        int64
	// Blocks counts units of 512 bytes.
	Blocks                                 int64
	AtimeNs, MtimeNs, CtimeNs, BirthtimeNs int64
}

// Changed reports whether something wrote to a file, or changed its attributes, between s and a later look at the same file. A new ctime
// counts, unless a name came or went: that changes the ctime too. An overlay shows the link count and the ctime of a layer's file until
// something writes to the file, and layers share files by links, so the layer of another context changes both. Changed misses a write that
// puts the mtime back only if the file got or lost a name as well.
func (s Stat) Changed(later Stat) bool {
	return s.CtimeNs != later.CtimeNs && s.Nlink == later.Nlink ||
		s.Mode != later.Mode || s.UID != later.UID || s.GID != later.GID || s.Size != later.Size || s.MtimeNs != later.MtimeNs
}

// SameFile reports whether two looks, at one name or at two, were at one file. An overlay can show two inode numbers for one file, that of
// the layer's file and its own: for two names of it, and at different times for one. All else is the same, the ctime and the birth time
// included, which no program can set.
func (s Stat) SameFile(other Stat) bool {
	return s.ID() == other.ID() || s.Dev == other.Dev && s.Nlink == other.Nlink && s.BirthtimeNs == other.BirthtimeNs && !s.Changed(other)
}

// The S_IFMT bits of Mode (inode(7)).
const (
	S_IFMT   = 0o170000
	S_IFSOCK = 0o140000
	S_IFLNK  = 0o120000
	S_IFREG  = 0o100000
	S_IFBLK  = 0o060000
	S_IFDIR  = 0o040000
	S_IFCHR  = 0o020000
	S_IFIFO  = 0o010000
)

// typeShift is the position of the S_IFMT bits.
const typeShift = 12

// typeOfMode maps the S_IFMT bits, shifted, to types.
var typeOfMode = [S_IFMT>>typeShift + 1]Type{
	S_IFSOCK >> typeShift: TypeSocket, S_IFLNK >> typeShift: TypeSymlink, S_IFREG >> typeShift: TypeFile,
	S_IFBLK >> typeShift: TypeBlockDevice, S_IFDIR >> typeShift: TypeDirectory, S_IFCHR >> typeShift: TypeCharDevice,
	S_IFIFO >> typeShift: TypeFIFO,
}

// TypeOf returns the file type in the S_IFMT bits of mode.
func TypeOf(mode uint32) Type { return typeOfMode[mode&S_IFMT>>typeShift] }

// Type returns the file type in Mode.
func (s Stat) Type() Type { return TypeOf(s.Mode) }

// Perm returns the permission bits, with setuid, setgid and sticky.
func (s Stat) Perm() uint32 { return s.Mode & 0o7777 }

// IsDir reports whether it is a directory.
func (s Stat) IsDir() bool { return s.Mode&S_IFMT == S_IFDIR }

// Mtime returns the modification time.
func (s Stat) Mtime() time.Time { return time.Unix(0, s.MtimeNs) }

// Statfs is struct statfs as Node reports it; counts are in blocks of Bsize bytes.
type Statfs struct {
	Type, Bsize, Blocks, Bfree, Bavail, Files, Ffree uint64
}

const knownFlags = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |
	O_DSYNC | O_DIRECT | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_SYNC

// CheckFlags refuses unknown and contradictory flags. It refuses O_TRUNC without writing too, which POSIX leaves undefined: an open
// to read destroys nothing.
func CheckFlags(flags Flags) error {
	bad := flags&^knownFlags != 0 || flags&O_ACCMODE == O_ACCMODE ||
		flags&(O_CREAT|O_DIRECTORY) == O_CREAT|O_DIRECTORY ||
		(flags&O_TRUNC != 0 && !flags.Writable())
	if bad {
		return fserr.EINVAL
	}
	return nil
}

// Saturate converts a timespec to ns since the epoch. What does not fit becomes the nearest that does.
func Saturate(sec, nsec int64) int64 {
	const most = (1<<63 - 1) / 1_000_000_000
	switch {
	case sec >= most:
		return 1<<63 - 1
	case sec < -most:
		return -1 << 63
	}
	return sec*1_000_000_000 + nsec
}
