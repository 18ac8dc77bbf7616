package fsservice

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	defaultChunk = 256 << 10
	maxChunk     = 1 << 20
	// probeChunk is read where the file should have ended.
	probeChunk = 4 << 10
	// leastChunk is what a stream reads at a time when there is no memory for more. It never waits for memory: a client may
	// leave some of its streams unread for as long as it likes, and go on with others.
	leastChunk = 16 << 10
)

// source is an open file that a stream reads or writes. The gate is open only while a
// chunk is read or written, so that a slow client keeps nobody from deleting the context.
type source struct {
	s          *Service
	context    contexts.ID
	generation uint64
	file       rootfs.File
	close      func()
}

// do runs f behind the gate.
func (o *source) do(ctx context.Context, w access, f func(*contexts.Access) error) error {
	a, err := o.s.reacquire(ctx, o.context, o.generation, w)
	if err != nil {
		return err
	}
	defer a.Release()
	return f(a)
}

// openSource opens a path, or holds a handle.
func (s *Service) openSource(ctx context.Context, req readStreamRequest) (*source, error) {
	if req.Fd != nil {
		h, release, _, err := s.hold(ctx, reads, req)
		if err != nil {
			return nil, err
		}
		return &source{s, h.Context, h.Generation, h.File, release}, nil
	}
	path, err := pathOf(req.GetPath(), req.GetRawPath())
	if err != nil {
		return nil, err
	}
	return run(ctx, s, req.GetContextId(), reads, &call{path: path}, func(c *call) (*source, error) {
		f, err := c.root.OpenFile(c.path, rootfs.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		return &source{s, c.id.Context, c.generation, f, func() { _ = f.Close() }}, nil
	})
}

type readStreamRequest struct{ *ctxfsv1.ReadStreamRequest }

// ReadStream implements FsService. Send waits while the client is slow, so that one chunk is held at a time.
func (s *Service) ReadStream(req *ctxfsv1.ReadStreamRequest, stream grpc.ServerStreamingServer[ctxfsv1.ReadStreamResponse]) error {
	path := req.GetPath() + string(req.GetRawPath())
	r, err := newChunks(req)
	if err != nil {
		return fail(err, "read", path, "")
	}
	src, err := s.openSource(stream.Context(), readStreamRequest{req})
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
		return nil, invalid("a chunk_size of %d is none of 1 to %d", r.chunk, maxChunk)
	}
	if req.End != nil {
		if req.GetEnd() < req.GetStart() {
			return nil, invalid("end %d is before start %d; it is inclusive", req.GetEnd(), req.GetStart())
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
	start := &ctxfsv1.ReadStreamResponse{Event: &ctxfsv1.ReadStreamResponse_Start{Start: &ctxfsv1.ReadStreamStart{Stat: wireStat(st)}}}
	if err := stream.Send(start); err != nil {
		return err
	}
	// One message for all chunks: it says only that content follows.
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

func (r *chunks) begin(ctx context.Context, src *source) (st rootfs.Stat, err error) {
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

// next reads one chunk, which held counts until it is freed; nil at the end.
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

// read fills b, which only the end of the file keeps from being full.
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
