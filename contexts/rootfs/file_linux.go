package rootfs

import (
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// linuxFile is an open file; its position is the kernel's.
type linuxFile struct {
	fd   descriptor
	root *linuxRoot
	// setid says that the file was setuid or setgid when it was opened, and has not been written since.
	setid atomic.Bool
}

// newFile takes ownership of fd.
func newFile(fd int, r *linuxRoot) File { return &linuxFile{fd: descriptor{fd: fd}, root: r} }

// dropSetid does before a write what the kernel does only for writers without CAP_FSETID: it removes setuid and setgid. EPERM, of a
// file of somebody else, leaves that to the kernel.
func (f *linuxFile) dropSetid(fd int) error {
	if !f.setid.Load() {
		return nil
	}
	st, err := statFD(fd)
	if err == nil {
		err = unix.Fchmod(fd, st.Perm()&^0o6000)
	}
	if err == nil || err == unix.EPERM {
		f.setid.Store(false)
		return nil
	}
	return err
}

// do runs one system call on the file.
func (f *linuxFile) do(op string, call func(fd int) error) error {
	err := f.fd.use(func(fd int) error { return uninterrupted(func() error { return call(fd) }) })
	return failed(err, op, "")
}

func (f *linuxFile) withFD(fn func(fd int) error) error { return f.fd.use(fn) }

// transfer repeats call until p is done, nothing moves any more, or it fails.
func (f *linuxFile) transfer(op string, p []byte, call func(fd int, rest []byte, done int) (int, error)) (done int, err error) {
	for done < len(p) {
		var n int
		err = f.do(op, func(fd int) (err error) {
			n, err = call(fd, p[done:], done)
			return err
		})
		if err != nil || n == 0 {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (f *linuxFile) Read(p []byte) (n int, err error) {
	fd, err := f.fd.acquire()
	if err != nil {
		return 0, failed(err, "read", "")
	}
	for n, err = unix.Read(fd, p); err == unix.EINTR; {
		n, err = unix.Read(fd, p)
	}
	f.fd.release()
	if err != nil {
		return 0, failed(err, "read", "")
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f *linuxFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fserr.New("read", "", fserr.EINVAL)
	}
	n, err := f.transfer("read", p, func(fd int, rest []byte, done int) (int, error) {
		return unix.Pread(fd, rest, off+int64(done))
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *linuxFile) Write(p []byte) (int, error) {
	n, err := f.transfer("write", p, func(fd int, rest []byte, _ int) (int, error) {
		if err := f.dropSetid(fd); err != nil {
			return 0, err
		}
		return unix.Write(fd, rest)
	})
	return written(n, len(p), err)
}

func (f *linuxFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fserr.New("write", "", fserr.EINVAL)
	}
	n, err := f.transfer("write", p, func(fd int, rest []byte, done int) (int, error) {
		if err := f.dropSetid(fd); err != nil {
			return 0, err
		}
		return unix.Pwrite(fd, rest, off+int64(done))
	})
	return written(n, len(p), err)
}

// written tells in the error how much had reached the file.
func written(n, want int, err error) (int, error) {
	if err == nil && n < want {
		return n, io.ErrShortWrite
	}
	if e, ok := err.(*fserr.Error); ok {
		e.Written = int64(n)
	}
	return n, err
}

func (f *linuxFile) Seek(offset int64, whence int) (pos int64, err error) {
	err = f.do("lseek", func(fd int) error {
		pos, err = unix.Seek(fd, offset, whence)
		return err
	})
	return pos, err
}

func (f *linuxFile) Close() error { return failed(f.fd.close(), "close", "") }

func (f *linuxFile) Stat() (st Stat, err error) {
	err = f.do("fstat", func(fd int) error {
		st, err = statFD(fd)
		return err
	})
	return st, err
}

func (f *linuxFile) Truncate(size int64) error {
	return f.do("ftruncate", func(fd int) error {
		if err := f.dropSetid(fd); err != nil {
			return err
		}
		return unix.Ftruncate(fd, size)
	})
}

func (f *linuxFile) Chmod(mode uint32) error {
	return f.do("fchmod", func(fd int) error { return unix.Fchmod(fd, mode&0o1777) })
}

func (f *linuxFile) Chown(uid, gid int64) error {
	return f.do("fchown", func(fd int) error { return f.root.chownFD(fd, uid, gid) })
}

func (f *linuxFile) Utimes(atimeNs, mtimeNs int64) error {
	return f.do("futime", func(fd int) error { return utimesFD(fd, atimeNs, mtimeNs) })
}

func (f *linuxFile) Sync(dataOnly bool) error {
	if dataOnly {
		return f.do("fdatasync", unix.Fdatasync)
	}
	return f.do("fsync", unix.Fsync)
}
