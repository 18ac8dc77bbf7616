package fsservice

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
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
	defer w.close()
	n, err := w.receive(stream)
	if err == nil {
		err = w.do(stream.Context(), func() error { return w.finish(open.GetFlush()) })
	}
	if err != nil {
		w.abort()
		return fail(w.told(err, n), "write", path, "")
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
	write  func([]byte) (int, error)
}

// finish makes the file appear, or flushes what was written in place.
func (w *sink) finish(flush bool) error {
	switch {
	case w.atomic != nil:
		return w.atomic.Commit(flush)
	case flush:
		return w.file.Sync(false)
	}
	return nil
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
	w.file, w.write = w.atomic, w.atomic.Write
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
	w.write, w.close = w.file.Write, func() { _ = w.file.Close() }
	if open.Start != nil {
		w.write = w.from(open.GetStart())
	}
	return nil
}

// from writes at off and what follows.
func (w *sink) from(off int64) func([]byte) (int, error) {
	return func(b []byte) (int, error) {
		n, err := w.file.WriteAt(b, off)
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
	w.write = func(b []byte) (int, error) {
		h.Position.Lock()
		defer h.Position.Unlock()
		return h.File.Write(b)
	}
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
		mode = 0o666 &^ Umask
	}
	return flags, mode, errors.Join(err, modeErr)
}

// receive writes the chunks until the client half-closes.
func (w *sink) receive(stream grpc.ClientStreamingServer[ctxfsv1.WriteStreamRequest, ctxfsv1.WriteStreamResponse]) (int64, error) {
	var total int64
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, ended(stream.Context(), err)
		}
		if msg.GetOpen() != nil {
			return total, invalid("a WriteStream has one open, its first message")
		}
		err = w.do(stream.Context(), func() error {
			n, err := writeAll(stream.Context(), w.write, msg.GetData())
			total += n
			return err
		})
		if err != nil {
			return total, err
		}
	}
}

// ended turns a broken stream into an errno.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &fserr.Error{Code: fserr.ECANCELED, Err: err}
}
