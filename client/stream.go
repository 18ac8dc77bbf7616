package client

import (
	"context"
	"errors"
	"io"
	"io/fs"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// streamChunk is the size of a stream's messages, in bytes; 256 KiB to 1 MiB serve best.
const streamChunk = 512 << 10

// ReadOptions of ReadStream.
type ReadOptions struct {
	// Offset of the first byte.
	Offset int64
	// Length in bytes; 0 means to the end.
	Length int64
}

// Reader is a file's content as a stream. Close it.
type Reader struct {
	fsys   *FS
	name   string
	stream interface {
		Recv() (*ctxfsv1.ReadStreamResponse, error)
	}
	cancel context.CancelFunc
	stat   *ctxfsv1.Stat
	rest   []byte
	err    error
}

var (
	_ io.ReadCloser = (*Reader)(nil)
	_ io.WriterTo   = (*Reader)(nil)
)

// ReadStream reads a file of any size. It fails at once when the file cannot be opened.
func (f *FS) ReadStream(name string, o ReadOptions) (*Reader, error) {
	p, raw := f.wire(name)
	req := &ctxfsv1.ReadStreamRequest{ContextId: f.id, Path: p, RawPath: raw, Start: &o.Offset}
	if o.Length > 0 {
		end := o.Offset + o.Length - 1
		req.End = &end
	}
	return f.readStream(name, req)
}

func (f *FS) readStream(name string, req *ctxfsv1.ReadStreamRequest) (*Reader, error) {
	req.ChunkSize = streamChunk
	ctx, cancel := context.WithCancel(f.ctx)
	s, err := f.rpc.ReadStream(ctx, req)
	if err != nil {
		cancel()
		return nil, f.pathError("open", name, err)
	}
	first, err := s.Recv()
	if err != nil {
		cancel()
		return nil, f.pathError("open", name, err)
	}
	return &Reader{fsys: f, name: name, stream: s, cancel: cancel, stat: first.GetStart().GetStat(), rest: first.GetData()}, nil
}

// Stat is the file as it was when it was opened.
func (r *Reader) Stat() fs.FileInfo { return newInfo(r.name, r.stat) }

// Read implements io.Reader.
func (r *Reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := r.fill(); err != nil {
		return 0, err
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *Reader) fill() error {
	for len(r.rest) == 0 && r.err == nil {
		m, err := r.stream.Recv()
		if err != nil {
			r.err = io.EOF
			if !errors.Is(err, io.EOF) {
				r.err = r.fsys.pathError("read", r.name, err)
			}
			break
		}
		r.rest = m.GetData()
	}
	if len(r.rest) > 0 {
		return nil
	}
	return r.err
}

// WriteTo implements io.WriterTo without a copy.
func (r *Reader) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		m, err := w.Write(r.rest)
		n += int64(m)
		r.rest = r.rest[m:]
		if err != nil {
			return n, err
		}
	}
}

// Close ends the stream, wherever it is.
func (r *Reader) Close() error {
	r.cancel()
	if r.err == nil {
		r.err = fs.ErrClosed
		for err := error(nil); err == nil; {
			_, err = r.stream.Recv()
		}
	}
	r.rest = nil
	return nil
}

// WriteOptions of WriteStream.
type WriteOptions struct {
	// Perm of a file that is made; 0 means 0o666.
	Perm fs.FileMode
	// Flag is Node's: "" or "w", "wx", "a", "r+", …
	Flag string
	// Offset, when not nil, writes in place from there.
	Offset *int64
	// Flush puts the content on the disk before Close returns.
	Flush bool
}

// Writer writes a file as a stream. With flag "w" or "wx" the file appears whole when
// Close succeeds, and not at all otherwise.
type Writer struct {
	fsys   *FS
	name   string
	stream interface {
		Send(*ctxfsv1.WriteStreamRequest) error
		CloseAndRecv() (*ctxfsv1.WriteStreamResponse, error)
	}
	cancel  context.CancelFunc
	written int64
	err     error
	done    bool
}

var (
	_ io.WriteCloser = (*Writer)(nil)
	_ io.ReaderFrom  = (*Writer)(nil)
)

// WriteStream writes a file of any size. Errors, of opening too, come from Write or Close.
func (f *FS) WriteStream(name string, o WriteOptions) (*Writer, error) {
	p, raw := f.wire(name)
	open := &ctxfsv1.WriteStreamOpen{ContextId: f.id, Path: p, RawPath: raw, Start: o.Offset, Flush: o.Flush}
	if o.Perm != 0 {
		open.ModeForm = &ctxfsv1.WriteStreamOpen_Mode{Mode: unixMode(o.Perm)}
	}
	if o.Flag != "" {
		open.FlagForm = &ctxfsv1.WriteStreamOpen_Flag{Flag: o.Flag}
	}
	return f.writeStream(name, open)
}

func (f *FS) writeStream(name string, open *ctxfsv1.WriteStreamOpen) (*Writer, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	s, err := f.rpc.WriteStream(ctx)
	if err != nil {
		cancel()
		return nil, f.pathError("open", name, err)
	}
	w := &Writer{fsys: f, name: name, stream: s, cancel: cancel}
	w.send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: open}})
	return w, w.err
}

// send sends one message. A stream that the server has ended answers io.EOF, and its reason by CloseAndRecv.
func (w *Writer) send(m *ctxfsv1.WriteStreamRequest) {
	if err := w.stream.Send(m); err != nil {
		w.finish()
		if w.err == nil {
			w.err = w.fsys.pathError("write", w.name, err)
		}
	}
}

func (w *Writer) finish() {
	if w.done {
		return
	}
	w.done = true
	r, err := w.stream.CloseAndRecv()
	w.cancel()
	w.written = r.GetBytesWritten()
	if err != nil {
		w.written = int64(written(err))
		w.err = w.fsys.pathError("open", w.name, err)
	}
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if w.done {
			return n, w.closedError()
		}
		part := b[n:min(len(b), n+streamChunk)]
		w.send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: part}})
		if w.err != nil {
			return n, w.err
		}
		n += len(part)
	}
	return n, nil
}

func (w *Writer) closedError() error {
	if w.err != nil {
		return w.err
	}
	return &fs.PathError{Op: "write", Path: w.name, Err: fs.ErrClosed}
}

// ReadFrom implements io.ReaderFrom.
func (w *Writer) ReadFrom(r io.Reader) (n int64, err error) {
	buf := make([]byte, streamChunk)
	for {
		m, readErr := io.ReadFull(r, buf)
		if m > 0 {
			if k, err := w.Write(buf[:m]); err != nil {
				return n + int64(k), err
			}
		}
		n += int64(m)
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			return n, nil
		}
		if readErr != nil {
			return n, readErr
		}
	}
}

// Close half-closes and waits for the server's answer: only then is the file there.
func (w *Writer) Close() error {
	w.finish()
	return w.err
}

// Abort ends the stream without its effect; a file in place keeps what was written.
func (w *Writer) Abort() {
	w.cancel()
	w.finish()
}

// Written is what the server says to have written, after Close.
func (w *Writer) Written() int64 { return w.written }
