package client

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// chunk is how much one Read or Write of a File moves at most, in bytes; larger ones are split.
const chunk = 1 << 20

// File is an open handle on the server. It closes there when untouched for 5 minutes (the
// server's to say); a later use is EBADF. Its offset is kept here, so that it can seek. It
// is safe for concurrent use as *os.File is.
type File struct {
	fsys  *FS
	name  string
	fd    int32
	flags int

	mu     sync.Mutex
	offset int64
	closed bool
	// listed is what a directory holds, and listAt how much of it ReadDir gave.
	listed []fs.DirEntry
	listAt int
}

var (
	_ fs.ReadDirFile     = (*File)(nil)
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
	_ io.ReaderFrom      = (*File)(nil)
	_ io.WriterTo        = (*File)(nil)
	_ io.StringWriter    = (*File)(nil)
)

// Create makes or empties a file, and opens it for reading and writing.
func (f *FS) Create(name string) (*File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file or directory by flags of package os.
func (f *FS) OpenFile(name string, flags int, perm fs.FileMode) (*File, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.Open(f.ctx, &ctxfsv1.OpenRequest{
		ContextId: f.id, Path: p, RawPath: raw,
		FlagsForm: &ctxfsv1.OpenRequest_FlagsNumber{FlagsNumber: linuxFlags(flags)},
		ModeForm:  &ctxfsv1.OpenRequest_Mode{Mode: unixMode(perm)},
		IfMatch:   f.conditions.IfMatch, IfNoneMatch: f.conditions.none(),
	})
	if err != nil {
		return nil, f.pathError("open", name, err)
	}
	return &File{fsys: f, name: name, fd: r.GetFd(), flags: flags}, nil
}

// FileOf takes up a handle by its number, as from another program of the same panel.
func (f *FS) FileOf(fd int32, name string) *File {
	return &File{fsys: f, name: name, fd: fd, flags: os.O_RDWR}
}

// linuxFlags translates package os's flags, which differ between systems, to Linux's numbers (open(2)).
func linuxFlags(flags int) int32 {
	var out int32
	for _, m := range []struct {
		here  int
		linux int32
	}{
		{os.O_WRONLY, 0o1}, {os.O_RDWR, 0o2}, {os.O_CREATE, 0o100}, {os.O_EXCL, 0o200},
		{os.O_TRUNC, 0o1000}, {os.O_APPEND, 0o2000}, {os.O_SYNC, 0o4010000},
	} {
		if flags&m.here == m.here {
			out |= m.linux
		}
	}
	return out
}

// Name is the name it was opened by.
func (f *File) Name() string { return f.name }

// Fd is the handle's number on the server.
func (f *File) Fd() int32 { return f.fd }

func (f *File) fail(op string, err error) error { return f.fsys.pathError(op, f.name, err) }

func (f *File) closedError(op string) error {
	return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
}

// open reports a File that was closed here. The caller holds mu.
func (f *File) open(op string) error {
	if f.closed {
		return f.closedError(op)
	}
	return nil
}

func (f *File) usable(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open(op)
}

// Close gives the handle back.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open("close"); err != nil {
		return err
	}
	f.closed = true
	_, err := f.fsys.rpc.Close(f.fsys.ctx, &ctxfsv1.CloseRequest{Fd: f.fd})
	return f.fail("close", err)
}

// Stat describes the open file.
func (f *File) Stat() (fs.FileInfo, error) {
	if err := f.usable("fstat"); err != nil {
		return nil, err
	}
	r, err := f.stat()
	if err != nil {
		return nil, err
	}
	return newInfo(f.name, r.GetStat(), r.GetEtag()), nil
}

func (f *File) stat() (*ctxfsv1.FstatResponse, error) {
	r, err := f.fsys.rpc.Fstat(f.fsys.ctx, &ctxfsv1.FstatRequest{Fd: f.fd})
	return r, f.fail("fstat", err)
}

// ReadDir lists the directory, n entries at a time, as fs.ReadDirFile says.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open("readdir"); err != nil {
		return nil, err
	}
	if f.listed == nil {
		entries, err := f.fsys.readDir(f.name)
		if err != nil {
			return nil, err
		}
		f.listed = append([]fs.DirEntry{}, entries...)
	}
	rest := f.listed[f.listAt:]
	if n > 0 && len(rest) == 0 {
		return nil, io.EOF
	}
	if n > 0 && n < len(rest) {
		rest = rest[:n]
	}
	f.listAt += len(rest)
	return append([]fs.DirEntry{}, rest...), nil
}

// Sync flushes the file to the disk.
func (f *File) Sync() error {
	if err := f.usable("fsync"); err != nil {
		return err
	}
	_, err := f.fsys.rpc.Fsync(f.fsys.ctx, &ctxfsv1.FsyncRequest{Fd: f.fd})
	return f.fail("fsync", err)
}

// Truncate sets the size; the offset stays.
func (f *File) Truncate(size int64) error {
	if err := f.usable("ftruncate"); err != nil {
		return err
	}
	_, err := f.fsys.rpc.Ftruncate(f.fsys.ctx, &ctxfsv1.FtruncateRequest{Fd: f.fd, Len: &size})
	return f.fail("ftruncate", err)
}

// Chmod sets permission bits.
func (f *File) Chmod(mode fs.FileMode) error {
	if err := f.usable("fchmod"); err != nil {
		return err
	}
	_, err := f.fsys.rpc.Fchmod(f.fsys.ctx, &ctxfsv1.FchmodRequest{Fd: f.fd, ModeForm: &ctxfsv1.FchmodRequest_Mode{Mode: unixMode(mode)}})
	return f.fail("fchmod", err)
}

// Chown sets owner and group; -1 leaves one.
func (f *File) Chown(uid, gid int) error {
	if err := f.usable("fchown"); err != nil {
		return err
	}
	_, err := f.fsys.rpc.Fchown(f.fsys.ctx, &ctxfsv1.FchownRequest{Fd: f.fd, Uid: int64Ptr(uid), Gid: int64Ptr(gid)})
	return f.fail("fchown", err)
}

// Chtimes sets access and modification times.
func (f *File) Chtimes(atime, mtime time.Time) error {
	if err := f.usable("futime"); err != nil {
		return err
	}
	_, err := f.fsys.rpc.Futimes(f.fsys.ctx, &ctxfsv1.FutimesRequest{Fd: f.fd, AtimeNs: nanos(atime), MtimeNs: nanos(mtime)})
	return f.fail("futime", err)
}

func badSeek(name, why string) error {
	return &fs.PathError{Op: "seek", Path: name, Err: &fserr.Error{Code: fserr.EINVAL, Detail: why}}
}
