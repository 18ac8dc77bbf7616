package client

import (
	"errors"
	"io"
	"os"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Read reads at the offset and moves it.
func (f *File) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open("read"); err != nil {
		return 0, err
	}
	n, err := f.readOnce(b, f.offset)
	f.offset += int64(n)
	return n, err
}

// ReadAt reads len(b) bytes from off; fewer only at the end of the file, with io.EOF.
func (f *File) ReadAt(b []byte, off int64) (n int, err error) {
	if err := f.usable("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, badSeek(f.name, "negative offset")
	}
	for n < len(b) && err == nil {
		var m int
		m, err = f.readOnce(b[n:], off+int64(n))
		n += m
	}
	return n, err
}

func (f *File) readOnce(b []byte, off int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	length := int64(min(len(b), chunk))
	r, err := f.fsys.rpc.Read(f.fsys.ctx, &ctxfsv1.ReadRequest{Fd: f.fd, Position: &off, Length: &length})
	if err != nil {
		return 0, f.fail("read", err)
	}
	n := copy(b, r.GetData())
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write writes at the offset, or at the end of a file opened with os.O_APPEND.
func (f *File) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open("write"); err != nil {
		return 0, err
	}
	if f.flags&os.O_APPEND != 0 {
		return f.writeAll(b, nil)
	}
	n, err := f.writeAll(b, &f.offset)
	f.offset += int64(n)
	return n, err
}

// WriteString is Write.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// WriteAt writes at off. As with *os.File a file opened with os.O_APPEND refuses it.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	if err := f.usable("write"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, badSeek(f.name, "negative offset")
	}
	if f.flags&os.O_APPEND != 0 {
		return 0, badSeek(f.name, "WriteAt on a file opened with O_APPEND")
	}
	return f.writeAll(b, &off)
}

// writeAll writes b in chunks; from nil means the handle's own position.
func (f *File) writeAll(b []byte, from *int64) (n int, err error) {
	for first := true; first || n < len(b); first = false {
		var at *int64
		if from != nil {
			off := *from + int64(n)
			at = &off
		}
		part := b[n:min(len(b), n+chunk)]
		r, err := f.fsys.rpc.Write(f.fsys.ctx, &ctxfsv1.WriteRequest{
			Fd: f.fd, Position: at, Content: &ctxfsv1.WriteRequest_Data{Data: part},
		})
		n += int(r.GetBytesWritten())
		if r != nil && r.Position != nil { // only where it is not named, which is when appending
			f.offset = r.GetPosition()
		}
		if err != nil {
			return n + written(err), f.fail("write", err)
		}
		if r.GetBytesWritten() != int64(len(part)) {
			return n, f.fail("write", io.ErrShortWrite)
		}
	}
	return n, nil
}

// written is what a failed write says to have put into the file.
func written(err error) int {
	var e *fserr.Error
	if errors.As(convert("write", err), &e) && e.Written > 0 {
		return int(e.Written)
	}
	return 0
}

// Seek moves the offset.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	base, err := f.seekBase(whence)
	if err != nil {
		return 0, err
	}
	if base+offset < 0 {
		return 0, badSeek(f.name, "negative offset")
	}
	f.offset = base + offset
	if f.offset == 0 {
		f.listed, f.listAt = nil, 0
	}
	return f.offset, nil
}

func (f *File) seekBase(whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		return 0, f.open("seek")
	case io.SeekCurrent:
		return f.offset, f.open("seek")
	case io.SeekEnd:
		if err := f.open("seek"); err != nil {
			return 0, err
		}
		st, err := f.stat()
		return st.GetStat().GetSize(), err
	}
	return 0, badSeek(f.name, "unknown whence")
}

// WriteTo writes the rest of the file to w, as a stream.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open("read"); err != nil {
		return 0, err
	}
	r, err := f.fsys.readStream(f.name, &ctxfsv1.ReadStreamRequest{Fd: &f.fd, Start: &f.offset})
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	n, err := r.WriteTo(w)
	f.offset += n
	return n, err
}

// toEnd moves the offset to the file's end, where an append has left it unless another has written since.
func (f *File) toEnd() error {
	st, err := f.stat()
	if err == nil {
		f.offset = st.GetStat().GetSize()
	}
	return err
}

// ReadFrom writes all of r at the offset, as a stream.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open("write"); err != nil {
		return 0, err
	}
	open := &ctxfsv1.WriteStreamOpen{Fd: &f.fd, Start: &f.offset}
	if f.flags&os.O_APPEND != 0 {
		open.Start = nil
	}
	w, err := f.fsys.writeStream(f.name, open)
	if err != nil {
		return 0, err
	}
	n, err := w.ReadFrom(r)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	f.offset += w.Written()
	if open.Start == nil && w.Written() > 0 {
		return n, errors.Join(err, f.toEnd())
	}
	return n, err
}
