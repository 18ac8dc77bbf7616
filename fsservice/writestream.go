package fsservice

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/codec"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// WriteStream implements FsService. A file that is opened by path with "w" or "wx" appears at the client's half-close. If the stream
// ends otherwise, nothing is left of it.
func (s *streams) WriteStream(stream grpc.ClientStreamingServer[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse]) error {
	open, err := firstMessage(stream)
	if err != nil {
		return fail(err, "open", "", "")
	}
	path := open.GetPath() + string(open.GetRawPath())
	w, err := s.openSink(stream.Context(), open)
	if err != nil {
		return fail(err, "open", path, "")
	}
	n, err := w.all(stream.Context(), open.GetFlush(), func() (int64, error) { return w.receive(stream) })
	if err != nil {
		return fail(err, "write", path, "")
	}
	return stream.SendAndClose(&ctxfsv1.WriteStreamResponse{BytesWritten: n, Etag: w.etag})
}

func firstMessage(stream grpc.ClientStreamingServer[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse]) (*ctxfsv1.WriteStreamOpen, error) {
	msg, err := stream.Recv()
	if errors.Is(err, io.EOF) || err == nil && msg.GetOpen() == nil {
		return nil, fserr.Invalid("the first message of a WriteStream must be open")
	}
	return msg.GetOpen(), err
}

// sink is the file that a WriteStream writes.
type sink struct {
	source
	// atomic is the file under construction, nil when writing in place.
	atomic rootfs.AtomicFile
	write  func(pieces [][]byte) (int, error)
	// want is the condition under which the atomic file appears.
	want condition
	// stat has the attributes of a file that is written in place, when it was opened.
	stat rootfs.Stat
	// etag is the file's, once it was written by path.
	etag string
	// position is locked for a whole chunk; nil when the position is not shared.
	position sync.Locker
}

type writesKey struct{}

// WithWrites returns a context in which write streams call begin before each write, and end after it. They call begin before a commit,
// and no end: from then on the commit's result is the stream's. begin fails once the stream was answered otherwise.
func WithWrites(ctx context.Context, begin func() (end func(), err error)) context.Context {
	return context.WithValue(ctx, writesKey{}, begin)
}

// BeginWrite calls begin of WithWrites, if ctx has one.
func BeginWrite(ctx context.Context) (end func(), err error) {
	if begin, ok := ctx.Value(writesKey{}).(func() (func(), error)); ok {
		return begin()
	}
	return func() {}, nil
}

// step runs f, which writes, behind the gate.
func (w *sink) step(ctx context.Context, f func(*contexts.Access) error) error {
	return w.do(ctx, writes, func(a *contexts.Access) error {
		end, err := BeginWrite(ctx)
		if err != nil {
			return err
		}
		defer end()
		lock, err := w.s.locks.lock(ctx, w.context, w.stat, reads)
		if err != nil {
			return err
		}
		defer lock.unlock()
		return f(a)
	})
}

// all runs take, which writes the content, and then finishes and closes the file.
func (w *sink) all(ctx context.Context, flush bool, take func() (int64, error)) (int64, error) {
	defer w.close()
	n, err := take()
	if err == nil {
		err = w.finish(ctx, flush)
	}
	if err != nil {
		w.abort()
		return n, w.counted(err, n)
	}
	return n, nil
}

// finish makes the file appear, or flushes what was written in place. Content in place has taken effect, so finish does not fail
// when ctx has ended: a client that retries would append again.
func (w *sink) finish(ctx context.Context, flush bool) error {
	tried := false
	try := func(a *contexts.Access) error {
		tried = true
		if _, err := BeginWrite(ctx); err != nil {
			return err
		}
		if w.atomic != nil {
			return w.appear(ctx, a, flush)
		}
		if st, err := w.file.Stat(); err == nil && w.position == nil {
			w.etag = etagOf(w.generation, st)
		}
		if flush {
			return w.file.Sync(false)
		}
		return nil
	}
	err := w.do(ctx, writes, try)
	if !tried && w.atomic == nil && ctx.Err() != nil {
		return try(nil)
	}
	return err
}

func (w *sink) appear(ctx context.Context, a *contexts.Access, flush bool) (err error) {
	c := &call{path: w.path}
	w.s.behind(ctx, c, panels.Identity{Context: w.context}, a)
	w.etag, err = c.appear(w.atomic, w.want, flush)
	return err
}

func (w *sink) abort() {
	if w.atomic != nil {
		_ = w.atomic.Abort()
	}
}

// counted adds to err how much reached the file: nothing when the file was removed.
func (w *sink) counted(err error, n int64) error {
	if w.atomic != nil {
		n = 0
	}
	return written(err, n)
}

// openSink opens what the first message names.
func (s *streams) openSink(ctx context.Context, open *ctxfsv1.WriteStreamOpen) (*sink, error) {
	if err := wantLength(open.GetStart()); err != nil {
		return nil, err
	}
	if open.Fd != nil {
		if err := pathConditions(open); err != nil {
			return nil, err
		}
		return s.handleSink(ctx, open)
	}
	path, err := pathOf(open.GetPath(), open.GetRawPath())
	if err != nil {
		return nil, err
	}
	return run(ctx, s.opener, open.GetContextId(), writes, &call{path: path}, func(c *call) (*sink, error) {
		flags, flagErr := flagsOf(open.GetFlagForm(), "w")
		mode, modeErr := newMode(open.GetModeForm(), 0o666)
		want, wantErr := conditionOf(open.GetIfMatch(), open.GetIfNoneMatch())
		if err := errors.Join(flagErr, modeErr, wantErr, flags.allows(want)); err != nil {
			return nil, err
		}
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		w := &sink{source: source{s: s, context: c.id.Context, generation: c.generation, path: c.path}, want: want}
		if open.Start == nil && flags.replaces() {
			return w, w.openAtomic(c, mode, flags.Flags&rootfs.O_EXCL != 0)
		}
		return w, w.openInPlace(c, open, flags, mode)
	})
}

func (w *sink) openAtomic(c *call, mode uint32, exclusive bool) (err error) {
	if w.atomic, err = c.createAtomic(mode, exclusive, w.want); err != nil {
		return err
	}
	w.file, w.write = w.atomic, w.next
	w.close = func() { _ = w.atomic.Close() }
	return nil
}

func (w *sink) openInPlace(c *call, open *ctxfsv1.WriteStreamOpen, flags openFlags, mode uint32) (err error) {
	if open.FlagForm == nil { // with a start alone the rest of the file stays
		flags.Flags &^= rootfs.O_TRUNC
	}
	if w.file, w.stat, err = c.openIf(flags, mode, w.want); err != nil {
		return err
	}
	w.write, w.close = w.next, func() { _ = w.file.Close() }
	if open.Start != nil {
		w.write = w.from(open.GetStart())
	}
	return nil
}

// next writes at the file's position.
func (w *sink) next(pieces [][]byte) (int, error) { return rootfs.Writev(w.file, pieces) }

// from writes at off, and each time after what was written before.
func (w *sink) from(off int64) func([][]byte) (int, error) {
	return func(pieces [][]byte) (int, error) {
		n, err := rootfs.WritevAt(w.file, pieces, off)
		off += int64(n)
		return n, err
	}
}

func (s *streams) handleSink(ctx context.Context, open *ctxfsv1.WriteStreamOpen) (*sink, error) {
	h, release, err := s.hold(ctx, writes, open)
	if err != nil {
		return nil, err
	}
	w := &sink{source: source{s, h.Context, h.Generation, h.Path, h.File, release, nil}, stat: h.Stat}
	if open.Start != nil {
		w.write = w.from(open.GetStart())
		return w, nil
	}
	w.write, w.position = w.next, &h.Position
	return w, nil
}

// receive writes the chunks until the client half-closes.
func (w *sink) receive(stream grpc.ClientStreamingServer[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse]) (int64, error) {
	var total int64
	msg := &ctxfsv1.WriteStreamRequest{}
	in := &codec.Incoming{Message: msg}
	defer in.Free()
	for {
		err := stream.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, ended(stream.Context(), err)
		}
		if msg.GetOpen() != nil {
			return total, fserr.Invalid("a WriteStream has one open, its first message")
		}
		err = w.step(stream.Context(), func(a *contexts.Access) error {
			pieces := in.Pieces(msg.GetData())
			if err := a.Charge(int64(pieces.Len()), 0); err != nil {
				return err
			}
			n, err := w.put(stream.Context(), pieces)
			total += n
			return err
		})
		if err != nil {
			return total, err
		}
	}
}

// put writes a chunk from the transport's buffers.
func (w *sink) put(ctx context.Context, pieces mem.BufferSlice) (total int64, err error) {
	if w.position != nil {
		w.position.Lock()
		defer w.position.Unlock()
	}
	for step := range steps(pieces) {
		if err := fserrpb.FromContext(ctx); err != nil {
			return total, err
		}
		n, err := w.write(step)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// steps yields the pieces in runs of at most writeStep bytes.
func steps(pieces mem.BufferSlice) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		var run [][]byte
		size := 0
		for _, p := range pieces {
			for rest := p.ReadOnlyData(); len(rest) > 0; {
				n := min(len(rest), writeStep-size)
				run, rest, size = append(run, rest[:n]), rest[n:], size+n
				if size < writeStep {
					continue
				}
				if !yield(run) {
					return
				}
				run, size = run[:0], 0
			}
		}
		if size > 0 {
			yield(run)
		}
	}
}

// ended returns the errno of a broken stream, unless the server refused a message.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*fserr.Error](err); ok {
		return err
	}
	return &fserr.Error{Code: fserr.ECANCELED, Err: err}
}

// contentPiece is how much of a body is written at a time, in bytes.
const contentPiece = 256 << 10

// WriteContent does what WriteStream does with a path. It reads the content from body until io.EOF; any other error says that the
// content is not whole. It returns what WriteStream would answer, also with an error.
func (s *streams) WriteContent(ctx context.Context, open *ctxfsv1.WriteStreamOpen, body io.Reader) (*ctxfsv1.WriteStreamResponse, error) {
	path := open.GetPath() + string(open.GetRawPath())
	if open.Fd != nil {
		return nil, fail(fserr.Invalid("content is written by path"), "open", path, "")
	}
	w, err := s.openSink(ctx, open)
	if err != nil {
		return nil, fail(err, "open", path, "")
	}
	n, err := w.all(ctx, open.GetFlush(), func() (int64, error) { return w.take(ctx, body) })
	return &ctxfsv1.WriteStreamResponse{BytesWritten: n, Etag: w.etag}, fail(err, "write", path, "")
}

// take writes all of a body.
func (w *sink) take(ctx context.Context, body io.Reader) (total int64, err error) {
	var first [1]byte
	begun, read := fill(first[:], body) // a client that sends nothing holds no buffer
	buf := w.s.buffers.Get(contentPiece)
	defer w.s.buffers.Put(buf)
	for {
		n := copy(*buf, first[:begun])
		if begun = 0; read == nil {
			var more int
			more, read = fill((*buf)[n:], body)
			n += more
		}
		err := w.step(ctx, func(a *contexts.Access) error {
			if n == 0 {
				return nil
			}
			if err := a.Charge(int64(n), 0); err != nil {
				return err
			}
			done, err := w.write([][]byte{(*buf)[:n]})
			total += int64(done)
			return err
		})
		switch {
		case err != nil:
			return total, err
		case read == io.EOF: //nolint:errorlint // an error that wraps it is another one
			return total, nil
		case read != nil:
			return total, ended(ctx, read)
		}
	}
}

// fill reads until b is full. It returns body's error; io.EOF after a last piece that is short.
func fill(b []byte, body io.Reader) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = body.Read(b[n:])
		n += m
	}
	return n, err
}
