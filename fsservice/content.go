package fsservice

import (
	"context"
	"errors"
	"io"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Content is a range of a file, for who sends it by means of its own. Close it.
type Content struct {
	// Stat is the file as it was when it was opened.
	Stat *ctxfsv1.Stat
	// Length of the range, in bytes; it does not grow with the file.
	Length int64
	src    *source
	path   string
	off    int64
}

// OpenContent opens what ReadStream would send of a path, or of a handle from a given start
// on. Errors are ReadStream's.
func (s *Service) OpenContent(ctx context.Context, req *ctxfsv1.ReadStreamRequest) (*Content, error) {
	path := req.GetPath() + string(req.GetRawPath())
	if req.Fd != nil && req.Start == nil {
		return nil, fail(invalid("content of a handle is read from a start"), "read", path, "")
	}
	r, err := newChunks(req)
	if err != nil {
		return nil, fail(err, "read", path, "")
	}
	src, err := s.openSource(ctx, readStreamRequest{req})
	if err != nil {
		return nil, fail(err, openOrRead(req), path, "")
	}
	st, err := r.begin(ctx, src)
	if err != nil {
		src.close()
		return nil, fail(err, "read", path, "")
	}
	length := max(0, min(r.end, st.Size)-r.off)
	if length > 0 {
		if err := src.do(ctx, reads, func(*contexts.Access) error { return readable(src.file, r.off) }); err != nil {
			src.close()
			return nil, fail(err, "read", path, "")
		}
	}
	return &Content{Stat: wireStat(st), Length: length, src: src, path: path, off: r.off}, nil
}

// readable tells whether there is something to read, which a handle may not be open for.
func readable(f rootfs.File, off int64) error {
	_, err := f.ReadAt(make([]byte, 1), off)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Close lets go of the file.
func (c *Content) Close() { c.src.close() }

// Part returns the next part, of up to n bytes, once it is certain that the context is
// still there; nil when all was returned.
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

// Part is some of a file's content, which is read, or sends itself: then what the other end has
// not received yet changes with the file, as sendfile(2) has it.
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
		err = nil // it comes again
	}
	return n, err
}

// SendTo sends what is left to a socket, as far as that takes it now. Errors: EAGAIN, when
// it takes no more; io.ErrUnexpectedEOF of a file that has become shorter; the system's.
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

// Sends tells whether SendTo may be called: not every file can.
func (p *Part) Sends() bool { return p.sender != nil }

func (p *Part) moved(n int) {
	p.off += int64(n)
	p.Left -= int64(n)
}

// contentPiece is how much of a body is written at a time, in bytes.
const contentPiece = 256 << 10

// WriteContent does what WriteStream does with a path, with the content that body gives until
// io.EOF; any other error of body's says that the content is not whole. It
// returns how many bytes were written.
func (s *Service) WriteContent(ctx context.Context, open *ctxfsv1.WriteStreamOpen, body io.Reader) (int64, error) {
	path := open.GetPath() + string(open.GetRawPath())
	if open.Fd != nil {
		return 0, fail(invalid("content is written by path"), "open", path, "")
	}
	w, err := s.openSink(ctx, open)
	if err != nil {
		return 0, fail(err, "open", path, "")
	}
	n, err := w.all(ctx, open.GetFlush(), func() (int64, error) { return w.take(ctx, body) })
	return n, fail(err, "write", path, "")
}

// take writes all of a body.
func (w *sink) take(ctx context.Context, body io.Reader) (total int64, err error) {
	var first [1]byte
	begun, read := fill(first[:], body) // who sends nothing holds no buffer
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
		case read == io.EOF: //nolint:errorlint // an error that holds it is none
			return total, nil
		case read != nil:
			return total, ended(ctx, read)
		}
	}
}

// fill reads until b is full. Its error is body's, io.EOF after a last piece that is short.
func fill(b []byte, body io.Reader) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = body.Read(b[n:])
		n += m
	}
	return n, err
}
