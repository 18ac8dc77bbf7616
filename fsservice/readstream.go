package fsservice

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	defaultChunk = 256 << 10
	maxChunk     = 1 << 20
	// probeChunk is read where the file should have ended.
	probeChunk = 4 << 10
	// leastChunk is what a stream reads at a time when there is no memory for more. A stream never waits for memory: a client may
	// leave some of its streams unread for as long as it likes, and read others.
	leastChunk = 16 << 10
)

// streams has the RPCs that stream content, and the same for callers that send and receive it by other means (Content).
type streams struct {
	*opener
	buffers mem.BufferPool
}

// source is an open file that a stream reads or writes. The gate is open only while a chunk is read or written, so that a slow client
// does not keep the context from being deleted.
type source struct {
	s          *streams
	context    contexts.ID
	generation uint64
	// path is the file's, as it was opened.
	path  string
	file  rootfs.File
	close func()
	// stat is the file as it was when it was opened by its path; nil for a handle.
	stat *rootfs.Stat
}

// do runs f behind the gate.
func (o *source) do(ctx context.Context, w contexts.Use, f func(*contexts.Access) error) error {
	a, err := o.s.reacquire(ctx, o.context, o.generation, w)
	if err != nil {
		return err
	}
	defer a.Release()
	if w == writes {
		a.Touch(o.path, false)
	}
	return f(a)
}

// openSource opens a path, or holds a handle.
//
// If a link is on the way of the path, shows decides by the path that it leads to whether it may be opened; nil allows all.
func (s *streams) openSource(ctx context.Context, req readStreamRequest, shows Shows) (*source, error) {
	if req.Fd != nil {
		h, release, err := s.hold(ctx, reads, req)
		if err != nil {
			return nil, err
		}
		return &source{s, h.Context, h.Generation, h.Path, h.File, release, nil}, nil
	}
	path, err := pathOf(req.GetPath(), req.GetRawPath())
	if err != nil {
		return nil, err
	}
	return run(ctx, s.opener, req.GetContextId(), reads, &call{path: path}, func(c *call) (*source, error) {
		f, st, err := openShown(c.root, c.path, shows)
		if err != nil {
			return nil, err
		}
		return &source{s, c.id.Context, c.generation, c.path, f, func() { _ = f.Close() }, &st}, nil
	})
}

// openShown opens a file for reading. shows is that of openSource. A panel that moves a link meanwhile gains nothing: it may as well copy the file.
func openShown(root rootfs.Root, path string, shows Shows) (rootfs.File, rootfs.Stat, error) {
	if shows != nil {
		f, st, err := root.OpenNoFollow(path, rootfs.O_RDONLY)
		if fserr.CodeOf(err) != fserr.ELOOP {
			return f, st, err
		}
		real, err := root.Realpath(path)
		if err != nil {
			return nil, rootfs.Stat{}, err
		}
		if !shows(real, root.Realpath) {
			return nil, rootfs.Stat{}, fserr.ENOENT
		}
	}
	return root.OpenStat(path, rootfs.O_RDONLY)
}

type readStreamRequest struct{ *ctxfsv1.ReadStreamRequest }

// ReadStream implements FsService. Send blocks while the client is slow, so a stream holds one chunk at a time.
func (s *streams) ReadStream(req *ctxfsv1.ReadStreamRequest, stream grpc.ServerStreamingServer[ctxfsv1.ReadStreamResponse]) error {
	path := req.GetPath() + string(req.GetRawPath())
	r, err := newChunks(req)
	if err != nil {
		return fail(err, "read", path, "")
	}
	src, err := s.openSource(stream.Context(), readStreamRequest{req}, nil)
	if err != nil {
		return fail(err, openOrRead(req), path, "")
	}
	defer src.close()
	return fail(r.run(src, stream), "read", path, "")
}

func openOrRead(req *ctxfsv1.ReadStreamRequest) string {
	if req.Fd != nil {
		return "read"
	}
	return "open"
}

// chunks reads a range.
type chunks struct {
	off, end int64 // end is exclusive
	chunk    int64
	own      bool // from the handle's own position, which moves
	size     int64
}

func newChunks(req *ctxfsv1.ReadStreamRequest) (*chunks, error) {
	r := &chunks{off: req.GetStart(), end: 1 << 62, chunk: int64(req.GetChunkSize()), own: req.Fd != nil && req.Start == nil}
	if r.chunk == 0 {
		r.chunk = defaultChunk
	}
	if r.chunk < 0 || r.chunk > maxChunk {
		return nil, fserr.Invalid("a chunk_size of %d is none of 1 to %d", r.chunk, maxChunk)
	}
	if req.End != nil {
		if req.GetEnd() < req.GetStart() {
			return nil, fserr.Invalid("end %d is before start %d; it is inclusive", req.GetEnd(), req.GetStart())
		}
		r.end = min(r.end, req.GetEnd()) + 1
	}
	return r, wantLength(r.off)
}

func (r *chunks) run(src *source, stream grpc.ServerStreamingServer[ctxfsv1.ReadStreamResponse]) error {
	st, err := r.begin(stream.Context(), src)
	if err != nil {
		return err
	}
	r.size = st.Size
	start := &ctxfsv1.ReadStreamResponse{Event: &ctxfsv1.ReadStreamResponse_Start{Start: &ctxfsv1.ReadStreamStart{
		Stat: wireStat(st), Etag: etagOf(src.generation, st),
	}}}
	if err := stream.Send(start); err != nil {
		return err
	}
	// All chunks have the same message, which says only that content follows.
	data := &ctxfsv1.ReadStreamResponse{Event: &ctxfsv1.ReadStreamResponse_Data{}}
	for r.off < r.end {
		held := budget.Of(stream.Context()).More()
		chunk, err := r.next(stream.Context(), src, held)
		if err != nil || chunk == nil {
			return err
		}
		if err := send(stream, &codec.Outgoing{Message: data, Content: mem.BufferSlice{chunk}}); err != nil {
			return err
		}
		if stream.Context().Err() != nil {
			held.ReleaseWhenLost() // as in codec.SendHeld
		}
	}
	return nil
}

func send(stream grpc.ServerStream, m *codec.Outgoing) error {
	defer m.Free()
	return stream.SendMsg(m)
}

// begin returns the file's attributes. It fails for a directory.
func (r *chunks) begin(ctx context.Context, src *source) (st rootfs.Stat, err error) {
	if src.stat != nil {
		return *src.stat, isDirectory(*src.stat)
	}
	err = src.do(ctx, reads, func(*contexts.Access) error {
		if st, err = src.file.Stat(); err != nil {
			return err
		}
		if r.own {
			if r.off, err = src.file.Seek(0, io.SeekCurrent); err != nil {
				return err
			}
		}
		return isDirectory(st)
	})
	return st, err
}

// next reads one chunk, which held counts until the chunk is freed. It returns nil at the end.
func (r *chunks) next(ctx context.Context, src *source, held *budget.Hold) (chunk mem.Buffer, err error) {
	n := min(r.chunk, r.end-r.off)
	if left := r.size - r.off; left < n {
		n = min(n, max(left, probeChunk))
	}
	if !held.Try(n) {
		n = leastChunk
	}
	buf, got := src.s.buffers.Get(int(n)), 0
	err = src.do(ctx, reads, func(*contexts.Access) (err error) {
		got, err = r.read(src.file, *buf)
		return err
	})
	if err != nil || got == 0 {
		src.s.buffers.Put(buf)
		held.Release()
		return nil, err
	}
	*buf = (*buf)[:got] // the rest may be another file's
	return mem.NewBuffer(buf, held.From(src.s.buffers)), nil
}

// read fills b, or reads to the end of the file.
func (r *chunks) read(f rootfs.File, b []byte) (int, error) {
	got, err := f.ReadAt(b, r.off)
	r.off += int64(got)
	if got > 0 && r.own {
		_, err = f.Seek(r.off, io.SeekStart)
		return got, err
	}
	if got > 0 || errors.Is(err, io.EOF) {
		return got, nil
	}
	return 0, err
}

// Content is a range of a file, for a caller that sends it by other means than gRPC. Close it.
type Content struct {
	// Stat is the file as it was when it was opened.
	Stat *ctxfsv1.Stat
	// Length of the range, in bytes; it does not grow with the file.
	Length int64
	src    *source
	path   string
	off    int64
	// st is Stat.
	st rootfs.Stat
}

// Shows decides by the path that links lead to whether a file may be opened. realpath resolves other paths of the context.
type Shows func(real string, realpath func(path string) (string, error)) bool

// OpenContent opens the range of a path, or of a handle from a given start, that ReadStream would send. Errors are ReadStream's. If a link is on
// the way of the path, and shows returns false for the path that it leads to, OpenContent fails with ENOENT; a nil shows allows all.
func (s *streams) OpenContent(ctx context.Context, req *ctxfsv1.ReadStreamRequest, shows Shows) (*Content, error) {
	path := req.GetPath() + string(req.GetRawPath())
	if req.Fd != nil && req.Start == nil {
		return nil, fail(fserr.Invalid("content of a handle is read from a start"), "read", path, "")
	}
	r, err := newChunks(req)
	if err != nil {
		return nil, fail(err, "read", path, "")
	}
	src, err := s.openSource(ctx, readStreamRequest{req}, shows)
	if err != nil {
		return nil, fail(err, openOrRead(req), path, "")
	}
	st, err := r.begin(ctx, src)
	if err != nil {
		src.close()
		return nil, fail(err, "read", path, "")
	}
	length := max(0, min(r.end, st.Size)-r.off)
	if req.Fd != nil && length > 0 {
		if err := src.do(ctx, reads, func(*contexts.Access) error { return readable(src.file, r.off) }); err != nil {
			src.close()
			return nil, fail(err, "read", path, "")
		}
	}
	return &Content{Stat: wireStat(st), Length: length, src: src, path: path, off: r.off, st: st}, nil
}

// readable fails for a handle that is not open for reading.
func readable(f rootfs.File, off int64) error {
	_, err := f.ReadAt(make([]byte, 1), off)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Range sets what Part returns next: n bytes from off on. The range must lie within Stat.Size.
func (c *Content) Range(off, n int64) { c.off, c.Length = off, n }

// Close closes the file, or releases the handle.
func (c *Content) Close() { c.src.close() }

// Part returns the next part, of up to n bytes, if the context still exists; nil when all was returned.
func (c *Content) Part(ctx context.Context, n int64) (*Part, error) {
	if n = min(n, c.Length); n == 0 {
		return nil, nil
	}
	if err := c.src.do(ctx, reads, func(*contexts.Access) error { return nil }); err != nil {
		return nil, fail(err, "read", c.path, "")
	}
	p := &Part{file: c.src.file, off: c.off, Left: n}
	p.sender, _ = c.src.file.(rootfs.Sender)
	c.off += n
	c.Length -= n
	return p, nil
}

// Part is a piece of a file's content. It is read, or sent by the kernel: then bytes that the other end has not received yet change
// with the file, as sendfile(2) describes.
type Part struct {
	// Left is how many bytes have not been read or sent.
	Left   int64
	file   rootfs.File
	sender rootfs.Sender
	off    int64
}

// Read implements io.Reader. A file that has become shorter ends early.
func (p *Part) Read(b []byte) (int, error) {
	if p.Left == 0 {
		return 0, io.EOF
	}
	n, err := p.file.ReadAt(b[:min(int64(len(b)), p.Left)], p.off)
	p.moved(n)
	if n > 0 {
		err = nil // the next Read returns it
	}
	return n, err
}

// SendTo sends what is left to a socket, until the socket takes no more. Errors: EAGAIN, when it takes no more;
// io.ErrUnexpectedEOF, when the file has become shorter; the system's.
func (p *Part) SendTo(socket uintptr) error {
	for p.Left > 0 {
		n, err := p.sender.SendTo(socket, p.off, int(p.Left))
		p.moved(n)
		switch {
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// Sends reports whether SendTo may be called, which not every file allows.
func (p *Part) Sends() bool { return p.sender != nil }

func (p *Part) moved(n int) {
	p.off += int64(n)
	p.Left -= int64(n)
}
