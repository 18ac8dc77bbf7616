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
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// WriteStream implements FsService. What was begun by path with "w" or "wx" appears at
// the client's half-close; however else the stream ends, nothing is left of it.
func (s *Service) WriteStream(stream grpc.ClientStreamingServer[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse]) error {
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
	return stream.SendAndClose(&ctxfsv1.WriteStreamResponse{BytesWritten: n})
}

func firstMessage(stream grpc.ClientStreamingServer[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse]) (*ctxfsv1.WriteStreamOpen, error) {
	msg, err := stream.Recv()
	if errors.Is(err, io.EOF) || err == nil && msg.GetOpen() == nil {
		return nil, invalid("the first message of a WriteStream must be open")
	}
	return msg.GetOpen(), err
}

// sink is where a WriteStream goes.
type sink struct {
	source
	// atomic is the file under construction, nil when writing in place.
	atomic rootfs.AtomicFile
	write  func(pieces [][]byte) (int, error)
	// position is held for the whole of a chunk; nil when no other has it.
	position sync.Locker
}

type writesKey struct{}

// WithWrites returns a context in which write streams call begin before each write, and end after it. After a commit they
// call no end: from then on the commit's result is the stream's. begin fails once the stream was answered otherwise.
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
		return f(a)
	})
}

// all writes what take takes, ends the file and closes it.
func (w *sink) all(ctx context.Context, flush bool, take func() (int64, error)) (int64, error) {
	defer w.close()
	n, err := take()
	if err == nil {
		err = w.finish(ctx, flush)
	}
	if err != nil {
		w.abort()
		return n, w.told(err, n)
	}
	return n, nil
}

// finish makes the file appear, or flushes what was written in place. What is in place has taken effect: finish does not fail
// because ctx has ended, since a client that retries would append again.
func (w *sink) finish(ctx context.Context, flush bool) error {
	tried := false
	try := func(*contexts.Access) error {
		tried = true
		if _, err := BeginWrite(ctx); err != nil {
			return err
		}
		switch {
		case w.atomic != nil:
			return w.atomic.Commit(flush)
		case flush:
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

func (w *sink) abort() {
	if w.atomic != nil {
		_ = w.atomic.Abort()
	}
}

// told puts into err what reached the file: nothing when it was thrown away.
func (w *sink) told(err error, n int64) error {
	if w.atomic != nil {
		n = 0
	}
	return written(err, n)
}

// openSink opens what the first message names.
func (s *Service) openSink(ctx context.Context, open *ctxfsv1.WriteStreamOpen) (*sink, error) {
	if err := wantLength(open.GetStart()); err != nil {
		return nil, err
	}
	if open.Fd != nil {
		return s.handleSink(ctx, open)
	}
	path, err := pathOf(open.GetPath(), open.GetRawPath())
	if err != nil {
		return nil, err
	}
	return run(ctx, s, open.GetContextId(), writes, &call{path: path}, func(c *call) (*sink, error) {
		flags, mode, err := sinkForm(open)
		if err != nil {
			return nil, err
		}
		if err := c.access.Charge(0, 1); err != nil {
			return nil, err
		}
		w := &sink{source: source{s: s, context: c.id.Context, generation: c.generation}}
		if open.Start == nil && flags.replaces() {
			return w, w.openAtomic(c, mode, flags.Flags&rootfs.O_EXCL != 0)
		}
		return w, w.openInPlace(c, open, flags.Flags, mode)
	})
}

func (w *sink) openAtomic(c *call, mode uint32, exclusive bool) (err error) {
	if w.atomic, err = c.root.CreateAtomic(c.path, mode, exclusive); err != nil {
		return err
	}
	w.file, w.write = w.atomic, w.next
	w.close = func() { _ = w.atomic.Close() }
	return nil
}

func (w *sink) openInPlace(c *call, open *ctxfsv1.WriteStreamOpen, flags rootfs.Flags, mode uint32) (err error) {
	if open.FlagForm == nil { // a start alone: the rest of the file stays
		flags &^= rootfs.O_TRUNC
	}
	if w.file, err = c.root.OpenFile(c.path, flags, mode); err != nil {
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

// from writes at off and what follows.
func (w *sink) from(off int64) func([][]byte) (int, error) {
	return func(pieces [][]byte) (int, error) {
		n, err := rootfs.WritevAt(w.file, pieces, off)
		off += int64(n)
		return n, err
	}
}

func (s *Service) handleSink(ctx context.Context, open *ctxfsv1.WriteStreamOpen) (*sink, error) {
	h, release, _, err := s.hold(ctx, writes, open)
	if err != nil {
		return nil, err
	}
	w := &sink{source: source{s, h.Context, h.Generation, h.File, release}}
	if open.Start != nil {
		w.write = w.from(open.GetStart())
		return w, nil
	}
	w.write, w.position = w.next, &h.Position
	return w, nil
}

func sinkForm(open *ctxfsv1.WriteStreamOpen) (flags openFlags, mode uint32, err error) {
	var modeErr error
	switch f := open.GetFlagForm().(type) {
	case *ctxfsv1.WriteStreamOpen_Flag:
		flags, err = flagsOf(&f.Flag, nil, "w")
	case *ctxfsv1.WriteStreamOpen_FlagNumber:
		flags, err = flagsOf(nil, &f.FlagNumber, "w")
	default:
		flags, err = flagsOf(nil, nil, "w")
	}
	switch f := open.GetModeForm().(type) {
	case *ctxfsv1.WriteStreamOpen_Mode:
		mode, modeErr = newMode(&f.Mode, nil, 0)
	case *ctxfsv1.WriteStreamOpen_ModeOctal:
		mode, modeErr = newMode(nil, &f.ModeOctal, 0)
	default:
		mode = 0o666 &^ umask
	}
	return flags, mode, errors.Join(err, modeErr)
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
			return total, invalid("a WriteStream has one open, its first message")
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

// put writes a chunk from where the transport left it.
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

// steps gives pieces in runs of at most writeStep bytes.
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

// ended turns a broken stream into an errno, unless it is the server that refused a message.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*fserr.Error](err); ok {
		return err
	}
	return &fserr.Error{Code: fserr.ECANCELED, Err: err}
}
