package client

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
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

// Reader is a file's content as a stream, for one goroutine at a time. Close it.
type Reader struct {
	fsys   *FS
	name   string
	source readSource
	cancel context.CancelFunc
	stat   *ctxfsv1.Stat
	err    error
}

// readSource is where a Reader's content comes from. Its errors are io.EOF and gRPC statuses.
type readSource interface {
	io.Reader
	// WriteTo may return an error of w.
	io.WriterTo
	close()
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
	ctx, cancel := f.streamContext()
	source, stat, err := f.openSource(ctx, req)
	if err != nil {
		cancel()
		return nil, f.pathError("open", name, err)
	}
	return &Reader{fsys: f, name: name, source: source, cancel: cancel, stat: stat}, nil
}

// streamContext is a stream's, which ends with the client.
func (f *FS) streamContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(f.ctx)
	stop := context.AfterFunc(f.rpc.bulk.base, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// openSource opens content by HTTP, or else by gRPC.
func (f *FS) openSource(ctx context.Context, req *ctxfsv1.ReadStreamRequest) (readSource, *ctxfsv1.Stat, error) {
	resp, err := f.rpc.bulk.content(ctx, f.rpc.id, req)
	if err == nil {
		return newHTTPContent(ctx, resp)
	}
	if !errors.Is(err, errNoContent) {
		return nil, nil, err
	}
	req.ChunkSize = streamChunk
	s, err := f.rpc.ReadStream(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	return newChunkSource(s)
}

// Stat is the file as it was when it was opened.
func (r *Reader) Stat() fs.FileInfo { return newInfo(r.name, r.stat, "") }

// Read implements io.Reader.
func (r *Reader) Read(b []byte) (int, error) {
	if len(b) == 0 || r.err != nil {
		return 0, r.err
	}
	n, err := r.source.Read(b)
	return n, r.ended(err)
}

// ended keeps how the content ended.
func (r *Reader) ended(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.reason(err)
		if _, told := fserrpb.FromStatus(err); !told {
			err = &brokenError{why: err, sent: true} // and changed nothing
		}
		err = r.fsys.pathError("read", r.name, err)
	}
	r.err = err
	return err
}

// reason returns why content ended early. An HTTP body cannot carry the server's error, so reason asks for it with a
// Stat call. If that returns none, reason returns err.
func (r *Reader) reason(err error) error {
	if _, ok := r.source.(*httpContent); !ok || status.Code(err) != codes.Unavailable {
		return err
	}
	ctx, cancel := context.WithTimeout(r.fsys.ctx, endsWithin)
	defer cancel()
	p, raw := r.fsys.wire(r.name)
	_, why := r.fsys.rpc.FsServiceClient.Stat(ctx, &ctxfsv1.StatRequest{ContextId: r.fsys.id, Path: p, RawPath: raw})
	if _, told := fserrpb.FromStatus(why); told {
		return why
	}
	return err
}

// WriteTo implements io.WriterTo with fewer copies than Read makes.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	if r.err != nil {
		if errors.Is(r.err, io.EOF) {
			return 0, nil
		}
		return 0, r.err
	}
	n, err := r.source.WriteTo(w)
	if _, isStatus := status.FromError(err); isStatus && err != nil {
		return n, r.ended(err)
	}
	if err == nil {
		r.err = io.EOF
	}
	return n, err // w's
}

// Close ends the stream, wherever it is.
func (r *Reader) Close() error {
	r.cancel()
	if r.source != nil {
		r.source.close()
		r.source, r.err = nil, fs.ErrClosed
	}
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

// Writer writes a file as a stream, for one goroutine at a time. With flag "w" or "wx" the
// file appears whole when Close succeeds, and not at all otherwise.
type Writer struct {
	fsys    *FS
	name    string
	sink    writeSink
	cancel  context.CancelFunc
	written int64
	err     error
	done    bool
}

// writeSink is where a Writer's content goes. Errors are gRPC statuses and *brokenErrors.
type writeSink interface {
	// write does not keep b.
	write(b []byte) error
	// readFrom writes what r gives; an error of r's is in the second error.
	readFrom(r io.Reader) (n int64, err, of error)
	// finish ends the content and waits for the answer: also after a write that failed, whose reason it has.
	finish() (written int64, err error)
}

var (
	_ io.WriteCloser = (*Writer)(nil)
	_ io.ReaderFrom  = (*Writer)(nil)
)

// WriteStream writes a file of any size. Errors, of opening too, come from Write or Close.
func (f *FS) WriteStream(name string, o WriteOptions) (*Writer, error) {
	p, raw := f.wire(name)
	open := &ctxfsv1.WriteStreamOpen{
		ContextId: f.id, Path: p, RawPath: raw, Start: o.Offset, Flush: o.Flush,
		IfMatch: f.conditions.IfMatch, IfNoneMatch: f.conditions.none(),
	}
	if o.Perm != 0 {
		open.ModeForm = &ctxfsv1.WriteStreamOpen_Mode{Mode: unixMode(o.Perm)}
	}
	if o.Flag != "" {
		open.FlagForm = &ctxfsv1.WriteStreamOpen_Flag{Flag: o.Flag}
	}
	return f.writeStream(name, open)
}

func (f *FS) writeStream(name string, open *ctxfsv1.WriteStreamOpen) (*Writer, error) {
	ctx, cancel := f.streamContext()
	sink, err := f.openSink(ctx, open)
	if err != nil {
		cancel()
		return nil, f.pathError("open", name, err)
	}
	return &Writer{fsys: f, name: name, sink: sink, cancel: cancel}, nil
}

// openSink opens a way for content by HTTP, or else by gRPC.
func (f *FS) openSink(ctx context.Context, open *ctxfsv1.WriteStreamOpen) (writeSink, error) {
	put, err := f.rpc.bulk.put(ctx, f.rpc.id, open)
	if !errors.Is(err, errNoContent) {
		return put, err
	}
	s, err := f.rpc.WriteStream(ctx)
	if err != nil {
		return nil, err
	}
	return newChunkSink(s, f.buffers, open), nil
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if w.done {
			return n, w.closedError()
		}
		part := b[n:min(len(b), n+streamChunk)]
		if err := w.sink.write(part); err != nil {
			return n, w.fail(err)
		}
		n += len(part)
	}
	return n, nil
}

// ReadFrom implements io.ReaderFrom.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	if w.done {
		return 0, w.closedError()
	}
	n, err, of := w.sink.readFrom(r)
	if err != nil {
		return n, w.fail(err)
	}
	return n, of
}

// fail ends a stream that takes no more, and returns its reason.
func (w *Writer) fail(err error) error {
	w.finish()
	if w.err == nil {
		w.err = w.fsys.pathError("write", w.name, err)
	}
	return w.err
}

func (w *Writer) finish() {
	if w.done {
		return
	}
	w.done = true
	n, err := w.sink.finish()
	w.cancel()
	w.written = n
	if err != nil {
		w.written = int64(written(err))
		w.err = w.fsys.pathError("open", w.name, err)
	}
}

func (w *Writer) closedError() error {
	if w.err != nil {
		return w.err
	}
	return &fs.PathError{Op: "write", Path: w.name, Err: fs.ErrClosed}
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
