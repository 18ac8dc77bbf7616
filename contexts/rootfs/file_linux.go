package rootfs

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// descriptor owns a file descriptor. close does not wait for its users: the last one closes it, so that its number is not reused under
// another.
type descriptor struct {
	fd int
	// state counts the users. close adds closed.
	state atomic.Int64
}

const closed = 1 << 62

// acquire returns the number, which stays open until release. After close it fails with os.ErrClosed (EBADF).
func (d *descriptor) acquire() (fd int, err error) {
	for {
		state := d.state.Load()
		if state >= closed {
			return -1, os.ErrClosed
		}
		if d.state.CompareAndSwap(state, state+1) {
			return d.fd, nil
		}
	}
}

func (d *descriptor) release() {
	if d.state.Add(-1) == closed {
		node.CloseFD(d.fd)
	}
}

// use calls fn between acquire and release.
func (d *descriptor) use(fn func(fd int) error) error {
	fd, err := d.acquire()
	if err != nil {
		return err
	}
	defer d.release()
	return fn(fd)
}

func (d *descriptor) close() error {
	for !d.state.CompareAndSwap(0, closed) {
		state := d.state.Load()
		if state >= closed {
			return os.ErrClosed
		}
		if state > 0 && d.state.CompareAndSwap(state, state+closed) {
			return nil // the last user closes it
		}
	}
	// On Linux the number is free whatever close returns. The error may be that of a late write (EIO, ENOSPC, EDQUOT).
	if err := unix.Close(d.fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}

// readlinkFD returns the target of the link that an O_PATH descriptor refers to. It fails with EINVAL if that is not a link.
func readlinkFD(fd int) (string, error) {
	target, err := readlinkAt(fd, "")
	if err == unix.ENOENT {
		err = unix.EINVAL
	}
	return target, err
}

func readlinkAt(dir int, name string) (string, error) {
	buf := make([]byte, MaxPath+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// linuxFile is an open file. Its position is the kernel's.
type linuxFile struct {
	fd   descriptor
	root *linuxRoot
	// setid says that the file was setuid or setgid when it was opened, and was not written since.
	setid atomic.Bool
}

// newFile takes ownership of fd.
func newFile(fd int, r *linuxRoot) File { return &linuxFile{fd: descriptor{fd: fd}, root: r} }

// dropSetid removes setuid and setgid before a write. The kernel does that only for writers without CAP_FSETID. With EPERM, the file has
// another owner, and the kernel does it.
func (f *linuxFile) dropSetid(fd int) error {
	if !f.setid.Load() {
		return nil
	}
	st, err := node.StatFD(fd)
	if err == nil {
		err = unix.Fchmod(fd, st.Perm()&^0o6000)
	}
	if err == nil || err == unix.EPERM {
		f.setid.Store(false)
		return nil
	}
	return err
}

// do runs one system call on the file. When the disk is full, it waits for the replaced files that are being freed, and tries again.
func (f *linuxFile) do(op string, call func(fd int) error) error {
	try := func() error {
		return f.fd.use(func(fd int) error { return node.Uninterrupted(func() error { return call(fd) }) })
	}
	err := try()
	if err == unix.ENOSPC {
		f.root.awaitFree()
		err = try()
	}
	return failed(err, op, "")
}

func (f *linuxFile) WithFD(fn func(fd int) error) error { return f.fd.use(fn) }

// transfer repeats call until p is done, call moves no bytes, or it fails.
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
	if err := f.root.charge(len(p)); err != nil {
		return 0, failed(err, "write", "")
	}
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
	if err := f.root.charge(len(p)); err != nil {
		return 0, failed(err, "write", "")
	}
	n, err := f.transfer("write", p, func(fd int, rest []byte, done int) (int, error) {
		if err := f.dropSetid(fd); err != nil {
			return 0, err
		}
		return unix.Pwrite(fd, rest, off+int64(done))
	})
	return written(n, len(p), err)
}

// written sets in the error how many bytes were written.
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
		st, err = node.StatFD(fd)
		return err
	})
	return st, err
}

// change is do for what changes the file, whatever its handle was opened for.
func (f *linuxFile) change(op string, call func(fd int) error) error {
	if err := f.root.opts.Refuse; err != nil {
		return failed(err, op, "")
	}
	return f.do(op, call)
}

func (f *linuxFile) Truncate(size int64) error {
	return f.change("ftruncate", func(fd int) error {
		if err := f.dropSetid(fd); err != nil {
			return err
		}
		return unix.Ftruncate(fd, size)
	})
}

func (f *linuxFile) Chmod(mode uint32) error {
	return f.change("fchmod", func(fd int) error { return unix.Fchmod(fd, mode&0o1777) })
}

func (f *linuxFile) Chown(uid, gid int64) error {
	return f.change("fchown", func(fd int) error { return f.root.chownFD(fd, uid, gid) })
}

func (f *linuxFile) Utimes(atimeNs, mtimeNs int64) error {
	return f.change("futime", func(fd int) error { return node.UtimesFD(fd, atimeNs, mtimeNs) })
}

func (f *linuxFile) Sync(dataOnly bool) error {
	if dataOnly {
		return f.do("fdatasync", unix.Fdatasync)
	}
	return f.do("fsync", func(fd int) error {
		if err := unix.Fsync(fd); err != nil {
			return err
		}
		return f.root.syncNameOf(fd)
	})
}

// maxPieces is IOV_MAX of writev(2).
const maxPieces = 1024

func (f *linuxFile) writev(pieces [][]byte) (int, error) {
	return f.transferv(pieces, func(fd int, rest [][]byte, _ int) (int, error) { return unix.Writev(fd, rest) })
}

func (f *linuxFile) pwritev(pieces [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, fserr.New("write", "", fserr.EINVAL)
	}
	return f.transferv(pieces, func(fd int, rest [][]byte, done int) (int, error) {
		return unix.Pwritev(fd, rest, off+int64(done))
	})
}

// transferv is transfer of pieces.
func (f *linuxFile) transferv(pieces [][]byte, call func(fd int, rest [][]byte, done int) (int, error)) (int, error) {
	if err := f.root.charge(piecesLen(pieces)); err != nil {
		return 0, failed(err, "write", "")
	}
	want := 0
	for _, p := range pieces {
		want += len(p)
	}
	for done := 0; done < want; {
		var n int
		err := f.do("write", func(fd int) (err error) {
			if err := f.dropSetid(fd); err != nil {
				return err
			}
			n, err = call(fd, pieces[:min(len(pieces), maxPieces)], done)
			return err
		})
		if err != nil || n == 0 && len(pieces) <= maxPieces {
			return written(done, want, err)
		}
		done += n
		pieces = after(pieces, n)
	}
	return want, nil
}

// after returns the rest of pieces after n bytes.
func after(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces = append([][]byte{pieces[0][n:]}, pieces[1:]...)
	}
	return pieces
}

var _ Sender = (*linuxFile)(nil)

// SendTo implements Sender.
func (f *linuxFile) SendTo(socket uintptr, off int64, n int) (sent int, err error) {
	fd, err := f.fd.acquire()
	if err != nil {
		return 0, err
	}
	defer f.fd.release()
	for {
		sent, err = unix.Sendfile(int(socket), fd, &off, n)
		if !errors.Is(err, unix.EINTR) {
			return max(sent, 0), err
		}
	}
}

func piecesLen(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}
