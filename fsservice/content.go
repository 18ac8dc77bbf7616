package fsservice

import (
	"context"
	"io"

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

// OpenContent opens what ReadStream would send of a path. Errors are ReadStream's.
func (s *Service) OpenContent(ctx context.Context, req *ctxfsv1.ReadStreamRequest) (*Content, error) {
	path := req.GetPath() + string(req.GetRawPath())
	if req.Fd != nil {
		return nil, fail(invalid("content is opened by path"), "open", path, "")
	}
	r, err := newChunks(req)
	if err != nil {
		return nil, fail(err, "read", path, "")
	}
	src, err := s.openSource(ctx, readStreamRequest{req})
	if err != nil {
		return nil, fail(err, "open", path, "")
	}
	st, err := r.begin(ctx, src)
	if err != nil {
		src.close()
		return nil, fail(err, "read", path, "")
	}
	length := max(0, min(r.end, st.Size)-r.off)
	return &Content{Stat: wireStat(st), Length: length, src: src, path: path, off: r.off}, nil
}

// Close lets go of the file.
func (c *Content) Close() { c.src.close() }

// Part returns the next part, of up to n bytes, once it is certain that the context is
// still there; nil when all was returned.
func (c *Content) Part(ctx context.Context, n int64) (*Part, error) {
	if n = min(n, c.Length); n == 0 {
		return nil, nil
	}
	if err := c.src.do(ctx, func() error { return nil }); err != nil {
		return nil, fail(err, "read", c.path, "")
	}
	p := &Part{file: c.src.file, off: c.off, Left: n}
	p.sender, _ = c.src.file.(rootfs.Sender)
	c.off += n
	c.Length -= n
	return p, nil
}

// Part is some of a file's content, which is read, or sends itself.
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
