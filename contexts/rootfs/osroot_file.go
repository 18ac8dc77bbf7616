package rootfs

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/ctxfs/ctxfs/fserr"
)

// osFile is a File over *os.File.
type osFile struct {
	f     *os.File
	opts  Options
	flags Flags
	dir   bool
	// mu guards the shared position, which WriteAt of an appending file moves and puts back.
	mu sync.Mutex
}

func newOSFile(f *os.File, opts Options, flags Flags, dir bool) *osFile {
	return &osFile{f: f, opts: opts, flags: flags, dir: dir}
}

// ioError is osError but leaves io.EOF, and what was written short, as they are.
func ioError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return osError(err)
}

func (f *osFile) Read(p []byte) (int, error) {
	if f.dir {
		return 0, osError(fserr.EISDIR)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Read(p)
	return n, ioError(err)
}

func (f *osFile) Write(p []byte) (int, error) {
	if !f.flags.Writable() {
		return 0, osError(fserr.EBADF)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Write(p)
	return n, ioError(err)
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case f.dir:
		return 0, osError(fserr.EISDIR)
	case off < 0:
		return 0, osError(fserr.EINVAL)
	}
	n, err := f.f.ReadAt(p, off)
	return n, ioError(err)
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	switch {
	case !f.flags.Writable():
		return 0, osError(fserr.EBADF)
	case off < 0:
		return 0, osError(fserr.EINVAL)
	case f.flags&O_APPEND != 0:
		return f.appendAt(p)
	}
	n, err := f.f.WriteAt(p, off)
	return n, ioError(err)
}

// appendAt appends and puts the position back: os.File has no pwrite for appending files.
func (f *osFile) appendAt(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pos, err := f.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, osError(err)
	}
	n, err := f.f.Write(p)
	if _, back := f.f.Seek(pos, io.SeekStart); err == nil {
		err = back
	}
	return n, ioError(err)
}

func (f *osFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Seek(offset, whence)
	return n, ioError(err)
}

func (f *osFile) Close() error { return osError(f.f.Close()) }

func (f *osFile) Stat() (Stat, error) {
	st, err := osFstat(f.f)
	return st, osError(err)
}

func (f *osFile) Truncate(size int64) error {
	if f.dir || size < 0 || !f.flags.Writable() {
		return osError(fserr.EINVAL)
	}
	return osError(f.f.Truncate(size))
}

func (f *osFile) Chmod(mode uint32) error { return osError(f.f.Chmod(osMode(mode))) }

func (f *osFile) Chown(uid, gid int64) error {
	if err := mayOwn(f.opts, uid, gid); err != nil {
		return osError(err)
	}
	return osError(f.f.Chown(int(uid), int(gid)))
}

func (f *osFile) Utimes(atimeNs, mtimeNs int64) error {
	return osError(osFutimes(f.f, atimeNs, mtimeNs))
}

func (f *osFile) Sync(dataOnly bool) error {
	if dataOnly {
		return osError(osDatasync(f.f))
	}
	return osError(f.f.Sync())
}
