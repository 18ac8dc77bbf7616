package client

import (
	"io/fs"
	"path"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// fileInfo is an fs.FileInfo; Sys returns the *ctxfsv1.Stat.
type fileInfo struct {
	name string
	stat *ctxfsv1.Stat
	etag string
}

func newInfo(name string, st *ctxfsv1.Stat, etag string) fs.FileInfo {
	return fileInfo{name: path.Base(name), stat: st, etag: etag}
}

// ETagOf returns the etag of the file that Stat, Lstat, StatAll, LstatAll, or File.Stat have described; "" for a FileInfo from elsewhere, such as a listing.
func ETagOf(info fs.FileInfo) string {
	i, _ := info.(fileInfo)
	return i.etag
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.stat.GetSize() }
func (i fileInfo) Mode() fs.FileMode  { return goMode(i.stat.GetMode()) }
func (i fileInfo) ModTime() time.Time { return time.Unix(0, i.stat.GetMtimeNs()) }
func (i fileInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i fileInfo) Sys() any           { return i.stat }
func (i fileInfo) String() string     { return fs.FormatFileInfo(i) }

// The bits of st_mode (inode(7)), which travel as Linux has them.
const (
	sFmt, sDir, sLink, sFIFO, sSocket, sChar, sBlock = 0o170000, 0o040000, 0o120000, 0o010000, 0o140000, 0o020000, 0o060000
	sSetuid, sSetgid, sSticky                        = 0o4000, 0o2000, 0o1000
)

var goTypes = map[uint32]fs.FileMode{
	sDir: fs.ModeDir, sLink: fs.ModeSymlink, sFIFO: fs.ModeNamedPipe, sSocket: fs.ModeSocket,
	sChar: fs.ModeDevice | fs.ModeCharDevice, sBlock: fs.ModeDevice,
}

func goMode(st uint32) fs.FileMode {
	m := fs.FileMode(st&0o777) | goTypes[st&sFmt]
	for bit, mode := range map[uint32]fs.FileMode{sSetuid: fs.ModeSetuid, sSetgid: fs.ModeSetgid, sSticky: fs.ModeSticky} {
		if st&bit != 0 {
			m |= mode
		}
	}
	return m
}

// unixMode gives a mode's permission bits for a request.
func unixMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for bit, mode := range map[uint32]fs.FileMode{sSetuid: fs.ModeSetuid, sSetgid: fs.ModeSetgid, sSticky: fs.ModeSticky} {
		if m&mode != 0 {
			bits |= bit
		}
	}
	return bits
}

// entryTypes is by type; one that this client does not know is a regular file's.
var entryTypes = [...]fs.FileMode{
	ctxfsv1.FileType_FILE_TYPE_DIRECTORY: fs.ModeDir, ctxfsv1.FileType_FILE_TYPE_SYMLINK: fs.ModeSymlink,
	ctxfsv1.FileType_FILE_TYPE_FIFO: fs.ModeNamedPipe, ctxfsv1.FileType_FILE_TYPE_SOCKET: fs.ModeSocket,
	ctxfsv1.FileType_FILE_TYPE_CHARACTER_DEVICE: fs.ModeDevice | fs.ModeCharDevice,
	ctxfsv1.FileType_FILE_TYPE_BLOCK_DEVICE:     fs.ModeDevice,
}

func entryType(t ctxfsv1.FileType) fs.FileMode {
	if t < 0 || int(t) >= len(entryTypes) {
		return 0
	}
	return entryTypes[t]
}

// Entry is a name in a directory. It is an fs.DirEntry.
type Entry struct {
	name, parent string
	kind         fs.FileMode
	stat         *ctxfsv1.Stat
	fsys         *FS
}

func (f *FS) newEntry(e *ctxfsv1.DirEntry) Entry {
	return Entry{
		fsys: f,
		name: untwin(e.GetName(), e.GetRawName()), parent: untwin(e.GetParentPath(), e.GetRawParentPath()),
		kind: entryType(e.GetType()), stat: e.GetStat(),
	}
}

// Name is the last element.
func (e Entry) Name() string { return e.name }

// Path is the virtual path from the context's root.
func (e Entry) Path() string { return path.Join("/", e.parent, e.name) }

// IsDir reports whether the entry is a directory; a link to one is not.
func (e Entry) IsDir() bool { return e.kind.IsDir() }

// Type is the kind of file.
func (e Entry) Type() fs.FileMode { return e.kind }

// inFS is the name in the FS that listed it.
func (e Entry) inFS() string { return e.fsys.relative(e.Path()) }

// Info is the name's own attributes (lstat): as they were when it was listed with
// them, else asked for now.
func (e Entry) Info() (fs.FileInfo, error) {
	if e.stat == nil {
		return e.fsys.Lstat(e.inFS())
	}
	return fileInfo{name: e.name, stat: e.stat}, nil
}

// String formats the entry as fs.FormatDirEntry does.
func (e Entry) String() string { return fs.FormatDirEntry(e) }

// Parent is the virtual path of the directory it stands in.
func (e Entry) Parent() string { return path.Join("/", e.parent) }
